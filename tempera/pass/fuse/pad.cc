#include "tempera/pass/fuse/pad.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "tempera/ops/access.h"
#include "tempera/pass/rewrite.h"

namespace tempera::pass {
namespace {

using graph::Dims;
using graph::Graph;
using graph::NodeId;

bool spatial_only(const ops::PadForm& form) {
  const auto not_negative = [](std::int64_t p) { return p >= 0; };
  return form.mode == "constant" && form.begin.size() >= 3 && form.begin[0] == 0 && form.begin[1] == 0 &&
         form.end[0] == 0 && form.end[1] == 0 && std::all_of(form.begin.begin(), form.begin.end(), not_negative) &&
         std::all_of(form.end.begin(), form.end.end(), not_negative);
}

// Why the reader cannot take the padding over; empty when it can.
std::string reason_against(const Graph& graph, NodeId id, const ops::PadForm& pad, const ops::ConvForm& form) {
  const graph::Node& node = graph.node(id);
  if (form.auto_pad != "NOTSET" && form.auto_pad != "VALID") {
    return "auto_pad depends on the padded size";
  }
  if (form.kernel.size() + 2 != pad.begin.size()) {
    return "the ranks differ";
  }
  if (node.is("Conv")) {
    return pad.value == 0.0 ? "" : "the padding is not zero";
  }
  if (graph.attribute<std::int64_t>(id, "ceil_mode", 0) != 0) {
    return "the pooling rounds its size up";
  }
  for (std::size_t i = 0; i < form.kernel.size(); ++i) {
    if (form.pads_begin[i] + pad.begin[i + 2] >= form.kernel[i] || form.pads_end[i] + pad.end[i + 2] >= form.kernel[i]) {
      return "the padding is as large as the kernel";
    }
  }
  if (node.is("MaxPool")) {
    const bool lowest = pad.value <= -std::numeric_limits<float>::max();
    const bool indices = graph.output(id, 1).valid();
    return lowest && !indices ? "" : "the padding is not minus infinity, or the pooling gives indices";
  }
  const auto none = [](std::int64_t p) { return p == 0; };
  const bool own = !std::all_of(form.pads_begin.begin(), form.pads_begin.end(), none) ||
                   !std::all_of(form.pads_end.begin(), form.pads_end.end(), none);
  if (own && graph.attribute<std::int64_t>(id, "count_include_pad", 0) == 0) {
    return "the pooling does not count its own padding";
  }
  return pad.value == 0.0 ? "" : "the padding is not zero";
}

}  // namespace

PassResult fuse_pad(Graph& graph, const PassContext& context) {
  PassResult result;
  for (const NodeId id : graph.nodes()) {
    const graph::Node& node = graph.node(id);
    const bool average = node.is("AveragePool");
    if (!node.is("Conv") && !node.is("MaxPool") && !average) {
      continue;
    }
    const NodeId pad = producer_of(graph, graph.input(id, 0), "Pad");
    if (!pad.valid()) {
      continue;
    }
    const std::optional<ops::PadForm> form = ops::pad_form(graph, pad);
    const std::optional<ops::ConvForm> own = ops::conv_form(graph, id);
    if (!form || !own || !spatial_only(*form)) {
      decline(result, graph, id, "the amounts are not constant, are negative, or pad other than spatial axes");
      continue;
    }
    std::string reason = reason_against(graph, id, *form, *own);
    if (average && context.opset < 7) {
      reason = "count_include_pad is not in this opset";
    }
    if (!reason.empty()) {
      decline(result, graph, id, reason);
      continue;
    }
    Dims pads;
    for (std::size_t i = 0; i < own->kernel.size(); ++i) {
      pads.push_back(own->pads_begin[i] + form->begin[i + 2]);
    }
    for (std::size_t i = 0; i < own->kernel.size(); ++i) {
      pads.push_back(own->pads_end[i] + form->end[i + 2]);
    }
    note(result, graph, id, fmt::format("Pad + {} -> {}", node.op_type, node.op_type));
    graph.set_attribute(id, "pads", pads);
    graph.remove_attribute(id, "auto_pad");
    if (average) {
      graph.set_attribute(id, "count_include_pad", std::int64_t{1});
    }
    graph.set_input(id, 0, graph.input(pad, 0));
  }
  return finish(graph, std::move(result));
}

}  // namespace tempera::pass
