#include "tempera/compress/calibrate/quantize_error.h"

#include <algorithm>
#include <cstring>

#include "tempera/compress/calibrate/lanes.h"

namespace tempera::compress {
namespace {

constexpr std::size_t kBlock = 1024;  // a float sum of 64 values a lane loses less than 1e-6 of itself

/// Sums of one block, lane by lane, then over the lanes in order.
TEMPERA_FOR_EACH_CPU void add_block(const float* values, std::size_t count, float scale, float zero_point,
                                    double* error_sum, double* square_sum) {
  // Adding and taking away 1.5 * 2^23 rounds to the nearest integer, ties to even, for magnitudes up to 2^22;
  // the clamp before it keeps them there and changes no code.
  constexpr float kRound = 12582912.0F;
  const float low = -zero_point;
  const float high = 255.0F - zero_point;
  FloatLanes errors{};
  FloatLanes squares{};
  for (std::size_t i = 0; i < count; i += kLanes) {
    FloatLanes x;
    if (count - i >= kLanes) {
      std::memcpy(&x, values + i, sizeof x);
    } else {
      x = FloatLanes{};  // zeros cost nothing: 0 is a code
      std::memcpy(&x, values + i, (count - i) * sizeof(float));
    }
    FloatLanes code = x / scale;
    code = code < low - 1.0F ? FloatLanes{} + (low - 1.0F) : code;
    code = code > high + 1.0F ? FloatLanes{} + (high + 1.0F) : code;
    code = (code + kRound) - kRound;
    code = code < low ? FloatLanes{} + low : code;
    code = code > high ? FloatLanes{} + high : code;
    const FloatLanes off = x - code * scale;
    errors += off * off;
    squares += x * x;
  }
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    *error_sum += static_cast<double>(errors[lane]);
    *square_sum += static_cast<double>(squares[lane]);
  }
}

}  // namespace

QuantizeError quantize_error(std::span<const float> values, numeric::AffineParams params) {
  QuantizeError sums;
  for (std::size_t i = 0; i < values.size(); i += kBlock) {
    add_block(values.data() + i, std::min(kBlock, values.size() - i), params.scale,
              static_cast<float>(params.zero_point), &sums.error, &sums.square);
  }
  return sums;
}

}  // namespace tempera::compress
