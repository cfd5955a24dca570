#include "tempera/quality/error_measure.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <fmt/format.h>

#include "tempera/base/error.h"

namespace tempera::quality {

ErrorMeasures measure_error(const graph::Tensor& reference, const graph::Tensor& candidate) {
  if (reference.dims() != candidate.dims()) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("outputs of dimensions {} and {} cannot be compared",
                            graph::to_string(reference.dims()), graph::to_string(candidate.dims())));
  }
  const std::vector<double> r = graph::to_doubles(reference);
  const std::vector<double> c = graph::to_doubles(candidate);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  ErrorMeasures measures;
  double error =
      0.0;  // sums of squares; double holds 1e308, and outputs near its root are of no use to anyone
  double rr = 0.0;
  double cc = 0.0;
  double rc = 0.0;
  for (std::size_t i = 0; i < r.size(); ++i) {
    const bool same_special = r[i] == c[i] || (std::isnan(r[i]) && std::isnan(c[i]));
    if (!std::isfinite(r[i]) && same_special) {
      continue;
    }
    if (!std::isfinite(r[i]) || !std::isfinite(c[i])) {
      return {kInfinity, kInfinity, -kInfinity, 0.0};
    }
    const double difference = c[i] - r[i];
    measures.max_abs = std::max(measures.max_abs, std::abs(difference));
    error += difference * difference;
    rr += r[i] * r[i];
    cc += c[i] * c[i];
    rc += r[i] * c[i];
  }
  if (error == 0.0) {
    return {measures.max_abs, 0.0, kInfinity, 1.0};
  }
  if (rr == 0.0) {
    return {measures.max_abs, kInfinity, -kInfinity, 0.0};
  }
  measures.relative_l2 = std::sqrt(error / rr);
  measures.sqnr_db = 10.0 * std::log10(rr / error);
  measures.cosine = cc == 0.0 ? 0.0 : rc / (std::sqrt(rr) * std::sqrt(cc));
  return measures;
}

}  // namespace tempera::quality
