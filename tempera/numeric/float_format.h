#pragma once

#include <cstdint>

#include "tempera/numeric/convert.h"
#include "tempera/numeric/data_type.h"

namespace tempera::numeric {

/// A binary floating-point format of at most 16 bits: sign, exponent, mantissa, from the high bit down.
///
///   value = (-1)^s 2^(e - bias) (1 + m / 2^mantissa_bits)     e > 0
///   value = (-1)^s 2^(1 - bias) m / 2^mantissa_bits           e = 0
struct FloatFormat {
  enum class Specials : std::uint8_t {
    kIeee,      ///< all-ones exponent: infinity (m = 0) and NaN
    kNanOnly,   ///< only all-ones exponent and mantissa is NaN; no infinity (e4m3fn)
    kNegZero,   ///< the code of -0 is the one NaN; no infinity (…fnuz)
    kNone,      ///< every code is finite (fp4, fp6)
    kScale,     ///< e8m0: unsigned power of two, 0xFF is NaN
  };

  int exponent_bits;
  int mantissa_bits;
  int bias;
  Specials specials;

  [[nodiscard]] int bits() const { return (specials == Specials::kScale ? 0 : 1) + exponent_bits + mantissa_bits; }
  [[nodiscard]] double decode(std::uint32_t code) const;

  /// Round to nearest, ties to even mantissa, subnormals included.
  [[nodiscard]] std::uint32_t encode(float value, Overflow overflow) const;

  [[nodiscard]] double max_finite() const;
};

/// The format of a float type of at most 16 bits; null for others.
[[nodiscard]] const FloatFormat* float_format(DataType type);

}  // namespace tempera::numeric
