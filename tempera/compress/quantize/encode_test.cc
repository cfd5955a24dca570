#include "tempera/compress/quantize/encode.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "tempera/base/error.h"
#include "tempera/numeric/convert.h"

namespace tempera::compress {
namespace {

constexpr WeightFormat kScaled[] = {WeightFormat::kInt8,    WeightFormat::kInt4,   WeightFormat::kInt2,
                                    WeightFormat::kTernary, WeightFormat::kBinary, WeightFormat::kFloat8E4M3FN,
                                    WeightFormat::kFloat8E5M2};

WeightView matrix_view(std::int64_t rows, std::int64_t columns) {
  WeightView view;
  view.dims = {rows, columns};
  view.perm = {0, 1};
  view.rows = rows;
  view.columns = columns;
  return view;
}

std::vector<float> normal_values(std::int64_t count, std::uint32_t seed = 1, float deviation = 0.1F) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0.0F, deviation);
  std::vector<float> values(static_cast<std::size_t>(count));
  std::generate(values.begin(), values.end(), [&] { return normal(generator); });
  return values;
}

TEST(EncodeWeight, EveryWeightTakesTheNearestLevel) {
  const WeightView view = matrix_view(5, 70);
  const std::vector<float> values = normal_values(5 * 70);
  for (const WeightFormat format : kScaled) {
    for (const Granularity granularity : {Granularity{Granularity::Kind::kTensor}, Granularity{},
                                          Granularity{Granularity::Kind::kBlock, 32}}) {
      const EncodedWeight weight = encode_weight(view, values, format, granularity);
      const std::vector<float> decoded = decode_weight(weight);
      std::vector<float> levels = level_table(format);
      for (std::int64_t row = 0; row < 5; ++row) {
        for (std::int64_t column = 0; column < 70; ++column) {
          const std::size_t i = static_cast<std::size_t>(row * 70 + column);
          const float scale = weight.scale_of(row, column);
          float least = FLT_MAX;
          for (const float level : levels) {
            least = std::min(least, std::abs(values[i] - scale * level));
          }
          // 1e-6: the quotient by the scale is rounded, so a tie may fall either way
          ASSERT_NEAR(std::abs(values[i] - decoded[i]), least, 1e-6) << to_string(format) << " " << i;
        }
      }
    }
  }
}

TEST(EncodeWeight, ScalesAreOfATensorARowOrABlock) {
  const WeightView view = matrix_view(5, 70);
  const std::vector<float> values = normal_values(5 * 70);
  const auto scales = [&](Granularity granularity) {
    return encode_weight(view, values, WeightFormat::kInt4, granularity).scales.size();
  };
  EXPECT_EQ(scales({Granularity::Kind::kTensor}), 1U);
  EXPECT_EQ(scales({}), 5U);
  EXPECT_EQ(scales({Granularity::Kind::kBlock, 32}), 15U);
  EXPECT_EQ(scales({Granularity::Kind::kBlock, 128}), 5U);
  EXPECT_THROW((void)scales({Granularity::Kind::kBlock, 0}), Error);
}

TEST(EncodeWeight, BytesAreThoseOfCodesAndScales) {
  const WeightView view = matrix_view(4, 65);  // 260 codes
  const std::vector<float> values = normal_values(260);
  const auto bytes = [&](WeightFormat format, Granularity granularity) {
    return encode_weight(view, values, format, granularity).bytes();
  };
  EXPECT_EQ(bytes(WeightFormat::kInt8, {}), 260 + 4 * 4);
  EXPECT_EQ(bytes(WeightFormat::kInt4, {}), 130 + 4 * 2);
  EXPECT_EQ(bytes(WeightFormat::kInt4, {Granularity::Kind::kBlock, 64}), 130 + 8 * 2);
  EXPECT_EQ(bytes(WeightFormat::kTernary, {}), 65 + 4 * 2);
  EXPECT_EQ(bytes(WeightFormat::kBinary, {}), 33 + 4 * 2);
  EXPECT_EQ(bytes(WeightFormat::kFloat8E4M3FN, {Granularity::Kind::kTensor}), 260 + 4);
}

TEST(EncodeWeight, ARowOfZerosStaysZeroAndItsScaleHarmless) {
  const WeightView view = matrix_view(2, 8);
  std::vector<float> values = normal_values(16);
  std::fill(values.begin(), values.begin() + 8, 0.0F);
  for (const WeightFormat format : kScaled) {
    const EncodedWeight weight = encode_weight(view, values, format, {});
    const std::vector<float> decoded = decode_weight(weight);
    for (std::size_t i = 0; i < 8; ++i) {
      EXPECT_EQ(decoded[i], 0.0F) << to_string(format);
    }
    if (code_book(format).type != DataType::kUndefined) {
      EXPECT_GT(weight.scales[0], 0.0F) << to_string(format) << ": engines refuse a scale of 0";
    }
  }
}

TEST(EncodeWeight, TinyWeightsKeepFloatScales) {
  const WeightView view = matrix_view(2, 64);
  const std::vector<float> values = normal_values(128, 1, 1e-6F);  // a half float has no such scale
  const EncodedWeight weight = encode_weight(view, values, WeightFormat::kInt4, {});
  EXPECT_EQ(weight.scale_type, DataType::kFloat32);
  EXPECT_LT(weight.relative_l2, 0.15);
}

TEST(EncodeWeight, HalfScalesAreStoredAsUsed) {
  const EncodedWeight weight = encode_weight(matrix_view(3, 64), normal_values(192), WeightFormat::kInt4, {});
  ASSERT_EQ(weight.scale_type, DataType::kFloat16);
  for (const float scale : weight.scales) {
    EXPECT_EQ(scale, static_cast<float>(static_cast<_Float16>(scale)));
  }
}

TEST(EncodeWeight, SearchBeatsTheMaximumAtFourBitsAndNeverLosesAtEight) {
  const WeightView view = matrix_view(16, 256);
  const std::vector<float> values = normal_values(16 * 256);
  EncodeOptions plain;
  plain.search = false;
  const auto error = [&](WeightFormat format, const EncodeOptions& options) {
    return encode_weight(view, values, format, {}, options).relative_l2;
  };
  EXPECT_LT(error(WeightFormat::kInt4, {}), 0.95 * error(WeightFormat::kInt4, plain));
  EXPECT_LE(error(WeightFormat::kInt8, {}), error(WeightFormat::kInt8, plain));
}

// Errors of the best scalar quantisers of a normal variable: 1 bit sqrt(1 - 2/pi) = 0.603; three levels 0.436 (Max 1960,
// table I: 0.1902 of the variance); uniform, 16 levels 0.107 (table II: 0.01154). 8192 samples come within 3 %.
TEST(EncodeWeight, ComesToThePublishedErrorsOfANormalVariable) {
  const WeightView view = matrix_view(1, 8192);
  const std::vector<float> values = normal_values(8192, 7, 1.0F);
  EXPECT_NEAR(encode_weight(view, values, WeightFormat::kBinary, {}).relative_l2, 0.603, 0.018);
  EXPECT_NEAR(encode_weight(view, values, WeightFormat::kTernary, {}).relative_l2, 0.436, 0.013);
  EXPECT_NEAR(encode_weight(view, values, WeightFormat::kInt4, {}).relative_l2, 0.107, 0.006);
}

TEST(EncodeWeight, SevenBitsLeaveTheUpperCodesAlone) {
  EncodeOptions options;
  options.int8_limit = 63;
  const EncodedWeight weight = encode_weight(matrix_view(4, 64), normal_values(256), WeightFormat::kInt8, {}, options);
  for (const std::uint8_t code : weight.codes) {
    EXPECT_LE(std::abs(code - 128), 63);
  }
}

TEST(EncodeWeight, NothingIsEncodedAsNothing) {
  const EncodedWeight weight = encode_weight(matrix_view(0, 4), std::vector<float>{}, WeightFormat::kInt8, {});
  EXPECT_TRUE(decode_weight(weight).empty());
}

TEST(LevelTable, HasTheLevelsOfTheFormat) {
  EXPECT_EQ(level_table(WeightFormat::kTernary), (std::vector<float>{-1, 0, 1, 0}));
  EXPECT_EQ(level_table(WeightFormat::kBinary), (std::vector<float>{-1, 1}));
  EXPECT_EQ(level_table(WeightFormat::kInt2), (std::vector<float>{-2, -1, 0, 1}));
  EXPECT_EQ(level_table(WeightFormat::kInt4)[0], -8.0F);
  EXPECT_EQ(level_table(WeightFormat::kFloat8E4M3FN)[0x7E], 448.0F);
}

}  // namespace
}  // namespace tempera::compress
