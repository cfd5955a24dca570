#include "tempera/pass/layout/delay_reshape.h"

#include <optional>
#include <vector>

#include "tempera/ops/access.h"
#include "tempera/ops/builder.h"
#include "tempera/pass/rewrite.h"

namespace tempera::pass {
namespace {

using graph::Graph;
using graph::NodeId;
using graph::ValueId;

// A constant of one element and at most the rank given, so that it broadcasts without adding dimensions.
bool is_one_number(const Graph& graph, ValueId id, std::int64_t rank) {
  const std::optional<graph::Tensor> constant = graph.constant(id);
  return constant.has_value() && constant->size() == 1 && constant->rank() <= rank;
}

bool move_factor(Graph& graph, NodeId id, const PassContext& context) {
  for (const std::size_t side : {0U, 1U}) {
    const ValueId reshaped = graph.input(id, side);
    const NodeId reshape = sole_producer(graph, reshaped, "Reshape");
    if (!reshape.valid()) {
      continue;
    }
    const ValueId x = graph.input(reshape, 0);
    const ValueId factor = graph.input(id, 1 - side);
    const std::optional<std::int64_t> rank = ops::rank_of(graph, reshaped);
    if (!rank || !is_one_number(graph, factor, *rank) || graph.constant(x).has_value()) {
      continue;
    }
    // One number of any rank has the same effect as a scalar, which can not raise the rank of x either.
    ops::Builder build(graph, context.opset, site(graph, id));
    const ValueId number = build.constant(graph.constant(factor)->reshaped({}));
    const ValueId scaled = build.node("Mul", {x, number}, {}, graph.value(x).type);
    graph::Node moved = graph.node(reshape);
    const ValueId out = build.node("Reshape", {scaled, graph.input(reshape, 1)}, moved.attributes,
                                   graph.value(reshaped).type);
    substitute(graph, graph.output(id), out);
    return true;
  }
  return false;
}

bool move_split(Graph& graph, NodeId id, const PassContext& context) {
  const ValueId reshaped = graph.input(id, 0);
  const NodeId reshape = sole_producer(graph, reshaped, "Reshape");
  const std::optional<ops::SplitForm> form = ops::split_form(graph, id);
  if (!reshape.valid() || !form || form->axis != 1) {
    return false;
  }
  const ValueId x = graph.input(reshape, 0);
  const std::optional<graph::Dims> before = ops::dims_of(graph, x);
  const std::optional<graph::Dims> after = ops::dims_of(graph, reshaped);
  if (!before || !after || before->size() < 2 || after->size() < 2 || before->at(0) != after->at(0) ||
      before->at(1) != after->at(1)) {
    return false;
  }
  ops::Builder build(graph, context.opset, site(graph, id));
  const std::vector<ValueId> pieces = build.split(x, 1, form->sizes);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const ValueId old = graph.output(id, i);
    if (!old.valid()) {
      continue;
    }
    graph::Dims dims = *after;
    dims[1] = form->sizes[i];
    substitute(graph, old, build.reshape(pieces[i], dims));
  }
  return true;
}

}  // namespace

PassResult delay_reshape(Graph& graph, const PassContext& context) {
  PassResult result;
  for (const NodeId id : graph.nodes()) {
    if (!graph.alive(id)) {
      continue;
    }
    const bool factor = graph.node(id).is("Mul") && context.lossy_rounding;
    if (factor && move_factor(graph, id, context)) {
      note(result, graph, id, "Mul(Reshape) -> Reshape(Mul)");
    } else if (graph.node(id).is("Split") && move_split(graph, id, context)) {
      note(result, graph, id, "Split(Reshape) -> Reshapes of a Split");
    }
  }
  return finish(graph, std::move(result));
}

}  // namespace tempera::pass
