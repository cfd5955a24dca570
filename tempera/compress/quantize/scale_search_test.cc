#include "tempera/compress/quantize/scale_search.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace tempera::compress {
namespace {

constexpr Levels kInt8 = {-127, 127};
constexpr Levels kInt4 = {-8, 7};
constexpr Levels kInt2 = {-2, 1};

std::vector<float> normal_values(std::size_t count, std::uint32_t seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  std::generate(values.begin(), values.end(), [&] { return normal(generator); });
  return values;
}

float largest(const std::vector<float>& values) {
  float result = 0.0F;
  for (const float value : values) {
    result = std::max(result, std::abs(value));
  }
  return result;
}

TEST(NearestLevel, RoundsHalfToEvenAndClamps) {
  EXPECT_EQ(nearest_level(0.5F, kInt8), 0.0F);
  EXPECT_EQ(nearest_level(1.5F, kInt8), 2.0F);
  EXPECT_EQ(nearest_level(-2.5F, kInt8), -2.0F);
  EXPECT_EQ(nearest_level(-2.51F, kInt8), -3.0F);
  EXPECT_EQ(nearest_level(1e30F, kInt4), 7.0F);
  EXPECT_EQ(nearest_level(-1e30F, kInt4), -8.0F);
  EXPECT_EQ(nearest_level(-0.2F, kInt4), 0.0F);
}

TEST(SearchScale, IsNeverWorseThanTheFullRange) {
  for (std::uint32_t seed = 1; seed <= 20; ++seed) {
    std::vector<float> values = normal_values(64, seed);
    values[seed] *= static_cast<float>(seed);  // an outlier, from none to large
    for (const Levels levels : {kInt8, kInt4, kInt2}) {
      const float full = largest(values) / static_cast<float>(levels.high);
      EXPECT_LE(rounding_error(values, search_scale(values, levels), levels), rounding_error(values, full, levels))
          << "seed " << seed;
    }
  }
}

// Against a fine grid over all scales: the search may miss the best one by little.
TEST(SearchScale, ComesCloseToTheBestOfAFineGrid) {
  for (std::uint32_t seed = 1; seed <= 5; ++seed) {
    const std::vector<float> values = normal_values(512, seed);
    for (const Levels levels : {kInt8, kInt4, kInt2}) {
      double best = 1e300;
      for (int i = 1; i <= 2000; ++i) {
        const float scale = largest(values) / static_cast<float>(levels.high) * static_cast<float>(i) / 2000.0F;
        best = std::min(best, rounding_error(values, scale, levels));
      }
      // With 255 levels the error of 512 values goes up and down with the scale by chance.
      const double allowed = levels.high == kInt8.high ? 1.08 : 1.03;
      EXPECT_LE(rounding_error(values, search_scale(values, levels), levels), allowed * best) << "seed " << seed;
    }
  }
}

TEST(SearchScale, HitsAGridThatIsThere) {
  std::vector<float> values;
  for (int code = -8; code <= 7; ++code) {
    values.push_back(0.375F * static_cast<float>(code));
  }
  EXPECT_FLOAT_EQ(search_scale(values, kInt4), 0.375F) << "the lowest code has no positive partner";
  EXPECT_NEAR(rounding_error(values, search_scale(values, kInt4), kInt4), 0.0, 1e-12);
}

TEST(SearchScale, StaysNormalAtTheLimits) {
  EXPECT_EQ(search_scale(std::vector<float>(9, 0.0F), kInt8), 1.0F);
  EXPECT_EQ(search_scale({}, kInt8), 1.0F);
  EXPECT_TRUE(std::isnormal(search_scale(std::vector<float>{FLT_TRUE_MIN, 0.0F}, kInt8)));
  const float huge = search_scale(std::vector<float>{FLT_MAX, -FLT_MAX}, kInt2);
  EXPECT_TRUE(std::isnormal(huge));
}

}  // namespace
}  // namespace tempera::compress
