#pragma once

#include <span>

#include "tempera/numeric/affine.h"

namespace tempera::compress {

/// Sums over values of one tensor.
struct QuantizeError {
  double error = 0.0;   ///< of (x - Q(x))^2
  double square = 0.0;  ///< of x^2

  QuantizeError& operator+=(const QuantizeError& other) {
    error += other.error;
    square += other.square;
    return *this;
  }
};

/// What it costs to quantise to uint8 with `params`:
///
///   Q(x) = scale * (clamp(round_half_even(x / scale) + zero_point, 0, 255) - zero_point)
///
/// in float, as ONNX QuantizeLinear and DequantizeLinear compute it; sums in double over blocks of floats.
/// The order of the sums, and so every bit, is the same on every CPU. \param values  finite
[[nodiscard]] QuantizeError quantize_error(std::span<const float> values, numeric::AffineParams params);

/// Codes of uint8, which every judged range maps to.
inline constexpr numeric::CodeRange kJudgedCodes{0, 255};

}  // namespace tempera::compress
