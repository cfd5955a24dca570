#pragma once

#include <map>
#include <string>
#include <vector>

#include "tempera/compress/quantize/layers.h"
#include "tempera/compress/quantize/plan.h"
#include "tempera/graph/graph.h"
#include "tempera/optimize/quantize_model.h"

namespace tempera::optimize {

/// Which layers quantize_model() gives the format asked for.
struct LayerPlan {
  compress::QuantizationPlan formats;           ///< of the layers that get one
  std::map<std::string, std::string> reasons;   ///< of others: why they stay in float, where it is not for lack of weights
};

/// Layers with weights, apart from those named to stay in float and:
///
///   weights alone           the smallest layers, as long as they hold half a percent of all weights together: a weight of
///                           few numbers has no errors to average, and its bytes do not count
///   weights and activations those that are faster or as small in float (placement.h)
///
/// \throws Error{kInvalidArgument} with the nearest names for a layer to keep that is none
[[nodiscard]] LayerPlan plan_layers(const graph::Graph& graph, const std::vector<compress::Layer>& layers,
                                    const QuantizeModelOptions& options);

}  // namespace tempera::optimize
