#include "tempera/optimize/layer_kinds.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>

#include <fmt/format.h>

namespace tempera::optimize {
namespace {

std::string kind_of(const compress::Layer& layer, const graph::Graph& graph) {
  std::string kind = layer.op_type;
  if (!layer.has_weight()) {
    return kind + " of activations";
  }
  const std::optional<graph::Tensor> weight = graph.constant(layer.weight);
  if (weight.has_value() && weight->rank() > 2) {
    for (std::int64_t axis = 2; axis < weight->rank(); ++axis) {
      kind += fmt::format("{}{}", axis == 2 ? " " : "x", weight->dims()[static_cast<std::size_t>(axis)]);
    }
  }
  return layer.group > 1 ? "grouped " + kind : kind;
}

}  // namespace

std::vector<std::pair<std::string, std::vector<std::string>>> kinds_of(const std::vector<compress::Layer>& layers,
                                                                       const compress::QuantizationPlan& plan,
                                                                       const graph::Graph& graph) {
  std::map<std::string, std::vector<std::string>> members;
  std::map<std::string, std::int64_t> work;
  for (const compress::Layer& layer : layers) {
    if (plan.contains(layer.name)) {
      const std::string kind = kind_of(layer, graph);
      members[kind].push_back(layer.name);
      work[kind] += layer.multiplications;
    }
  }
  std::vector<std::pair<std::string, std::vector<std::string>>> kinds(members.begin(), members.end());
  std::stable_sort(kinds.begin(), kinds.end(),
                   [&](const auto& a, const auto& b) { return work.at(a.first) > work.at(b.first); });
  return kinds;
}

}  // namespace tempera::optimize
