#include "tempera/pass/layout/split_concat_conv.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "tempera/ops/access.h"
#include "tempera/pass/origins.h"
#include "tempera/pass/rewrite.h"
#include "tempera/pass/weights.h"

namespace tempera::pass {
namespace {

using graph::Dims;
using graph::Graph;
using graph::NodeId;
using graph::Tensor;
using graph::ValueId;

constexpr std::size_t kMostParts = 16;
constexpr std::int64_t kLeastTogether = 64;

// The channels of each part; nothing when they are unknown, or too few to gain anything.
std::optional<Dims> part_channels(const Graph& graph, NodeId concat) {
  const std::vector<ValueId>& parts = graph.node(concat).inputs;
  if (parts.size() < 2 || parts.size() > kMostParts) {
    return std::nullopt;
  }
  Dims channels;
  for (const ValueId part : parts) {
    channels.push_back(ops::dim_of(graph, part, 1).value_or(0));
  }
  const bool known = std::all_of(channels.begin(), channels.end(), [](std::int64_t c) { return c > 0; });
  return known && std::accumulate(channels.begin(), channels.end(), std::int64_t{0}) >= kLeastTogether
             ? std::optional(channels)
             : std::nullopt;
}

bool splits_by_input(const Graph& graph, const graph::Use& use, std::int64_t channels) {
  if (!graph.node(use.node).is("Conv") || use.input != 0 ||
      graph.attribute<std::int64_t>(use.node, "group", 1) != 1) {
    return false;
  }
  const std::optional<Tensor> weight = graph.constant(graph.input(use.node, 1));
  return weight && ops::is_arithmetic_float(weight->type()) && weight->rank() == 4 && weight->dims()[1] == channels;
}

void split_conv(Graph& graph, NodeId id, NodeId concat, const Dims& channels) {
  const Tensor weight = *graph.constant(graph.input(id, 1));
  const graph::ValueType type = graph.value(graph.output(id)).type;
  ValueId sum;
  std::int64_t start = 0;
  for (std::size_t part = 0; part < channels.size(); ++part) {
    std::vector<ValueId> inputs = {graph.input(concat, part),
                                   add_derived(graph, graph.input(id, 1), slice_tensor(weight, 1, start, channels[part]))};
    if (part == 0 && graph.input(id, 2).valid()) {
      inputs.push_back(graph.input(id, 2));
    }
    const ValueId partial = graph.add_node("Conv", std::move(inputs), site(graph, id), graph.node(id).attributes);
    graph.set_type(partial, type);
    sum = part == 0 ? partial : graph.add_node("Add", {sum, partial}, site(graph, id) + "_sum");
    graph.set_type(sum, type);
    start += channels[part];
  }
  substitute(graph, graph.output(id), sum);
}

}  // namespace

PassResult split_concat_conv(Graph& graph, const PassContext& context) {
  PassResult result;
  if (context.target_engine != "openvino" || !context.lossy_rounding || context.opset < 7) {
    return result;
  }
  for (const NodeId concat : graph.nodes()) {
    if (!graph.node(concat).is("Concat") || ops::axis_of(graph, concat, context.opset) != 1) {
      continue;
    }
    const std::optional<Dims> channels = part_channels(graph, concat);
    if (!channels) {
      continue;
    }
    const ValueId joined = graph.output(concat);
    const std::vector<graph::Use> uses = graph.uses(joined);
    const bool all = std::all_of(uses.begin(), uses.end(), [&](const graph::Use& use) {
      return splits_by_input(graph, use, std::accumulate(channels->begin(), channels->end(), std::int64_t{0}));
    });
    if (uses.empty() || !all || graph.is_pinned(joined)) {
      decline(result, graph, concat, "the joined value is needed by more than convolutions with constant weights");
      continue;
    }
    for (const graph::Use& use : uses) {
      note(result, graph, use.node, fmt::format("Conv(Concat of {}) -> sum of {} Conv", channels->size(), channels->size()));
      split_conv(graph, use.node, concat, *channels);
    }
  }
  return finish(graph, std::move(result));
}

}  // namespace tempera::pass
