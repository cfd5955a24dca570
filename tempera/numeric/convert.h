#pragma once

#include <cstddef>
#include <span>

#include "tempera/numeric/data_type.h"

namespace tempera::numeric {

/// Decodes packed elements of any real, integer or boolean type to double, exactly (int64 and uint64 beyond 2^53 round
/// to nearest even). Sub-byte elements are unpacked low bits first, as ONNX packs them.
///
/// \param values  as many elements as are wanted; `bytes` must hold bytes_of(type, values.size())
/// \throws Error{kInvalidArgument} for complex, string and undefined types, or when bytes is too short
void decode(DataType type, std::span<const std::byte> bytes, std::span<double> values);
void decode(DataType type, std::span<const std::byte> bytes, std::span<float> values);

/// What encode does with a value beyond the format's largest finite one.
enum class Overflow {
  kSaturate,  ///< to the largest finite value; NaN stays NaN where the format has one
  kInfinity,  ///< to infinity where the format has one, else to NaN (ONNX Cast with saturate = 0)
};

/// Encodes to any real or integer type: floats round to nearest, ties to even; integers likewise, then saturate.
/// NaN becomes the format's NaN; 0 where the format has none.
///
/// \throws Error{kInvalidArgument} for complex, string and undefined types, or when bytes is too short
///
/// Source: ONNX Cast-25 and QuantizeLinear-25; OCP 8-bit Floating Point Specification 1.0 (fp8), OCP Microscaling 1.0
/// (fp4, fp6, e8m0).
void encode(DataType type, std::span<const float> values, std::span<std::byte> bytes,
            Overflow overflow = Overflow::kSaturate);

}  // namespace tempera::numeric
