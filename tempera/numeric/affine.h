#pragma once

#include <cstdint>

#include "tempera/numeric/data_type.h"

namespace tempera::numeric {

/// Codes an integer type offers to a quantiser.
struct CodeRange {
  std::int32_t min = 0;
  std::int32_t max = 0;
};

/// Codes of int8, uint8, int4, uint4, int2 or uint2.
///
/// \param narrow  leave out the lowest code of a signed type, so that the range is symmetric: -127..127
/// \throws Error{kInvalidArgument} for other types
[[nodiscard]] CodeRange code_range(DataType type, bool narrow = false);

/// x is represented by scale * (q - zero_point).
struct AffineParams {
  float scale = 1.0F;
  std::int32_t zero_point = 0;
};

/// Mapping of the observed range [lo, hi] onto the codes.
///
///   scale      = (hi - lo) / (max - min)
///   zero_point = round_half_even(min - lo / scale), clamped to the codes
///
/// The range is first widened to contain 0, so zero padding stays exactly zero.
///
/// \param lo,hi  finite, lo <= hi
/// \return scale is a normal float > 0; a range [0,0] gives {1, clamp(0)}
/// \throws Error{kInvalidArgument} when a limit above is broken
///
/// Source: Jacob et al. 2018, arXiv:1712.05877, eq. 1 and sec. 3; rounding as ONNX QuantizeLinear-13.
[[nodiscard]] AffineParams affine_from_range(float lo, float hi, CodeRange codes);

/// Zero point in the middle of the codes (0 of a signed type), scale = largest / (max - zero_point).
///
/// \param largest  largest magnitude to represent; finite, >= 0; 0 gives scale 1
[[nodiscard]] AffineParams symmetric_from_magnitude(float largest, CodeRange codes);

/// saturate(round_half_even(x / scale) + zero_point), as ONNX QuantizeLinear-13. \param x  finite
[[nodiscard]] std::int32_t quantize(float x, AffineParams params, CodeRange codes);
[[nodiscard]] inline float dequantize(std::int32_t code, AffineParams params) {
  return params.scale * static_cast<float>(code - params.zero_point);
}

}  // namespace tempera::numeric
