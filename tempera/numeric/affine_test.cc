#include "tempera/numeric/affine.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tempera/base/error.h"

namespace tempera::numeric {
namespace {

constexpr DataType kTypes[] = {DataType::kInt8,  DataType::kUint8, DataType::kInt4,
                               DataType::kUint4, DataType::kInt2,  DataType::kUint2};

TEST(CodeRange, IsThatOfTheType) {
  EXPECT_EQ(code_range(DataType::kInt8).min, -128);
  EXPECT_EQ(code_range(DataType::kInt8, true).min, -127);
  EXPECT_EQ(code_range(DataType::kInt8, true).max, 127);
  EXPECT_EQ(code_range(DataType::kUint8).max, 255);
  EXPECT_EQ(code_range(DataType::kUint8, true).min, 0);
  EXPECT_EQ(code_range(DataType::kInt4).min, -8);
  EXPECT_EQ(code_range(DataType::kUint4).max, 15);
  EXPECT_EQ(code_range(DataType::kInt2).min, -2);
  EXPECT_EQ(code_range(DataType::kInt2).max, 1);
  EXPECT_EQ(code_range(DataType::kUint2).max, 3);
  EXPECT_THROW((void)code_range(DataType::kFloat32), Error);
  EXPECT_THROW((void)code_range(DataType::kInt16), Error);
}

TEST(Affine, HandWorkedRange) {
  // [-1, 3] on 0..255: scale 4/255, zero point round(63.75) = 64.
  const AffineParams params = affine_from_range(-1.0F, 3.0F, code_range(DataType::kUint8));
  EXPECT_FLOAT_EQ(params.scale, 4.0F / 255.0F);
  EXPECT_EQ(params.zero_point, 64);
}

TEST(Affine, RangeIsWidenedToHoldZero) {
  const CodeRange codes = code_range(DataType::kUint8);
  EXPECT_EQ(affine_from_range(2.0F, 4.0F, codes).zero_point, 0);
  EXPECT_FLOAT_EQ(affine_from_range(2.0F, 4.0F, codes).scale, 4.0F / 255.0F);
  EXPECT_EQ(affine_from_range(-4.0F, -2.0F, codes).zero_point, 255);
}

TEST(Affine, ScaleStaysNormalForSubnormalAndHugeRanges) {
  for (const DataType type : kTypes) {
    const CodeRange codes = code_range(type);
    for (const auto& [lo, hi] : std::vector<std::pair<float, float>>{
             {0.0F, 0.0F}, {0.0F, FLT_TRUE_MIN}, {-FLT_TRUE_MIN, 0.0F}, {-FLT_MAX, FLT_MAX}, {0.0F, FLT_MIN}}) {
      const AffineParams params = affine_from_range(lo, hi, codes);
      EXPECT_TRUE(std::isnormal(params.scale)) << lo << ".." << hi;
      EXPECT_GT(params.scale, 0.0F);
      EXPECT_GE(params.zero_point, codes.min);
      EXPECT_LE(params.zero_point, codes.max);
      EXPECT_EQ(dequantize(quantize(0.0F, params, codes), params), 0.0F) << "zero stays exact";
    }
  }
  EXPECT_EQ(affine_from_range(0.0F, 0.0F, code_range(DataType::kInt8)).scale, 1.0F);
}

TEST(Affine, RefusesRangesThatAreNone) {
  const CodeRange codes = code_range(DataType::kInt8);
  constexpr float kInf = std::numeric_limits<float>::infinity();
  EXPECT_THROW((void)affine_from_range(1.0F, 0.0F, codes), Error);
  EXPECT_THROW((void)affine_from_range(-kInf, 0.0F, codes), Error);
  EXPECT_THROW((void)affine_from_range(0.0F, std::nanf(""), codes), Error);
  EXPECT_THROW((void)symmetric_from_magnitude(-1.0F, codes), Error);
  EXPECT_THROW((void)symmetric_from_magnitude(kInf, codes), Error);
}

TEST(Affine, EveryCodeOfEveryTypeSurvivesARoundTrip) {
  for (const DataType type : kTypes) {
    const CodeRange codes = code_range(type);
    for (const float scale : {1.0F, 0.1F, 1.0F / 3.0F, FLT_MIN, 1e30F}) {
      for (std::int32_t zero = codes.min; zero <= codes.max; ++zero) {
        const AffineParams params = {scale, zero};
        for (std::int32_t code = codes.min; code <= codes.max; ++code) {
          ASSERT_EQ(quantize(dequantize(code, params), params, codes), code)
              << to_string(type) << ", scale " << scale << ", zero point " << zero;
        }
      }
    }
  }
}

// The definition in exact arithmetic (scale 0.25): saturate(round half to even(x / scale) + zero_point).
TEST(Affine, RoundsHalfToEvenThenAddsTheZeroPointThenSaturates) {
  for (const DataType type : kTypes) {
    const CodeRange codes = code_range(type);
    for (std::int32_t zero = codes.min; zero <= codes.max; ++zero) {
      for (int eighths = -2400; eighths <= 2400; ++eighths) {  // x / scale in steps of 1/8
        const int floor = eighths >= 0 ? eighths / 8 : -((-eighths + 7) / 8);
        const int rest = eighths - 8 * floor;
        const int rounded = rest < 4 ? floor : rest > 4 ? floor + 1 : floor + (floor & 1);
        const std::int32_t expected = std::clamp(rounded + zero, codes.min, codes.max);
        ASSERT_EQ(quantize(static_cast<float>(eighths) / 32.0F, {0.25F, zero}, codes), expected) << eighths;
      }
    }
  }
  const CodeRange codes = code_range(DataType::kInt8);
  EXPECT_EQ(quantize(FLT_MAX, {FLT_MIN, 0}, codes), 127) << "the quotient is infinite";
  EXPECT_EQ(quantize(-FLT_MAX, {FLT_MIN, 0}, codes), -128);
}

TEST(Symmetric, LargestMagnitudeTakesTheLastCode) {
  for (const DataType type : kTypes) {
    const CodeRange codes = code_range(type, true);
    const AffineParams params = symmetric_from_magnitude(3.0F, codes);
    EXPECT_EQ(params.zero_point, codes.min < 0 ? 0 : (codes.max + 1) / 2);
    EXPECT_EQ(quantize(3.0F, params, codes), codes.max);
    EXPECT_EQ(quantize(0.0F, params, codes), params.zero_point);
  }
  EXPECT_EQ(symmetric_from_magnitude(0.0F, code_range(DataType::kInt8)).scale, 1.0F) << "a dead channel";
  EXPECT_EQ(symmetric_from_magnitude(FLT_TRUE_MIN, code_range(DataType::kInt8)).scale, FLT_MIN);
}

}  // namespace
}  // namespace tempera::numeric
