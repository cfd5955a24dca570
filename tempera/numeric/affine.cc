#include "tempera/numeric/affine.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "tempera/base/error.h"

namespace tempera::numeric {
namespace {

// A scale that is zero or subnormal would divide to infinity, and engines refuse it.
float at_least_normal(double scale) {
  return std::max(static_cast<float>(scale), std::numeric_limits<float>::min());
}

}  // namespace

CodeRange code_range(DataType type, bool narrow) {
  const int bits = bits_of(type);
  switch (type) {
    case DataType::kInt8:
    case DataType::kInt4:
    case DataType::kInt2:
      return {-(1 << (bits - 1)) + (narrow ? 1 : 0), (1 << (bits - 1)) - 1};
    case DataType::kUint8:
    case DataType::kUint4:
    case DataType::kUint2:
      return {0, (1 << bits) - 1};
    default:
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("{} is no type to quantise to; expected int8, uint8, int4, uint4, int2 or uint2",
                              to_string(type)));
  }
}

AffineParams affine_from_range(float lo, float hi, CodeRange codes) {
  if (!std::isfinite(lo) || !std::isfinite(hi) || lo > hi) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("the range [{}, {}] to quantise is not finite and ordered", lo, hi));
  }
  const double low = std::min(0.0F, lo);
  const double high = std::max(0.0F, hi);
  if (low == high) {
    return {1.0F, std::clamp(0, codes.min, codes.max)};
  }
  const float scale = at_least_normal((high - low) / (codes.max - codes.min));
  const double zero = std::nearbyint(codes.min - low / scale);
  return {scale, static_cast<std::int32_t>(
                     std::clamp(zero, static_cast<double>(codes.min), static_cast<double>(codes.max)))};
}

AffineParams symmetric_from_magnitude(float largest, CodeRange codes) {
  if (!std::isfinite(largest) || largest < 0.0F) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("the magnitude {} to quantise is not finite and >= 0", largest));
  }
  const std::int32_t zero = codes.min < 0 ? 0 : (codes.max + 1) / 2;
  if (largest == 0.0F) {
    return {1.0F, zero};
  }
  return {at_least_normal(static_cast<double>(largest) / (codes.max - zero)), zero};
}

std::int32_t quantize(float x, AffineParams params, CodeRange codes) {
  const double code = std::nearbyint(x / params.scale) + params.zero_point;
  return static_cast<std::int32_t>(
      std::clamp(code, static_cast<double>(codes.min), static_cast<double>(codes.max)));
}

}  // namespace tempera::numeric
