#include "tempera/graph/tensor_error.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>

#include <fmt/format.h>

#include "tempera/base/error.h"
#include "tempera/graph/elements.h"

namespace tempera::graph {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

class Accumulator {
 public:
  void add(std::int64_t position, double a, double b) {
    const bool finite_a = std::isfinite(a);
    const bool finite_b = std::isfinite(b);
    error_.non_finite_a += finite_a ? 0 : 1;
    error_.non_finite_b += finite_b ? 0 : 1;
    if (!finite_a || !finite_b) {
      const bool equal = a == b || (std::isnan(a) && std::isnan(b));
      if (!equal && error_.non_finite_pairs++ == 0) {
        set_worst(position, a, b);
      }
      return;
    }
    const double difference = std::abs(b - a);
    signal_ += a * a;
    noise_ += difference * difference;
    signal_b_ += b * b;
    product_ += a * b;
    if (difference > error_.max_abs) {
      error_.max_abs = difference;
      if (error_.non_finite_pairs == 0) {
        set_worst(position, a, b);
      }
    }
  }

  [[nodiscard]] TensorError result(const Dims& dims) {
    if (error_.non_finite_pairs > 0) {
      error_.max_abs = kInfinity;
      error_.relative_l2 = kInfinity;
      error_.sqnr_db = -kInfinity;
      error_.cosine = 0.0;
    } else if (noise_ == 0.0) {
      error_.sqnr_db = kInfinity;
    } else {
      error_.relative_l2 = signal_ == 0.0 ? kInfinity : std::sqrt(noise_ / signal_);
      error_.sqnr_db = signal_ == 0.0 ? -kInfinity : 10.0 * std::log10(signal_ / noise_);
      error_.cosine = signal_ == 0.0 || signal_b_ == 0.0 ? 0.0 : product_ / (std::sqrt(signal_) * std::sqrt(signal_b_));
    }
    if (worst_ >= 0) {
      error_.worst_index = index_of(worst_, dims);
    }
    return error_;
  }

 private:
  void set_worst(std::int64_t position, double a, double b) {
    worst_ = position;
    error_.worst_a = a;
    error_.worst_b = b;
  }

  TensorError error_;
  double signal_ = 0.0;
  double noise_ = 0.0;
  double signal_b_ = 0.0;
  double product_ = 0.0;
  std::int64_t worst_ = -1;
};

}  // namespace

TensorError tensor_error(const Tensor& a, const Tensor& b) {
  if (a.dims() != b.dims()) {
    TensorError error;
    error.mismatch = fmt::format("shape {} against {}", to_string(a.dims()), to_string(b.dims()));
    error.max_abs = kInfinity;
    error.relative_l2 = kInfinity;
    error.sqnr_db = -kInfinity;
    error.cosine = 0.0;
    return error;
  }
  Accumulator sums;
  std::array<double, kChunk> values_a{};
  std::array<double, kChunk> values_b{};
  const std::int64_t count = a.size();
  for (std::int64_t begin = 0; begin < count; begin += kChunk) {
    const auto length = static_cast<std::size_t>(std::min(kChunk, count - begin));
    decode_elements(a, begin, std::span(values_a).first(length));
    decode_elements(b, begin, std::span(values_b).first(length));
    for (std::size_t i = 0; i < length; ++i) {
      sums.add(begin + static_cast<std::int64_t>(i), values_a[i], values_b[i]);
    }
  }
  TensorError error = sums.result(a.dims());
  error.elements = count;
  return error;
}

TensorError checked_tensor_error(const Tensor& a, const Tensor& b) {
  TensorError error = tensor_error(a, b);
  if (!error.mismatch.empty()) {
    throw Error(ErrorCode::kInvalidArgument, fmt::format("tensors cannot be compared: {}", error.mismatch));
  }
  return error;
}

}  // namespace tempera::graph
