#include "tempera/pass/fuse/affine.h"

#include <fmt/format.h>

#include "tempera/pass/fuse/channel_affine.h"
#include "tempera/pass/origins.h"
#include "tempera/pass/rewrite.h"

namespace tempera::pass {
namespace {

using graph::Graph;
using graph::NodeId;
using graph::ValueId;

// Fuses the node into the multiplying node that makes its input `x`, when it is one.
void fuse_into_producer(Graph& graph, NodeId id, ValueId x, PassResult& result) {
  const NodeId producer = graph.producer(x);
  if (!producer.valid()) {
    return;
  }
  const std::optional<ScalableNode> target = match_scalable(graph, producer);
  if (!target) {
    return;
  }
  const std::optional<ChannelAffine> affine =
      match_affine(graph, id, x, target->rank, target->axis, target->channels);
  if (!affine) {
    return;
  }
  if (const std::string reason = reason_kept(graph, x); !reason.empty()) {
    decline(result, graph, id, reason);
    return;
  }
  if (const std::string reason = apply_affine(graph, *target, *affine); !reason.empty()) {
    decline(result, graph, id, reason);
    return;
  }
  const std::string op = graph.node(producer).op_type;
  note(result, graph, id, fmt::format("{} + {} -> {}", op, graph.node(id).op_type, op));
  take_over_origin(graph, x, graph.output(id));
  substitute(graph, graph.output(id), x);
  graph.erase(id);  // now, so that the next step behind it finds x with one reader
}

}  // namespace

PassResult fuse_batch_norm(Graph& graph, const PassContext& context) {
  PassResult result;
  if (!context.lossy_rounding) {
    return result;
  }
  for (const NodeId id : graph.nodes()) {
    if (graph.node(id).is("BatchNormalization")) {
      fuse_into_producer(graph, id, graph.input(id, 0), result);
    }
  }
  return finish(graph, std::move(result));
}

PassResult fuse_scale(Graph& graph, const PassContext& context) {
  PassResult result;
  if (!context.lossy_rounding) {
    return result;
  }
  for (const NodeId id : graph.nodes()) {
    const graph::Node& node = graph.node(id);
    if (!node.is("Mul") && !node.is("Div") && !node.is("Add") && !node.is("Sub")) {
      continue;
    }
    const bool right = graph.constant(graph.input(id, 0)).has_value();
    if (right != graph.constant(graph.input(id, 1)).has_value()) {
      fuse_into_producer(graph, id, graph.input(id, right ? 1 : 0), result);
    }
  }
  return finish(graph, std::move(result));
}

}  // namespace tempera::pass
