#include "tempera/numeric/low_bit.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace tempera::numeric {
namespace {

double squared_error(const std::vector<float>& values, const std::vector<int>& codes, double scale) {
  double sum = 0.0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double error = values[i] - scale * codes[i];
    sum += error * error;
  }
  return sum;
}

// The least error over every assignment of `levels` to the values, each with its least-squares scale.
double least_error(const std::vector<float>& values, const std::vector<int>& levels) {
  double best = std::numeric_limits<double>::infinity();
  std::vector<int> codes(values.size());
  const auto assignments = static_cast<std::size_t>(std::pow(levels.size(), values.size()));
  for (std::size_t assignment = 0; assignment < assignments; ++assignment) {
    std::size_t rest = assignment;
    double product = 0.0;
    double squares = 0.0;
    for (std::size_t i = 0; i < values.size(); ++i, rest /= levels.size()) {
      codes[i] = levels[rest % levels.size()];
      product += static_cast<double>(values[i]) * codes[i];
      squares += codes[i] * codes[i];
    }
    best = std::min(best, squared_error(values, codes, squares > 0 ? product / squares : 0.0));
  }
  return best;
}

std::vector<std::vector<float>> cases() {
  std::vector<std::vector<float>> list = {{1}, {-3, 3}, {0, 0, 5}, {1, 1, 1, 1}, {10, 1, 1, 1, 1, -1}, {-0.0F, 2}};
  std::mt19937 generator(20260101);
  std::normal_distribution<float> normal;
  for (int i = 0; i < 20; ++i) {
    std::vector<float> values(8);
    for (float& value : values) {
      value = normal(generator);
    }
    list.push_back(values);
  }
  return list;
}

TEST(Ternary, NoAssignmentOfAllIsBetter) {
  for (const std::vector<float>& values : cases()) {
    const TernaryFit fit = fit_ternary(values);
    std::vector<int> codes;
    for (const float value : values) {
      codes.push_back(ternary_code(value, fit.scale));
    }
    const double best = least_error(values, {-1, 0, 1});
    EXPECT_NEAR(squared_error(values, codes, fit.scale), best, 1e-6 * (1 + best));  // the scale is rounded to float
    EXPECT_NEAR(fit.squared_error, best, 1e-9 * (1 + best));
  }
}

TEST(Ternary, TheRuleOfThumbIsNotTheOptimum) {
  // 0.7 mean|w| = 0.5 keeps the 1 beside the 4: scale 2.5, error 4.5. The optimum drops it.
  const TernaryFit fit = fit_ternary(std::vector<float>{4, 1, 0, 0, 0, 0, 0});
  EXPECT_EQ(fit.scale, 4.0F);
  EXPECT_DOUBLE_EQ(fit.squared_error, 1.0);
}

TEST(Ternary, ZerosAndNothingStayZero) {
  EXPECT_EQ(fit_ternary(std::vector<float>{0, 0, -0.0F}).scale, 0.0F);
  EXPECT_EQ(fit_ternary({}).scale, 0.0F);
  EXPECT_EQ(ternary_code(0.0F, 0.0F), 0);
  EXPECT_EQ(ternary_code(0.5F, 1.0F), 0);  // the middle
  EXPECT_EQ(ternary_code(-0.51F, 1.0F), -1);
}

TEST(Ternary, LargestFloatsDoNotOverflow) {
  const float large = std::numeric_limits<float>::max();
  EXPECT_EQ(fit_ternary(std::vector<float>{large, -large, large}).scale, large);
}

TEST(Binary, NoAssignmentOfAllIsBetter) {
  for (const std::vector<float>& values : cases()) {
    const float scale = fit_binary(values);
    std::vector<int> codes;
    for (const float value : values) {
      codes.push_back(binary_code(value));
    }
    const double best = least_error(values, {-1, 1});
    EXPECT_NEAR(squared_error(values, codes, scale), best, 1e-6 * (1 + best));
  }
}

TEST(Binary, ZeroCountsAsPositive) {
  EXPECT_EQ(binary_code(-0.0F), 1);
  EXPECT_EQ(binary_code(-1e-38F), -1);
  EXPECT_EQ(fit_binary({}), 0.0F);
  EXPECT_EQ(fit_binary(std::vector<float>{-1, 3}), 2.0F);
}

}  // namespace
}  // namespace tempera::numeric
