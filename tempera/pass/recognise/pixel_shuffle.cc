#include "tempera/pass/recognise/pixel_shuffle.h"

#include <map>

#include "tempera/ops/access.h"
#include "tempera/pass/rewrite.h"

namespace tempera::pass {
namespace {

using graph::Dims;
using graph::Graph;
using graph::NodeId;
using graph::ValueId;

// Reshape to six dimensions, Transpose, Reshape to four; the sizes of x, of the middle and of the result, -1 where not fixed.
struct Steps {
  ValueId x;
  Dims before;
  Dims middle;
  Dims after;
  Dims perm;
};

std::optional<Dims> loose_dims(const Graph& graph, ValueId id, std::size_t rank) {
  const auto& type = graph.value(id).type;
  if (!type.is_tensor() || !type.shape || type.shape->size() != rank) {
    return std::nullopt;
  }
  Dims dims;
  for (const graph::Dim& dim : *type.shape) {
    dims.push_back(dim.fixed() ? dim.value : -1);
  }
  return dims;
}

std::optional<Steps> match_steps(const Graph& graph, NodeId merge) {
  const NodeId turn = sole_producer(graph, graph.input(merge, 0), "Transpose");
  const NodeId cut = turn.valid() ? sole_producer(graph, graph.input(turn, 0), "Reshape") : NodeId{};
  if (!cut.valid()) {
    return std::nullopt;
  }
  const ValueId x = graph.input(cut, 0);
  const auto before = loose_dims(graph, x, 4);
  const auto middle = loose_dims(graph, graph.output(cut), 6);
  const auto after = loose_dims(graph, graph.output(merge), 4);
  const auto perm = ops::permutation_of(graph, turn);
  if (!before || !middle || !after || !perm) {
    return std::nullopt;
  }
  for (std::size_t i = 1; i < 6; ++i) {
    if ((*middle)[i] < 1 || (i < 4 && ((*before)[i] < 1 || (*after)[i] < 1))) {
      return std::nullopt;
    }
  }
  // The batch keeps its place: with all other sizes fixed, a Reshape that says so for them says so for it.
  return Steps{x, *before, *middle, *after, *perm};
}

struct Shuffle {
  std::string op;
  std::int64_t block = 0;
  std::string mode;
};

std::optional<Shuffle> classify(const Steps& s) {
  const Dims& m = s.middle;
  const auto same = [&](const Dims& before, const Dims& after) {
    return Dims(s.before.begin() + 1, s.before.end()) == before && Dims(s.after.begin() + 1, s.after.end()) == after;
  };
  if (s.perm == Dims{0, 1, 4, 2, 5, 3} && m[2] == m[3] &&
      same({m[1] * m[2] * m[3], m[4], m[5]}, {m[1], m[4] * m[2], m[5] * m[3]})) {
    return Shuffle{"DepthToSpace", m[2], "CRD"};
  }
  if (s.perm == Dims{0, 3, 4, 1, 5, 2} && m[1] == m[2] &&
      same({m[1] * m[2] * m[3], m[4], m[5]}, {m[3], m[4] * m[1], m[5] * m[2]})) {
    return Shuffle{"DepthToSpace", m[1], "DCR"};
  }
  if (s.perm == Dims{0, 3, 5, 1, 2, 4} && m[3] == m[5] &&
      same({m[1], m[2] * m[3], m[4] * m[5]}, {m[1] * m[3] * m[5], m[2], m[4]})) {
    return Shuffle{"SpaceToDepth", m[3], ""};
  }
  return std::nullopt;
}

}  // namespace

PassResult pixel_shuffle(Graph& graph, const PassContext& context) {
  PassResult result;
  if (context.opset < 11) {
    return result;
  }
  for (const NodeId id : graph.nodes()) {
    if (!graph.node(id).is("Reshape") || graph.is_unused(graph.output(id))) {
      continue;
    }
    const std::optional<Steps> steps = match_steps(graph, id);
    const std::optional<Shuffle> shuffle = steps ? classify(*steps) : std::nullopt;
    if (!shuffle || shuffle->block < 2) {
      continue;
    }
    note(result, graph, id, "Reshape + Transpose + Reshape -> " + shuffle->op);
    std::map<std::string, graph::Attribute, std::less<>> attributes = {{"blocksize", shuffle->block}};
    if (!shuffle->mode.empty()) {
      attributes.emplace("mode", shuffle->mode);
    }
    substitute(graph, graph.output(id), graph.add_node(shuffle->op, {steps->x}, site(graph, id), std::move(attributes)));
  }
  return finish(graph, std::move(result));
}

}  // namespace tempera::pass
