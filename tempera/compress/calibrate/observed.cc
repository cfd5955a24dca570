#include "tempera/compress/calibrate/observed.h"

#include <algorithm>
#include <array>

#include "tempera/base/error.h"
#include "tempera/compress/calibrate/range_search.h"

namespace tempera::compress {
namespace {

constexpr std::array kAllMethods{RangeMethod::kMinMax, RangeMethod::kMovingAverage, RangeMethod::kPercentile,
                                 RangeMethod::kMse, RangeMethod::kEntropy};

ClipRange range_by(RangeMethod method, const Observed& observed, const CalibrateOptions& options) {
  switch (method) {
    case RangeMethod::kMinMax: return {observed.all.min, observed.all.max};
    case RangeMethod::kMovingAverage:
      return {static_cast<float>(observed.average_min), static_cast<float>(observed.average_max)};
    case RangeMethod::kPercentile:
      return percentile_range(observed.histogram, options.percentile, options.symmetric);
    case RangeMethod::kMse: return mse_range(observed.histogram, options.symmetric);
    case RangeMethod::kEntropy: return entropy_range(observed.histogram);
    case RangeMethod::kAuto: break;
  }
  TEMPERA_CHECK(false, "auto is no method of its own");
}

}  // namespace

void Observed::merge(const Extremes& sample, double momentum) {
  all.merge(sample);
  average_min = any ? momentum * average_min + (1.0 - momentum) * sample.min : sample.min;
  average_max = any ? momentum * average_max + (1.0 - momentum) * sample.max : sample.max;
  any = true;
}

std::vector<Candidate> candidates(const Observed& observed, const CalibrateOptions& options) {
  std::vector<Candidate> found;
  for (const RangeMethod method : kAllMethods) {
    if (options.method != RangeMethod::kAuto && options.method != method) {
      continue;
    }
    ClipRange range = range_by(method, observed, options);
    if (options.symmetric && range.lo < 0.0F && range.hi > 0.0F) {
      const float largest = std::max(-range.lo, range.hi);
      range = {-largest, largest};
    }
    found.push_back({method, range.lo, range.hi, {}});
  }
  return found;
}

TensorRange choose(const Observed& observed, const std::vector<Candidate>& candidates) {
  const auto best =
      std::min_element(candidates.begin(), candidates.end(),
                       [](const Candidate& a, const Candidate& b) { return a.error.error < b.error.error; });
  TensorRange range;
  range.min = observed.all.min;
  range.max = observed.all.max;
  range.lo = best->lo;
  range.hi = best->hi;
  range.method = best->method;
  range.relative_mse = best->error.square > 0.0 ? best->error.error / best->error.square : 0.0;
  return range;
}

}  // namespace tempera::compress
