#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "tempera/base/host.h"
#include "tempera/compress/calibrate/calibrate.h"
#include "tempera/compress/quantize/plan.h"
#include "tempera/compress/quantize/quantize.h"
#include "tempera/data/dataset.h"
#include "tempera/engine/engine.h"
#include "tempera/graph/model.h"

namespace tempera::compress {

/// Which refinements quantize_refined() tries.
struct RefineOptions {
  CalibrateOptions calibrate;
  bool correct_bias = true;  ///< bias_correction.h
  bool other_ranges = true;  ///< where the method is kAuto: all ranges by one method
  bool equalize = true;      ///< equalize.h
  bool smooth = true;        ///< smooth_quant.h
};

/// One refinement that was tried.
struct Refinement {
  std::string name;   ///< "none", "bias correction", "minmax ranges", "cross-layer equalisation", "SmoothQuant"
  double loss = 0.0;  ///< with it and those kept before it
  bool kept = false;
};

struct Refined {
  Quantized quantized;
  Calibration calibration;              ///< of the float model that was quantised
  std::vector<Refinement> refinements;  ///< in the order tried; "none" first, always kept
};

/// quantize() after calibrate(), with each refinement of the ranges, of the float model or of the biases that lowers the
/// measured loss. Ranges that are best for each tensor by itself (kAuto) need not be best for the outputs: a rare large value
/// may be what a score depends on.
///
/// Refinements are tried one after the other on top of those kept; one that finds nothing to change is left
/// out, one that does not lower the loss is taken back.
///
/// \param samples  to calibrate and to measure means and magnitudes on
/// \param loss     of a quantised model on *other* samples, in the engine that will run it; lower is better
[[nodiscard]] Refined quantize_refined(const graph::Model& model, const QuantizationPlan& plan,
                                       const QuantizeOptions& options, const data::Dataset& dataset,
                                       const std::vector<std::size_t>& samples, const engine::Engine& engine,
                                       const RefineOptions& settings,
                                       const std::function<double(const graph::Model&)>& loss,
                                       const Host& host);

}  // namespace tempera::compress
