#include "tempera/pass/recognise/channel_attention.h"

#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "tempera/ops/access.h"
#include "tempera/ops/builder.h"
#include "tempera/ops/einsum.h"
#include "tempera/pass/rewrite.h"

namespace tempera::pass {
namespace {

using graph::Dims;
using graph::Graph;
using graph::NodeId;
using graph::ValueId;

struct Attention {
  ValueId q;  // [N, h d, H, W]
  ValueId k;
  ValueId v;
  ValueId y;
  Dims map;  // N, h d, H, W
  std::int64_t heads = 0;
  std::int64_t depth = 0;
};

bool has_equation(const Graph& graph, NodeId id, std::string_view equation) {
  if (!id.valid() || !graph.node(id).is("Einsum")) {
    return false;
  }
  const auto form = ops::parse_einsum(graph.attribute<std::string>(id, "equation", ""));
  return form && ops::same_contraction(*form, equation);
}

// The map [N, h d, H, W] that a Reshape alone turns into [N h, d, n].
ValueId source_map(const Graph& graph, ValueId id) {
  const NodeId reshape = sole_producer(graph, id, "Reshape");
  return reshape.valid() ? graph.input(reshape, 0) : ValueId{};
}

std::optional<Attention> match(const Graph& graph, NodeId softmax, const PassContext& context) {
  Attention found;
  const std::optional<std::int64_t> axis = ops::axis_of(graph, softmax, context.opset);
  const NodeId scores = sole_producer(graph, graph.input(softmax, 0), "Einsum");
  const NodeId mix = sole_reader(graph, graph.output(softmax));
  if (axis != 2 || !has_equation(graph, scores, "bct,bcs->bts") ||
      !has_equation(graph, mix, "bts,bcs->bct") || graph.input(mix, 0) != graph.output(softmax)) {
    return std::nullopt;
  }
  const NodeId last = sole_reader(graph, graph.output(mix));
  if (!last.valid() || !graph.node(last).is("Reshape")) {
    return std::nullopt;
  }
  found.q = source_map(graph, graph.input(scores, 0));
  found.k = source_map(graph, graph.input(scores, 1));
  found.v = source_map(graph, graph.input(mix, 1));
  found.y = graph.output(last);
  const std::optional<Dims> inner = ops::dims_of(graph, graph.input(scores, 0));
  const std::optional<Dims> map = ops::dims_of(graph, found.y);
  if (!found.q.valid() || !found.k.valid() || !found.v.valid() || !inner || !map || map->size() != 4 ||
      ops::dims_of(graph, found.q) != map || ops::dims_of(graph, found.k) != map ||
      ops::dims_of(graph, found.v) != map || ops::dims_of(graph, graph.input(scores, 1)) != inner ||
      ops::dims_of(graph, graph.input(mix, 1)) != inner) {
    return std::nullopt;
  }
  found.map = *map;
  found.depth = inner->at(1);
  if (found.depth == 0 || found.map[1] % found.depth != 0 || inner->at(2) != found.map[2] * found.map[3]) {
    return std::nullopt;
  }
  found.heads = found.map[1] / found.depth;
  return inner->at(0) == found.map[0] * found.heads ? std::optional(found) : std::nullopt;
}

ValueId emit(Graph& graph, ops::Builder& build, const Attention& a) {
  const std::int64_t pixels = a.map[2] * a.map[3];
  const Dims by_head = {a.map[0], pixels, a.heads, a.depth};
  const auto rows = [&](ValueId x) { return build.reshape(build.transpose(x, {0, 2, 3, 1}), by_head); };
  const ValueId q = build.transpose(rows(a.q), {0, 2, 1, 3});
  const ValueId k = build.transpose(rows(a.k), {0, 2, 3, 1});
  const ValueId v = build.transpose(rows(a.v), {0, 2, 1, 3});
  const ValueId scores = build.node("MatMul", {q, k});
  const ValueId weights = build.node("Softmax", {scores}, {{"axis", std::int64_t{-1}}});
  const ValueId mixed = build.transpose(build.node("MatMul", {weights, v}), {0, 2, 1, 3});
  const ValueId map = build.reshape(mixed, {a.map[0], a.map[2], a.map[3], a.map[1]});
  const ValueId y = build.transpose(map, {0, 3, 1, 2});
  graph.set_type(y, graph.value(a.y).type);
  return y;
}

}  // namespace

PassResult channel_attention(Graph& graph, const PassContext& context) {
  PassResult result;
  if (!context.lossy_rounding || context.target_engine != "openvino" || context.opset < 13) {
    return result;
  }
  for (const NodeId id : graph.nodes()) {
    if (!graph.alive(id) || !graph.node(id).is("Softmax")) {
      continue;
    }
    if (const std::optional<Attention> found = match(graph, id, context)) {
      ops::Builder build(graph, context.opset, site(graph, id) + "_attention");
      const ValueId y = emit(graph, build, *found);
      note(result, graph, id,
           fmt::format("Einsum, Softmax, Einsum -> attention of {} heads over {} pixels", found->heads,
                       found->map[2] * found->map[3]));
      substitute(graph, found->y, y);
      graph.remove_dead();
    }
  }
  return finish(graph, std::move(result));
}

}  // namespace tempera::pass
