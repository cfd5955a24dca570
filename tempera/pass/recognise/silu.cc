#include "tempera/pass/recognise/silu.h"

#include "tempera/ops/access.h"
#include "tempera/ops/builder.h"
#include "tempera/pass/rewrite.h"

namespace tempera::pass {
namespace {

using graph::Graph;
using graph::NodeId;
using graph::ValueId;

constexpr std::int64_t kLeastElements = 4096;

// The x of x sigmoid(x); an invalid id when the node is something else. `reason` says why a SiLU cannot be rewritten.
ValueId match_silu(const Graph& graph, NodeId id, std::string& reason) {
  const graph::Node& node = graph.node(id);
  if (node.is("Swish")) {
    return graph.attribute<float>(id, "alpha", 1.0F) == 1.0F ? graph.input(id, 0) : ValueId{};
  }
  if (!node.is("Mul") || !ops::is_numpy_broadcast(graph, id)) {
    return {};
  }
  for (std::size_t i = 0; i < 2; ++i) {
    const ValueId gate = graph.input(id, i);
    const NodeId sigmoid = producer_of(graph, gate, "Sigmoid");
    if (sigmoid.valid() && graph.input(sigmoid, 0) == graph.input(id, 1 - i)) {
      reason = reason_kept(graph, gate);
      return graph.input(sigmoid, 0);
    }
  }
  return {};
}

// Elements along the dimensions that are numbers.
std::int64_t known_elements(const Graph& graph, ValueId id) {
  std::int64_t count = 1;
  const auto& type = graph.value(id).type;
  if (!type.is_tensor() || !type.shape) {
    return 0;
  }
  for (const graph::Dim& dim : *type.shape) {
    if (dim.fixed() && __builtin_mul_overflow(count, dim.value, &count)) {
      return 0;
    }
  }
  return count;
}

// A convolution makes x for this SiLU alone: its two uses are the gate and the product.
bool follows_conv(const Graph& graph, NodeId silu, ValueId x) {
  const NodeId producer = graph.producer(x);
  if (!producer.valid() || (!graph.node(producer).is("Conv") && !graph.node(producer).is("ConvTranspose"))) {
    return false;
  }
  return graph.uses(x).size() == (graph.node(silu).is("Swish") ? 1U : 2U) && !graph.is_pinned(x);
}

}  // namespace

PassResult silu_by_tanh(Graph& graph, const PassContext& context) {
  PassResult result;
  if (context.target_engine != "openvino" || !context.lossy_rounding) {
    return result;
  }
  for (const NodeId id : graph.nodes()) {
    std::string reason;
    const ValueId x = match_silu(graph, id, reason);
    if (!x.valid()) {
      continue;
    }
    const auto type = ops::element_of(graph, x);
    if (reason.empty() && (!ops::is_arithmetic_float(type) || known_elements(graph, x) < kLeastElements)) {
      reason = "small, or of unknown type";
    }
    if (reason.empty() && follows_conv(graph, id, x)) {
      reason = "the engine computes it inside the convolution before it";
    }
    if (!reason.empty()) {
      decline(result, graph, id, reason);
      continue;
    }
    note(result, graph, id, "x sigmoid(x) -> x/2 (1 + tanh(x/2))");
    const graph::ValueType& shape = graph.value(x).type;
    ops::Builder build(graph, context.opset, site(graph, id));
    const ValueId half = build.node("Mul", {x, build.scalar(0.5, type)}, {}, shape);
    const ValueId tanh = build.node("Tanh", {half}, {}, shape);
    const ValueId gate = build.node("Add", {tanh, build.scalar(1.0, type)}, {}, shape);
    substitute(graph, graph.output(id), build.node("Mul", {half, gate}, {}, shape));
  }
  return finish(graph, std::move(result));
}

}  // namespace tempera::pass
