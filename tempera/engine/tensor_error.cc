#include "tempera/engine/tensor_error.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>

#include <fmt/format.h>

#include "tempera/numeric/convert.h"

namespace tempera::engine {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Decoded piece by piece, so that a large tensor takes no second copy. A multiple of 8 elements is a whole number of
// bytes for every packed type.
constexpr std::int64_t kChunk = 4096;

void decode_chunk(const graph::Tensor& tensor, std::int64_t begin, std::span<double> values) {
  const std::size_t offset = numeric::bytes_of(tensor.type(), begin);
  numeric::decode(tensor.type(), tensor.bytes().subspan(offset), values);
}

graph::Dims index_of(std::int64_t position, const graph::Dims& dims) {
  graph::Dims index(dims.size());
  for (std::size_t i = dims.size(); i > 0; --i) {
    index[i - 1] = position % dims[i - 1];
    position /= dims[i - 1];
  }
  return index;
}

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
    if (difference > error_.max_abs) {
      error_.max_abs = difference;
      if (error_.non_finite_pairs == 0) {
        set_worst(position, a, b);
      }
    }
  }

  [[nodiscard]] TensorError result(const graph::Dims& dims) {
    if (error_.non_finite_pairs > 0) {
      error_.max_abs = kInfinity;
      error_.relative_l2 = kInfinity;
      error_.sqnr_db = -kInfinity;
    } else if (noise_ == 0.0) {
      error_.sqnr_db = kInfinity;
    } else {
      error_.relative_l2 = signal_ == 0.0 ? kInfinity : std::sqrt(noise_ / signal_);
      error_.sqnr_db = signal_ == 0.0 ? -kInfinity : 10.0 * std::log10(signal_ / noise_);
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
  std::int64_t worst_ = -1;
};

}  // namespace

TensorError tensor_error(const graph::Tensor& a, const graph::Tensor& b) {
  if (a.dims() != b.dims()) {
    TensorError error;
    error.mismatch = fmt::format("shape {} against {}", graph::to_string(a.dims()), graph::to_string(b.dims()));
    error.max_abs = kInfinity;
    error.relative_l2 = kInfinity;
    error.sqnr_db = -kInfinity;
    return error;
  }
  Accumulator sums;
  std::array<double, kChunk> values_a{};
  std::array<double, kChunk> values_b{};
  const std::int64_t count = a.size();
  for (std::int64_t begin = 0; begin < count; begin += kChunk) {
    const auto length = static_cast<std::size_t>(std::min(kChunk, count - begin));
    decode_chunk(a, begin, std::span(values_a).first(length));
    decode_chunk(b, begin, std::span(values_b).first(length));
    for (std::size_t i = 0; i < length; ++i) {
      sums.add(begin + static_cast<std::int64_t>(i), values_a[i], values_b[i]);
    }
  }
  TensorError error = sums.result(a.dims());
  error.elements = count;
  return error;
}

}  // namespace tempera::engine
