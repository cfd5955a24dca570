#pragma once

#include <vector>

#include "tempera/compress/calibrate/calibrate.h"
#include "tempera/compress/calibrate/histogram.h"
#include "tempera/compress/calibrate/quantize_error.h"

namespace tempera::compress {

/// What is known of one tensor over the samples merged so far.
struct Observed {
  Extremes all;              ///< of every sample, held out or not
  double average_min = 0.0;  ///< moving averages of each sample's extremes, in sample order
  double average_max = 0.0;
  bool any = false;
  Histogram histogram;  ///< of the samples not held out

  /// The next sample's extremes.
  void merge(const Extremes& sample, double momentum);
};

/// A range that a method proposes, and what quantising with it costs on the samples that judge.
struct Candidate {
  RangeMethod method = RangeMethod::kMinMax;
  float lo = 0.0F;
  float hi = 0.0F;
  QuantizeError error;
};

/// The ranges that `options.method` proposes: one, or one of each method, min-max first, for kAuto.
[[nodiscard]] std::vector<Candidate> candidates(const Observed& observed, const CalibrateOptions& options);

/// The candidate with the least error; of equals the first.
[[nodiscard]] TensorRange choose(const Observed& observed, const std::vector<Candidate>& candidates);

}  // namespace tempera::compress
