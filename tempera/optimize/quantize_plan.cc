#include "tempera/optimize/quantize_plan.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include <fmt/format.h>

#include "tempera/base/error.h"
#include "tempera/compress/quantize/encode.h"
#include "tempera/compress/quantize/placement.h"

namespace tempera::optimize {
namespace {

using compress::Layer;

constexpr double kNegligible = 0.005;  // of all weights' bytes

// The smallest layers that hold a negligible share of the weights together.
std::vector<std::string> smallest_layers(const graph::Graph& graph, const std::vector<Layer>& layers) {
  std::vector<std::pair<std::size_t, std::string>> sizes;
  std::size_t total = 0;
  for (const Layer& layer : layers) {
    if (layer.has_weight()) {
      sizes.emplace_back(graph.constant(layer.weight)->bytes().size(), layer.name);
      total += sizes.back().first;
    }
  }
  std::stable_sort(sizes.begin(), sizes.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> smallest;
  std::size_t held = 0;
  for (const auto& [bytes, layer] : sizes) {
    held += bytes;
    if (static_cast<double>(held) > kNegligible * static_cast<double>(total)) {
      break;
    }
    smallest.push_back(layer);
  }
  return smallest;
}

}  // namespace

LayerPlan plan_layers(const graph::Graph& graph, const std::vector<Layer>& layers, const QuantizeModelOptions& options) {
  const bool weights_alone = options.format.activations == compress::ActivationFormat::kFloat;
  LayerPlan plan;
  std::vector<std::string> names;
  for (const Layer& layer : layers) {
    names.push_back(layer.name);
    std::string reason =
        weights_alone ? "" : compress::reason_to_stay_float(graph, layer, options.quantize.target);
    if (!reason.empty()) {
      plan.reasons[layer.name] = std::move(reason);
    } else if (layer.has_weight()) {
      plan.formats.emplace(layer.name, options.format);
    }
  }
  if (weights_alone && compress::has_scales(options.format.weights) && !options.every_layer) {
    for (const std::string& name : smallest_layers(graph, layers)) {
      plan.formats.erase(name);
      plan.reasons[name] = fmt::format("one of the smallest layers, which hold {} % of the weights together", 100 * kNegligible);
    }
  }
  for (const std::string& name : options.float_layers) {
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      throw Error(ErrorCode::kInvalidArgument, unknown_name("layer", name, names));
    }
    plan.formats.erase(name);
    plan.reasons[name] = "asked for";
  }
  return plan;
}

}  // namespace tempera::optimize
