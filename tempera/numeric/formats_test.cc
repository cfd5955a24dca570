/// Every stored format against its definition, code by code, with an oracle that shares nothing with the conversion:
/// the compiler's own half floats, bit shifts, tables of the specifications, and search over all codes.

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tempera/numeric/convert.h"

namespace tempera::numeric {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// All codes of a 16-bit format decoded at once.
std::vector<float> decode_all16(DataType type) {
  std::vector<std::uint16_t> codes(65536);
  for (std::size_t i = 0; i < codes.size(); ++i) {
    codes[i] = static_cast<std::uint16_t>(i);
  }
  std::vector<float> values(codes.size());
  decode(type, std::as_bytes(std::span(codes)), values);
  return values;
}

std::vector<float> decode_all8(DataType type) {
  std::vector<std::uint8_t> codes(256);
  for (std::size_t i = 0; i < codes.size(); ++i) {
    codes[i] = static_cast<std::uint8_t>(i);
  }
  std::vector<float> values(codes.size());
  decode(type, std::as_bytes(std::span(codes)), values);
  return values;
}

bool same(float a, float b) {
  return (std::isnan(a) && std::isnan(b)) || std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

// Floats of every sign and exponent with mantissas all over: 2^32 bit patterns in steps of a prime.
std::vector<float> sweep() {
  std::vector<float> values;
  for (std::uint64_t bits = 0; bits < (std::uint64_t{1} << 32); bits += 8191) {
    const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    if (!std::isnan(value)) {
      values.push_back(value);
    }
  }
  return values;
}

#ifdef __FLT16_MAX__
TEST(Float16, EveryCodeIsTheCompilersHalfFloat) {
  const std::vector<float> values = decode_all16(DataType::kFloat16);
  for (std::size_t code = 0; code < values.size(); ++code) {
    const auto expected = static_cast<float>(std::bit_cast<_Float16>(static_cast<std::uint16_t>(code)));
    ASSERT_TRUE(same(values[code], expected)) << "code " << code;
  }
}

TEST(Float16, FloatsRoundAsTheCompilersHalfFloat) {
  const std::vector<float> values = sweep();
  std::vector<std::uint16_t> codes(values.size());
  encode(DataType::kFloat16, values, std::as_writable_bytes(std::span(codes)), Overflow::kInfinity);
  for (std::size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(codes[i], std::bit_cast<std::uint16_t>(static_cast<_Float16>(values[i]))) << values[i];
  }
}
#endif

TEST(Bfloat16, EveryCodeIsTheUpperHalfOfAFloat) {
  const std::vector<float> values = decode_all16(DataType::kBfloat16);
  for (std::size_t code = 0; code < values.size(); ++code) {
    ASSERT_TRUE(same(values[code], std::bit_cast<float>(static_cast<std::uint32_t>(code) << 16))) << "code " << code;
  }
}

TEST(Bfloat16, FloatsRoundToTheNearestUpperHalf) {
  const std::vector<float> values = sweep();
  std::vector<std::uint16_t> codes(values.size());
  encode(DataType::kBfloat16, values, std::as_writable_bytes(std::span(codes)), Overflow::kInfinity);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(values[i]);
    const std::uint32_t rounded = (bits + 0x7FFFU + (bits >> 16 & 1U)) >> 16;  // half to even, carry into the exponent
    ASSERT_EQ(codes[i], rounded) << values[i];
  }
}

// OCP 8-bit Floating Point Specification 1.0, table 2: E5M2 is the upper half of an IEEE half float.
TEST(Float8E5M2, EveryCodeIsTheUpperHalfOfAHalfFloat) {
  const std::vector<float> values = decode_all8(DataType::kFloat8E5M2);
  const std::vector<float> halves = decode_all16(DataType::kFloat16);
  for (std::size_t code = 0; code < 256; ++code) {
    ASSERT_TRUE(same(values[code], halves[code << 8])) << "code " << code;
  }
}

// OCP 8-bit Floating Point Specification 1.0, table 2: S.EEEE.MMM, bias 7, no infinity, NaN = S.1111.111.
TEST(Float8E4M3FN, EveryCodeIsThatOfTheSpecification) {
  const std::vector<float> values = decode_all8(DataType::kFloat8E4M3FN);
  for (int code = 0; code < 256; ++code) {
    const int exponent = code >> 3 & 15;
    const int mantissa = code & 7;
    float expected = exponent == 0 ? static_cast<float>(mantissa) / 512.0F
                                   : static_cast<float>(8 + mantissa) / 8.0F * std::exp2(static_cast<float>(exponent - 7));
    if ((code & 127) == 127) {
      expected = kNan;
    }
    ASSERT_TRUE(same(values[static_cast<std::size_t>(code)], code < 128 ? expected : -expected)) << "code " << code;
  }
  EXPECT_EQ(values[0x7E], 448.0F);
  EXPECT_EQ(values[0x01], 1.0F / 512.0F);
  EXPECT_EQ(values[0x08], 1.0F / 64.0F);
}

// A float takes the nearest of all finite codes, the even one when two are equally near; beyond the last it saturates.
void expect_nearest_code(DataType type) {
  const std::vector<float> decoded = decode_all8(type);
  std::vector<int> positive;  // codes in order of value
  for (int code = 0; code < 128 && std::isfinite(decoded[static_cast<std::size_t>(code)]); ++code) {
    positive.push_back(code);
  }
  const std::vector<float> values = sweep();
  std::vector<std::uint8_t> codes(values.size());
  encode(type, values, std::as_writable_bytes(std::span(codes)));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double magnitude = std::abs(static_cast<double>(values[i]));
    const auto above = std::lower_bound(positive.begin(), positive.end(), magnitude, [&](int code, double x) {
      return decoded[static_cast<std::size_t>(code)] < x;
    });
    int expected = above == positive.end() ? positive.back() : *above;
    if (above != positive.end() && *above > 0) {
      const double high = decoded[static_cast<std::size_t>(*above)] - magnitude;
      const double low = magnitude - decoded[static_cast<std::size_t>(*above - 1)];
      expected = low < high || (low == high && *above % 2 == 1) ? *above - 1 : *above;
    }
    ASSERT_EQ(codes[i], std::signbit(values[i]) ? expected + 128 : expected) << values[i];
  }
}

TEST(Float8E4M3FN, FloatsTakeTheNearestCodeAndSaturate) { expect_nearest_code(DataType::kFloat8E4M3FN); }
TEST(Float8E5M2, FloatsTakeTheNearestCodeAndSaturate) { expect_nearest_code(DataType::kFloat8E5M2); }

// Every byte holds codes of 8, 4 or 2 bits, low bits first, in two's complement when signed.
TEST(Integers, EveryByteDecodesToItsCodes) {
  struct Case {
    DataType type;
    int bits;
    bool is_signed;
  };
  constexpr std::array<Case, 6> kCases = {{{DataType::kInt8, 8, true},
                                           {DataType::kUint8, 8, false},
                                           {DataType::kInt4, 4, true},
                                           {DataType::kUint4, 4, false},
                                           {DataType::kInt2, 2, true},
                                           {DataType::kUint2, 2, false}}};
  for (const auto& [type, bits, is_signed] : kCases) {
    for (int byte = 0; byte < 256; ++byte) {
      const auto stored = static_cast<std::uint8_t>(byte);
      std::vector<float> values(static_cast<std::size_t>(8 / bits));
      decode(type, std::as_bytes(std::span(&stored, 1)), values);
      for (std::size_t k = 0; k < values.size(); ++k) {
        int expected = byte >> (static_cast<int>(k) * bits) & ((1 << bits) - 1);
        if (is_signed && expected >= 1 << (bits - 1)) {
          expected -= 1 << bits;
        }
        ASSERT_EQ(values[k], static_cast<float>(expected)) << to_string(type) << ", byte " << byte;
      }
      std::uint8_t again = 0;
      encode(type, values, std::as_writable_bytes(std::span(&again, 1)));
      ASSERT_EQ(again, stored) << to_string(type);
    }
  }
}

}  // namespace
}  // namespace tempera::numeric
