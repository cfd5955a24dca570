#include "tempera/numeric/float_format.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tempera::numeric {
namespace {

using Specials = FloatFormat::Specials;

// Sources: IEEE 754-2019 (float16); OCP OFP8 1.0 (e4m3fn, e5m2); arXiv:2206.02915 (fnuz); OCP Microscaling 1.0 (rest).
constexpr FloatFormat kFloat16{5, 10, 15, Specials::kIeee};
constexpr FloatFormat kBfloat16{8, 7, 127, Specials::kIeee};
constexpr FloatFormat kE4M3FN{4, 3, 7, Specials::kNanOnly};
constexpr FloatFormat kE4M3FNUZ{4, 3, 8, Specials::kNegZero};
constexpr FloatFormat kE5M2{5, 2, 15, Specials::kIeee};
constexpr FloatFormat kE5M2FNUZ{5, 2, 16, Specials::kNegZero};
constexpr FloatFormat kE2M1{2, 1, 1, Specials::kNone};
constexpr FloatFormat kE2M3{2, 3, 1, Specials::kNone};
constexpr FloatFormat kE3M2{3, 2, 3, Specials::kNone};
constexpr FloatFormat kE8M0{8, 0, 127, Specials::kScale};

}  // namespace

const FloatFormat* float_format(DataType type) {
  switch (type) {
    case DataType::kFloat16: return &kFloat16;
    case DataType::kBfloat16: return &kBfloat16;
    case DataType::kFloat8E4M3FN: return &kE4M3FN;
    case DataType::kFloat8E4M3FNUZ: return &kE4M3FNUZ;
    case DataType::kFloat8E5M2: return &kE5M2;
    case DataType::kFloat8E5M2FNUZ: return &kE5M2FNUZ;
    case DataType::kFloat4E2M1: return &kE2M1;
    case DataType::kFloat6E2M3: return &kE2M3;
    case DataType::kFloat6E3M2: return &kE3M2;
    case DataType::kFloat8E8M0: return &kE8M0;
    default: return nullptr;
  }
}

double FloatFormat::decode(std::uint32_t code) const {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  if (specials == Specials::kScale) {
    return code == 0xFF ? kNan : std::ldexp(1.0, static_cast<int>(code) - bias);
  }
  const std::uint32_t mantissa_mask = (1U << mantissa_bits) - 1U;
  const std::uint32_t exponent_mask = (1U << exponent_bits) - 1U;
  const std::uint32_t mantissa = code & mantissa_mask;
  const std::uint32_t exponent = (code >> mantissa_bits) & exponent_mask;
  const bool negative = ((code >> (mantissa_bits + exponent_bits)) & 1U) != 0;
  if (specials == Specials::kNegZero && negative && exponent == 0 && mantissa == 0) {
    return kNan;
  }
  double magnitude = 0.0;
  if (specials == Specials::kIeee && exponent == exponent_mask) {
    magnitude = mantissa == 0 ? std::numeric_limits<double>::infinity() : kNan;
  } else if (specials == Specials::kNanOnly && exponent == exponent_mask && mantissa == mantissa_mask) {
    magnitude = kNan;
  } else if (exponent == 0) {
    magnitude = std::ldexp(static_cast<double>(mantissa), 1 - bias - mantissa_bits);
  } else {
    magnitude = std::ldexp(static_cast<double>(mantissa + (1U << mantissa_bits)),
                           static_cast<int>(exponent) - bias - mantissa_bits);
  }
  return negative ? -magnitude : magnitude;
}

double FloatFormat::max_finite() const {
  const std::uint32_t all = (1U << (exponent_bits + mantissa_bits)) - 1U;
  switch (specials) {
    case Specials::kIeee: return decode(all - (1U << mantissa_bits));
    case Specials::kNanOnly:
    case Specials::kScale: return decode(all - 1U);
    case Specials::kNegZero:
    case Specials::kNone: return decode(all);
  }
  return 0.0;
}

std::uint32_t FloatFormat::encode(float value, Overflow overflow) const {
  const std::uint32_t all = (1U << (exponent_bits + mantissa_bits)) - 1U;
  const std::uint32_t sign = specials != Specials::kScale && std::signbit(value) ? all + 1U : 0U;
  const std::uint32_t max_code = specials == Specials::kIeee      ? all - (1U << mantissa_bits)
                                 : specials == Specials::kNanOnly ? all - 1U
                                 : specials == Specials::kScale   ? all - 1U
                                                                  : all;
  const auto nan_code = [&]() -> std::uint32_t {
    switch (specials) {
      case Specials::kIeee: return sign | (all - (1U << mantissa_bits) + 1U + ((1U << mantissa_bits) >> 1U));
      case Specials::kNanOnly:
      case Specials::kScale: return sign | all;
      case Specials::kNegZero: return all + 1U;
      case Specials::kNone: return 0U;
    }
    return 0U;
  };
  if (std::isnan(value)) {
    return nan_code();
  }
  const double magnitude = std::fabs(static_cast<double>(value));
  if (specials == Specials::kScale) {
    if (value < 0.0F) {
      return nan_code();
    }
    if (magnitude == 0.0) {
      return 0U;
    }
  }
  // The unit in the last place at this magnitude, not below that of the subnormals; the code counts those units.
  int exponent = 0;
  std::uint32_t code = 0;
  if (std::isinf(value)) {
    code = max_code + 1U;
  } else if (magnitude > 0.0) {
    std::frexp(magnitude, &exponent);  // magnitude = f 2^exponent, f in [0.5, 1)
    const int lowest = specials == Specials::kScale ? -bias : 1 - bias;
    const int clamped = std::max(exponent - 1, lowest);
    const double units = std::nearbyint(std::ldexp(magnitude, mantissa_bits - clamped));
    const double code_value = units + std::ldexp(static_cast<double>(clamped - lowest), mantissa_bits);
    code = code_value > static_cast<double>(max_code) ? max_code + 1U : static_cast<std::uint32_t>(code_value);
    if (specials == Specials::kScale && code > 0U) {
      code -= 1U;  // e8m0 has no subnormals: one unit of the lowest exponent is code 0
    }
  }
  if (code > max_code) {
    if (overflow == Overflow::kSaturate) {
      code = max_code;
    } else if (specials == Specials::kIeee) {
      code = max_code + 1U;
    } else if (specials == Specials::kNone) {
      code = max_code;
    } else {
      return nan_code();
    }
  }
  if (specials == Specials::kNegZero && code == 0U) {
    return 0U;  // there is no -0
  }
  return sign | code;
}

}  // namespace tempera::numeric
