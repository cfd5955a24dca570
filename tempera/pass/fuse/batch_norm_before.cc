#include "tempera/pass/fuse/batch_norm_before.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "tempera/ops/access.h"
#include "tempera/pass/fuse/channel_affine.h"
#include "tempera/pass/origins.h"
#include "tempera/pass/rewrite.h"
#include "tempera/pass/weights.h"

namespace tempera::pass {
namespace {

using graph::Graph;
using graph::NodeId;
using graph::Tensor;
using graph::ValueId;

// A node that multiplies x by constant weights. As W[m, c, k]: output m, input c of its group, place k in the kernel.
struct Linear {
  NodeId node;
  Tensor weight;
  std::int64_t rank = 0;      // of x
  std::int64_t channels = 0;  // of x
  std::int64_t outputs = 0;
  std::int64_t inputs = 0;  // of a group
  std::int64_t places = 1;
  bool output_first = true;  // else W[c, m]
  double alpha = 1.0;        // y = alpha W x + bias
  std::vector<double> bias;

  // Index in the weight of W[m, c, k].
  [[nodiscard]] std::size_t at(std::int64_t m, std::int64_t c, std::int64_t k) const {
    return static_cast<std::size_t>(output_first ? (m * inputs + c) * places + k : c * outputs + m);
  }
  // The channel of x that is input c of the group that makes output m.
  [[nodiscard]] std::size_t channel(std::int64_t m, std::int64_t c) const {
    const std::int64_t groups = channels / inputs;
    return static_cast<std::size_t>(m / (outputs / groups) * inputs + c);
  }
};

std::optional<Linear> match_linear(const Graph& graph, NodeId id) {
  const graph::Node& node = graph.node(id);
  const std::optional<Tensor> weight = graph.constant(graph.input(id, 1));
  const bool gemm = node.is("Gemm");
  if ((!gemm && !node.is("Conv")) || !weight || !ops::is_arithmetic_float(weight->type()) || weight->size() == 0) {
    return std::nullopt;
  }
  Linear linear;
  linear.node = id;
  linear.weight = *weight;
  linear.rank = weight->rank();
  double beta = 1.0;
  if (gemm) {
    if (linear.rank != 2 || graph.attribute<std::int64_t>(id, "transA", 0) != 0) {
      return std::nullopt;
    }
    linear.output_first = graph.attribute<std::int64_t>(id, "transB", 0) != 0;
    linear.outputs = weight->dims()[linear.output_first ? 0 : 1];
    linear.inputs = weight->dims()[linear.output_first ? 1 : 0];
    linear.channels = linear.inputs;
    linear.alpha = graph.attribute<float>(id, "alpha", 1.0F);
    beta = graph.attribute<float>(id, "beta", 1.0F);
  } else {
    const std::int64_t group = graph.attribute<std::int64_t>(id, "group", 1);
    if (linear.rank < 3 || group < 1 || weight->dims()[0] % group != 0) {
      return std::nullopt;
    }
    linear.outputs = weight->dims()[0];
    linear.inputs = weight->dims()[1];
    linear.channels = linear.inputs * group;
    linear.places = weight->size() / (linear.outputs * linear.inputs);
  }
  linear.bias.assign(static_cast<std::size_t>(linear.outputs), 0.0);
  if (const ValueId bias = graph.input(id, 2); bias.valid()) {
    const std::optional<Tensor> tensor = graph.constant(bias);
    const auto spread = tensor ? spread_along(*tensor, gemm ? 2 : 1, gemm ? 1 : 0, linear.outputs) : std::nullopt;
    if (!spread) {
      return std::nullopt;
    }
    std::transform(spread->begin(), spread->end(), linear.bias.begin(), [beta](double b) { return beta * b; });
  }
  return linear;
}

bool may_pad(const Graph& graph, NodeId id) {
  if (!graph.node(id).is("Conv")) {
    return false;
  }
  const std::optional<ops::ConvForm> form = ops::conv_form(graph, id);
  const auto none = [](const graph::Dims& pads) {
    return std::all_of(pads.begin(), pads.end(), [](std::int64_t p) { return p == 0; });
  };
  return !form || (form->auto_pad != "VALID" &&
                   (form->auto_pad != "NOTSET" || !none(form->pads_begin) || !none(form->pads_end)));
}

// \return why it cannot be; empty when done
std::string apply(Graph& graph, const Linear& linear, const ChannelAffine& affine) {
  std::vector<double> weights = to_doubles(linear.weight);
  std::vector<double> bias = linear.bias;
  for (std::int64_t m = 0; m < linear.outputs; ++m) {
    for (std::int64_t c = 0; c < linear.inputs; ++c) {
      const std::size_t channel = linear.channel(m, c);
      for (std::int64_t k = 0; k < linear.places; ++k) {
        double& w = weights[linear.at(m, c, k)];
        bias[static_cast<std::size_t>(m)] += linear.alpha * w * affine.shift[channel];
        w *= affine.scale[channel];
      }
    }
  }
  std::optional<Tensor> weight = encode_weights(linear.weight.type(), linear.weight.dims(), weights);
  std::optional<Tensor> shift = encode_weights(linear.weight.type(), {linear.outputs}, bias);
  if (!weight || !shift) {
    return fmt::format("the new weights leave the range of {}", numeric::to_string(linear.weight.type()));
  }
  const NodeId id = linear.node;
  const ValueId old_bias = graph.input(id, 2);
  graph.set_input(id, 1, add_derived(graph, graph.input(id, 1), std::move(*weight)));
  if (old_bias.valid() || std::any_of(bias.begin(), bias.end(), [](double b) { return b != 0.0; })) {
    graph.set_input(id, 2,
                    old_bias.valid() ? add_derived(graph, old_bias, std::move(*shift))
                                     : graph.add_initializer(site(graph, id) + "_bias", std::move(*shift)));
    if (graph.has_attribute(id, "beta")) {
      graph.remove_attribute(id, "beta");  // it is in the new bias
    }
  }
  return {};
}

}  // namespace

PassResult fuse_batch_norm_before(Graph& graph, const PassContext& context) {
  PassResult result;
  if (!context.lossy_rounding) {
    return result;
  }
  for (const NodeId id : graph.nodes()) {
    const ValueId middle = graph.input(id, 0);
    const NodeId norm = middle.valid() ? producer_of(graph, middle, "BatchNormalization") : NodeId{};
    const std::optional<Linear> linear = norm.valid() ? match_linear(graph, id) : std::nullopt;
    const std::optional<ChannelAffine> affine =
        linear ? match_affine(graph, norm, graph.input(norm, 0), linear->rank, 1, linear->channels) : std::nullopt;
    if (!affine) {
      continue;
    }
    std::string reason = reason_kept(graph, middle);
    if (reason.empty() && may_pad(graph, id) &&
        std::any_of(affine->shift.begin(), affine->shift.end(), [](double t) { return t != 0.0; })) {
      reason = "the convolution pads with zeros, which the norm does not leave zero";
    }
    if (reason.empty()) {
      reason = apply(graph, *linear, *affine);
    }
    if (!reason.empty()) {
      decline(result, graph, id, reason);
      continue;
    }
    note(result, graph, id, fmt::format("BatchNormalization + {0} -> {0}", graph.node(id).op_type));
    graph.set_input(id, 0, graph.input(norm, 0));
    graph.erase(norm);
  }
  return finish(graph, std::move(result));
}

}  // namespace tempera::pass
