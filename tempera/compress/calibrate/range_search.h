#pragma once

#include <cstdint>
#include <vector>

#include "tempera/compress/calibrate/histogram.h"

/// Clipping ranges from the histogram of one tensor, its values taken to be spread evenly within each bin,
/// cut at the least and largest value seen. A histogram of no values but zeros gives [0, 0].
namespace tempera::compress {

struct ClipRange {
  float lo = 0.0F;
  float hi = 0.0F;
};

/// Leaves a share of (1 - percentile) / 2 of the values below and as many above.
///
/// \param symmetric  leaves 1 - percentile of the magnitudes outside instead: [-a, a], cut at the values seen
[[nodiscard]] ClipRange percentile_range(const Histogram& histogram, double percentile, bool symmetric);

/// The range with the least expected error of quantising to uint8 (zero point included), searched on grids of
/// clip factors, finer around the best; never worse than the range of all values, in expectation.
///
/// \param symmetric  both ends move together
[[nodiscard]] ClipRange mse_range(const Histogram& histogram, bool symmetric);

/// Expected sum of (x - Q(x))^2 over all values when [lo, hi] maps to uint8: the integral over every code's
/// cell, exact for evenly filled bins. What mse_range() minimises.
[[nodiscard]] double expected_error(const Histogram& histogram, ClipRange range);

/// The magnitude whose clipping loses least information by the Kullback-Leibler divergence of 128 levels from
/// the bins, as [-a, a] cut at the values seen.
///
/// Source: Migacz, "8-bit Inference with TensorRT", GTC 2017, slides 22 to 38: for each number i of bins from
/// 128 up,
///   P = the first i bins, what lies beyond added to the last;  Q = those bins without it, averaged over each
///   of 128 groups on the bins where P is not 0;  a = i w with the least sum p log(p / q) of the normalised
///   two.
/// Bin 0 of both sides and the zeros are left out, which would rule everything behind a ReLU. At least 2048
/// bins lie below the largest magnitude. A Q of 0 where P is not counts as infinite; of equal divergences the
/// largest range is taken.
[[nodiscard]] ClipRange entropy_range(const Histogram& histogram);

/// The choice of entropy_range() among counts by magnitude: how many bins to keep, from 128 (or all, if
/// fewer) to all.
[[nodiscard]] std::size_t entropy_bins(const std::vector<std::uint64_t>& magnitudes);

}  // namespace tempera::compress
