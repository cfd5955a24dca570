#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tempera/base/host.h"
#include "tempera/compress/quantize/layers.h"
#include "tempera/compress/quantize/plan.h"
#include "tempera/compress/quantize/quantize.h"
#include "tempera/graph/model.h"

namespace tempera::optimize {

struct WeightMixOptions {
  compress::LayerFormat narrow;  ///< what every layer would have: int4 in blocks
  compress::LayerFormat wide;    ///< what layers get that lose too much: int8 for each channel; then float
  compress::QuantizeOptions quantize;
  const compress::Hessians* hessians = nullptr;  ///< with them each layer is tried by GPTQ too; null: nearest codes only
  /// Loss of a model on few samples: of one layer changed alone, to compare layers.
  std::function<double(const graph::Model&)> rough_loss;
  /// Loss of a model, and whether it is within the budget.
  std::function<std::pair<double, bool>(const graph::Model&)> loss;
};

struct WeightMix {
  compress::QuantizationPlan plan;         ///< layers that stay in float are not in it
  compress::Hessians hessians;             ///< of the layers that GPTQ served better
  std::map<std::string, double> alone;     ///< loss of each layer alone in the narrow format
  double loss = 0.0;                       ///< of the whole
  bool within = false;                     ///< false: not even float layers brought it within the budget
};

/// Stores the weights in as few bytes as the loss budget allows, each layer narrow, wide or in float.
///
/// Each layer is measured alone in both formats. Losses of layers are taken to add as squares; then the best mixes of all
/// sizes come from widening layers in the order of what a byte more gains, along each layer's lower convex hull (Shoham
/// and Gersho, "Efficient bit allocation for an arbitrary set of quantizers", IEEE Trans. ASSP 36, 1988). How far to go is
/// found by bisection over mixes that are each measured as a whole.
///
/// \param layers  those to store
[[nodiscard]] WeightMix mix_weights(const graph::Model& model, const std::vector<compress::Layer>& layers,
                                    const WeightMixOptions& options, const Host& host);

}  // namespace tempera::optimize
