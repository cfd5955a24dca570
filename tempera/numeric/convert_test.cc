#include "tempera/numeric/convert.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "tempera/numeric/float_format.h"

namespace tempera::numeric {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

std::uint32_t encode_one(DataType type, float value, Overflow overflow = Overflow::kSaturate) {
  std::array<std::byte, 4> bytes{};
  encode(type, std::span(&value, 1), bytes, overflow);
  std::uint32_t code = 0;
  std::memcpy(&code, bytes.data(), sizeof(code));
  return code;
}

class FloatFormatTest : public testing::TestWithParam<DataType> {};

TEST_P(FloatFormatTest, EveryCodeSurvivesARoundTrip) {
  const FloatFormat& format = *float_format(GetParam());
  for (std::uint32_t code = 0; code < (1U << format.bits()); ++code) {
    const double value = format.decode(code);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(format.decode(format.encode(std::numeric_limits<float>::quiet_NaN(), {}))));
      continue;
    }
    EXPECT_EQ(format.encode(static_cast<float>(value), Overflow::kInfinity), code) << "code " << code;
  }
}

TEST_P(FloatFormatTest, HalfwayGoesToTheEvenCodeAndNeighboursToTheirOwn) {
  const FloatFormat& format = *float_format(GetParam());
  if (format.specials == FloatFormat::Specials::kScale) {
    GTEST_SKIP() << "a scale has no mantissa: its tie rule is tested by value below";
  }
  const std::uint32_t positive = 1U << (format.bits() - 1);
  for (std::uint32_t code = 0; code + 1 < positive; ++code) {
    const double low = format.decode(code);
    const double high = format.decode(code + 1);
    if (!std::isfinite(low) || !std::isfinite(high)) {
      continue;
    }
    const auto middle = static_cast<float>((low + high) / 2);  // exact: one more bit than the format has
    const std::uint32_t even = code % 2 == 0 ? code : code + 1;
    EXPECT_EQ(format.encode(middle, Overflow::kSaturate), even);
    EXPECT_EQ(format.encode(std::nextafter(middle, -kInf), Overflow::kSaturate), code);
    EXPECT_EQ(format.encode(std::nextafter(middle, kInf), Overflow::kSaturate), code + 1);
  }
}

INSTANTIATE_TEST_SUITE_P(AllFormats, FloatFormatTest,
                         testing::Values(DataType::kFloat16, DataType::kBfloat16, DataType::kFloat8E4M3FN,
                                         DataType::kFloat8E4M3FNUZ, DataType::kFloat8E5M2, DataType::kFloat8E5M2FNUZ,
                                         DataType::kFloat4E2M1, DataType::kFloat6E2M3, DataType::kFloat6E3M2,
                                         DataType::kFloat8E8M0),
                         [](const auto& info) { return std::string(to_string(info.param)); });

// Largest finite values as the format specifications print them (OCP OFP8 1.0 table 1, OCP MX 1.0 section 5.3,
// arXiv:2206.02915 table 1, IEEE 754).
TEST(FloatFormatLimits, LargestFiniteValuesAreThoseOfTheSpecifications) {
  EXPECT_EQ(float_format(DataType::kFloat16)->max_finite(), 65504.0);
  EXPECT_EQ(float_format(DataType::kFloat8E4M3FN)->max_finite(), 448.0);
  EXPECT_EQ(float_format(DataType::kFloat8E4M3FNUZ)->max_finite(), 240.0);
  EXPECT_EQ(float_format(DataType::kFloat8E5M2)->max_finite(), 57344.0);
  EXPECT_EQ(float_format(DataType::kFloat8E5M2FNUZ)->max_finite(), 57344.0);
  EXPECT_EQ(float_format(DataType::kFloat4E2M1)->max_finite(), 6.0);
  EXPECT_EQ(float_format(DataType::kFloat6E2M3)->max_finite(), 7.5);
  EXPECT_EQ(float_format(DataType::kFloat6E3M2)->max_finite(), 28.0);
  EXPECT_EQ(float_format(DataType::kFloat8E8M0)->max_finite(), std::ldexp(1.0, 127));
}

// ONNX Cast-19's table: saturating and not, for values beyond the range.
TEST(FloatFormatLimits, OverflowFollowsTheOnnxCastTable) {
  EXPECT_EQ(encode_one(DataType::kFloat8E4M3FN, 1000.0F), 0x7EU);
  EXPECT_EQ(encode_one(DataType::kFloat8E4M3FN, kInf), 0x7EU);
  EXPECT_EQ(encode_one(DataType::kFloat8E4M3FN, kInf, Overflow::kInfinity), 0x7FU);
  EXPECT_EQ(encode_one(DataType::kFloat8E5M2, 1e6F), 0x7BU);
  EXPECT_EQ(encode_one(DataType::kFloat8E5M2, 1e6F, Overflow::kInfinity), 0x7CU);
  EXPECT_EQ(encode_one(DataType::kFloat8E4M3FNUZ, -1e6F), 0xFFU);
  EXPECT_EQ(encode_one(DataType::kFloat8E4M3FNUZ, 1e6F, Overflow::kInfinity), 0x80U);
  EXPECT_EQ(encode_one(DataType::kFloat8E4M3FNUZ, -0.0F), 0x00U);
  EXPECT_EQ(encode_one(DataType::kFloat16, 65520.0F, Overflow::kInfinity), 0x7C00U);
  EXPECT_EQ(encode_one(DataType::kFloat16, 65519.0F, Overflow::kInfinity), 0x7BFFU);
  EXPECT_EQ(encode_one(DataType::kBfloat16, 3.4e38F, Overflow::kInfinity), 0x7F80U);
}

TEST(IntegerTest, RoundsHalfToEvenThenSaturates) {
  const std::array<float, 8> values = {0.5F, 1.5F, 2.5F, -0.5F, -1.5F, 200.0F, -200.0F, std::nanf("")};
  std::array<std::byte, 8> bytes{};
  encode(DataType::kInt8, values, bytes);
  std::array<double, 8> decoded{};
  decode(DataType::kInt8, bytes, decoded);
  EXPECT_EQ(decoded, (std::array<double, 8>{0, 2, 2, 0, -2, 127, -128, 0}));
}

TEST(IntegerTest, NarrowIntegersPackLowBitsFirst) {
  const std::array<float, 5> values = {1, -8, 7, -1, 3};
  std::array<std::byte, 3> bytes{};
  encode(DataType::kInt4, values, bytes);
  EXPECT_EQ(bytes, (std::array<std::byte, 3>{std::byte{0x81}, std::byte{0xF7}, std::byte{0x03}}));
  std::array<double, 5> decoded{};
  decode(DataType::kInt4, bytes, decoded);
  EXPECT_EQ(decoded, (std::array<double, 5>{1, -8, 7, -1, 3}));

  const std::array<float, 5> two_bits = {1, -2, -1, 0, 5};
  encode(DataType::kInt2, two_bits, bytes);
  EXPECT_EQ(bytes[0], std::byte{0b00'11'10'01});
  EXPECT_EQ(bytes[1], std::byte{0b01});
}

TEST(IntegerTest, LargestInt64DoesNotOverflow) {
  const float huge = std::ldexp(1.0F, 63);
  std::int64_t stored = 0;
  encode(DataType::kInt64, std::span(&huge, 1), std::as_writable_bytes(std::span(&stored, 1)));
  EXPECT_EQ(stored, std::numeric_limits<std::int64_t>::max());
}

}  // namespace
}  // namespace tempera::numeric
