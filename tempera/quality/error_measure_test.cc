#include "tempera/quality/error_measure.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "tempera/base/error.h"

namespace tempera::quality {
namespace {

using graph::Tensor;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

Tensor row(std::vector<float> values) {
  return Tensor::from<float>({static_cast<std::int64_t>(values.size())}, std::span<const float>(values));
}

TEST(ErrorMeasureTest, HandWorkedExample) {
  // r = (3, 4), c = (3, 3): error 1, |r| = 5, |c| = sqrt(18), <r, c> = 21
  const ErrorMeasures m = measure_error(row({3, 4}), row({3, 3}));
  EXPECT_DOUBLE_EQ(m.max_abs, 1.0);
  EXPECT_DOUBLE_EQ(m.relative_l2, 0.2);
  EXPECT_DOUBLE_EQ(m.sqnr_db, 10 * std::log10(25.0));
  EXPECT_DOUBLE_EQ(m.cosine, 21.0 / (5.0 * std::sqrt(18.0)));
}

void expect_equal_verdict(const ErrorMeasures& m) {
  EXPECT_EQ(m.max_abs, 0.0);
  EXPECT_EQ(m.relative_l2, 0.0);
  EXPECT_EQ(m.sqnr_db, std::numeric_limits<double>::infinity());
  EXPECT_EQ(m.cosine, 1.0);
}

TEST(ErrorMeasureTest, EqualTensorsHaveNoErrorAlsoWhenZeroEmptyOrSpecial) {
  expect_equal_verdict(measure_error(row({1, 2}), row({1, 2})));
  expect_equal_verdict(measure_error(row({0, 0}), row({0, 0})));
  expect_equal_verdict(measure_error(row({}), row({})));
  expect_equal_verdict(measure_error(row({kNan, kInf, -kInf, 1}), row({kNan, kInf, -kInf, 1})));
}

TEST(ErrorMeasureTest, ZeroReferenceAndNewSpecialsAreInfinitelyWrong) {
  for (const auto& [r, c] : {std::pair{row({0, 0}), row({0, 1e-3F})}, std::pair{row({1, 2}), row({1, kNan})},
                             std::pair{row({kInf}), row({-kInf})}, std::pair{row({kNan, 1}), row({1, 1})}}) {
    const ErrorMeasures m = measure_error(r, c);
    EXPECT_EQ(m.relative_l2, std::numeric_limits<double>::infinity());
    EXPECT_EQ(m.sqnr_db, -std::numeric_limits<double>::infinity());
    EXPECT_EQ(m.cosine, 0.0);
  }
}

TEST(ErrorMeasureTest, TypesMayDifferDimensionsMayNot) {
  EXPECT_EQ(measure_error(row({1, 2}), Tensor::from<double>({2}, {1.0, 2.5})).max_abs, 0.5);
  EXPECT_THROW((void)measure_error(row({1, 2}), Tensor::from<float>({2, 1}, {1, 2})), Error);
}

}  // namespace
}  // namespace tempera::quality
