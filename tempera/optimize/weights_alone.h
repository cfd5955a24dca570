#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tempera/base/host.h"
#include "tempera/compress/quantize/layers.h"
#include "tempera/compress/quantize/plan.h"
#include "tempera/compress/quantize/quantize.h"
#include "tempera/engine/engine.h"
#include "tempera/optimize/losses.h"
#include "tempera/optimize/quantize_model.h"
#include "tempera/optimize/subject.h"

namespace tempera::optimize {

/// A model whose weights are stored anew, its activations in float.
struct StoredWeights {
  compress::Quantized quantized;
  std::map<std::string, double> alone;  ///< of a mix: loss of each layer alone in the narrow format
  std::vector<std::string> notes;       ///< for the report: what was tried and what it gave
};

/// Stores the weights of the planned layers; with `mixed`, in the planned format where the budget allows (weight_mix.h).
/// With data, codes are also chosen by GPTQ and biases take up the mean error of their layer; of each the better is kept by
/// the loss of the worst output on the search part.
///
/// \param compile  options of the engine that will run the file; losses are measured so
/// \param meter    of the search part
[[nodiscard]] StoredWeights store_weights(const Subject& subject, const engine::Engine& engine,
                                          const engine::CompileOptions& compile, const LossMeter& meter,
                                          const std::vector<compress::Layer>& layers, const compress::QuantizationPlan& plan,
                                          const QuantizeModelOptions& options, const Host& host);

}  // namespace tempera::optimize
