#include "tempera/pass/recognise/unit_norm.h"

#include <cmath>
#include <limits>

#include "tempera/ops/access.h"
#include "tempera/pass/rewrite.h"
#include "tempera/pass/weights.h"

namespace tempera::pass {
namespace {

using graph::Graph;
using graph::NodeId;
using graph::ValueId;

bool is_length(const Graph& graph, NodeId id, ValueId v) {
  const std::optional<graph::Dims> axes = ops::axes_of(graph, id);
  return graph.input(id, 0) == v && axes == graph::Dims{1} && ops::keep_dims(graph, id);
}

// Whether d >= |v| over axis 1 at every place: ReduceL2(v) and what only makes it larger.
bool bounds_length(const Graph& graph, ValueId d, ValueId v) {
  while (graph.producer(d).valid()) {
    const NodeId id = graph.producer(d);
    const graph::Node& node = graph.node(id);
    if (node.is("ReduceL2")) {
      return is_length(graph, id, v);
    }
    if (node.is("Clip")) {
      const std::optional<ops::ClipForm> form = ops::clip_form(graph, id);
      if (!form || form->high < std::numeric_limits<float>::max()) {
        return false;
      }
      d = graph.input(id, 0);
    } else if (node.is("Expand") || node.is("Identity")) {
      d = graph.input(id, 0);
    } else if ((node.is("Max") || node.is("Add")) && node.inputs.size() == 2) {
      const std::size_t fixed = graph.constant(graph.input(id, 0)).has_value() ? 0 : 1;
      const std::optional<double> number = ops::constant_uniform(graph, graph.input(id, fixed));
      if (!number || (node.is("Add") && !(*number >= 0.0))) {
        return false;
      }
      d = graph.input(id, 1 - fixed);
    } else {
      return false;
    }
  }
  return false;
}

bool is_unit(const Graph& graph, NodeId id) {
  const graph::Node& node = graph.node(id);
  if (node.is("LpNormalization")) {
    const std::int64_t rank = ops::rank_of(graph, graph.output(id)).value_or(0);
    return graph.attribute<std::int64_t>(id, "p", 2) == 2 &&
           ops::normalize_axis(graph.attribute<std::int64_t>(id, "axis", -1), rank) == 1;
  }
  return node.is("Div") && bounds_length(graph, graph.input(id, 1), graph.input(id, 0));
}

}  // namespace

std::optional<std::vector<double>> unit_norm_scale(const Graph& graph, ValueId x) {
  const std::optional<std::int64_t> rank = ops::rank_of(graph, x);
  const std::optional<std::int64_t> channels = ops::dim_of(graph, x, 1);
  if (!rank || *rank < 2 || !channels) {
    return std::nullopt;
  }
  std::vector<double> scale(static_cast<std::size_t>(*channels), 1.0);
  while (graph.producer(x).valid()) {
    const NodeId id = graph.producer(x);
    if (is_unit(graph, id)) {
      return scale;
    }
    const bool product = graph.node(id).is("Mul");
    if (!product && !graph.node(id).is("Div")) {
      return std::nullopt;
    }
    const std::size_t fixed = product && graph.constant(graph.input(id, 0)).has_value() ? 0 : 1;
    const std::optional<graph::Tensor> constant = graph.constant(graph.input(id, fixed));
    const auto factor = constant ? spread_along(*constant, *rank, 1, *channels) : std::nullopt;
    x = graph.input(id, 1 - fixed);
    if (!factor || ops::dim_of(graph, x, 1) != channels || ops::rank_of(graph, x) != rank) {
      return std::nullopt;
    }
    for (std::size_t c = 0; c < scale.size(); ++c) {
      scale[c] = product ? scale[c] * (*factor)[c] : scale[c] / (*factor)[c];
    }
  }
  return std::nullopt;
}

}  // namespace tempera::pass
