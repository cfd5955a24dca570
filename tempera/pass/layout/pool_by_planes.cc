#include "tempera/pass/layout/pool_by_planes.h"

#include <optional>

#include <fmt/format.h>

#include "tempera/ops/access.h"
#include "tempera/ops/builder.h"
#include "tempera/pass/rewrite.h"

namespace tempera::pass {
namespace {

using graph::Dims;
using graph::Graph;
using graph::NodeId;
using graph::ValueId;

// A MaxPool over three axes.
struct Pool {
  NodeId node;
  Dims input;   // N, C, D, H, W; N may be -1
  Dims output;
  Dims kernel;
  Dims strides;
  Dims dilations;
  Dims pads;  // begins, then ends
};

std::optional<Dims> sizes_of(const Graph& graph, ValueId id) {
  if (ops::rank_of(graph, id) != 5) {
    return std::nullopt;
  }
  Dims dims = {-1};
  for (std::int64_t axis = 1; axis < 5; ++axis) {
    const std::optional<std::int64_t> dim = ops::dim_of(graph, id, axis);
    if (!dim) {
      return std::nullopt;
    }
    dims.push_back(*dim);
  }
  return dims;
}

std::optional<Pool> match_pool(const Graph& graph, NodeId id) {
  const graph::Node& node = graph.node(id);
  if (!node.is("MaxPool") || !graph.value(graph.input(id, 0)).is_input) {
    return std::nullopt;
  }
  const std::optional<Dims> input = sizes_of(graph, graph.input(id, 0));
  const std::optional<Dims> output = sizes_of(graph, graph.output(id));
  if (!input || !output) {
    return std::nullopt;
  }
  Pool pool{id, *input, *output, graph.attribute<Dims>(id, "kernel_shape", {}), graph.attribute<Dims>(id, "strides", {1, 1, 1}),
            graph.attribute<Dims>(id, "dilations", {1, 1, 1}), graph.attribute<Dims>(id, "pads", {0, 0, 0, 0, 0, 0})};
  const bool whole = pool.kernel.size() == 3 && pool.strides.size() == 3 && pool.dilations.size() == 3 && pool.pads.size() == 6;
  return whole && pool.kernel[0] > 1 && (pool.kernel[1] > 1 || pool.kernel[2] > 1) ? std::optional(pool) : std::nullopt;
}

ops::Builder::Attributes window(const Dims& kernel, const Dims& strides, const Dims& dilations, const Dims& pads) {
  ops::Builder::Attributes attributes = {{"kernel_shape", kernel}, {"strides", strides}, {"pads", pads}};
  if (dilations != Dims{1, 1}) {
    attributes.emplace("dilations", dilations);  // not there before opset 10
  }
  return attributes;
}

void apply(Graph& graph, const Pool& pool, std::int64_t opset) {
  const ValueId whole = graph.output(pool.node);
  ops::Builder builder(graph, opset, site(graph, pool.node));
  const std::int64_t channels = pool.input[1];
  const std::int64_t depth = pool.input[2];
  const Dims& after = pool.output;
  const Dims& pads = pool.pads;
  // The first size 0 keeps N.
  const ValueId planes = builder.reshape(graph.input(pool.node, 0), {0, channels * depth, pool.input[3], pool.input[4]});
  const ValueId pooled =
      builder.node("MaxPool", {planes},
                   window({pool.kernel[1], pool.kernel[2]}, {pool.strides[1], pool.strides[2]},
                          {pool.dilations[1], pool.dilations[2]}, {pads[1], pads[2], pads[4], pads[5]}));
  // Windows that tile the depth are rows of their own: engines share out work by channels.
  const bool tiles = pool.strides[0] == pool.kernel[0] && pool.dilations[0] == 1 && pads[0] == 0 && pads[3] == 0 &&
                     depth % pool.kernel[0] == 0;
  const std::int64_t windows = tiles ? depth / pool.kernel[0] : 1;
  const ValueId rows = builder.reshape(pooled, {0, channels * windows, depth / windows, after[3] * after[4]});
  const ValueId both = builder.node(
      "MaxPool", {rows}, window({pool.kernel[0], 1}, {pool.strides[0], 1}, {pool.dilations[0], 1}, {pads[0], 0, pads[3], 0}));
  substitute(graph, whole, builder.reshape(both, {0, channels, after[2], after[3], after[4]}));
}

}  // namespace

PassResult pool_by_planes(Graph& graph, const PassContext& context) {
  PassResult result;
  if (context.target_engine != "openvino") {
    return result;
  }
  for (const NodeId id : graph.nodes()) {
    const std::optional<Pool> pool = match_pool(graph, id);
    if (!pool) {
      continue;
    }
    if (graph.node(id).outputs.size() > 1 && graph.output(id, 1).valid()) {
      decline(result, graph, id, "it also gives the places of the maxima");
    } else if (graph.attribute<std::string>(id, "auto_pad", "NOTSET") != "NOTSET") {
      decline(result, graph, id, "its padding is left to the engine");
    } else if (graph.attribute<std::int64_t>(id, "ceil_mode", 0) != 0) {
      decline(result, graph, id, "its last windows may lie in the padding, which engines count in different ways");
    } else {
      apply(graph, *pool, context.opset);
      note(result, graph, id, "MaxPool of volumes -> MaxPool of planes, MaxPool of rows");
    }
  }
  return finish(graph, std::move(result));
}

}  // namespace tempera::pass
