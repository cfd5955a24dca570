#include "tempera/quality/statistics.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tempera/base/error.h"

namespace tempera::quality {
namespace {

using testing::ElementsAre;
using Values = std::vector<double>;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

TEST(StatisticsTest, TopKOrdersTiesByIndexAndPutsNanLast) {
  EXPECT_THAT(top_k(Values{1, 3, 3, kNan, -kInf, 2}, 10), ElementsAre(1, 2, 5, 0, 4, 3));
  EXPECT_THAT(top_k(Values{1, 3, 3}, 1), ElementsAre(1));
  EXPECT_TRUE(top_k(Values{}, 3).empty());
}

TEST(StatisticsTest, MeanMedianAndErrors) {
  EXPECT_EQ(mean(Values{1, 2, 6}), 3);
  EXPECT_EQ(median({5, 1, 3}), 3);
  EXPECT_EQ(median({4, 1, 3, 2}), 2.5);
  EXPECT_TRUE(std::isnan(mean(Values{})));
  EXPECT_TRUE(std::isnan(median({})));
  EXPECT_EQ(mean_absolute_error(Values{1, 2}, Values{2, 0}), 1.5);
  EXPECT_DOUBLE_EQ(root_mean_square_error(Values{1, 2}, Values{2, 0}), std::sqrt(2.5));
  EXPECT_THROW((void)mean_absolute_error(Values{1}, Values{1, 2}), Error);
}

TEST(StatisticsTest, CorrelationsOfAKnownSet) {
  // Anscombe's first quartet (1973): r = 0.81642 to five digits.
  const Values x = {10, 8, 13, 9, 11, 14, 6, 4, 12, 7, 5};
  const Values y = {8.04, 6.95, 7.58, 8.81, 8.33, 9.96, 7.24, 4.26, 10.84, 4.82, 5.68};
  EXPECT_NEAR(pearson(x, y), 0.81642, 5e-6);
  EXPECT_DOUBLE_EQ(spearman(Values{1, 2, 3, 4}, Values{1, 10, 100, 1000}), 1.0);
  // Ranks 1, 2.5, 2.5, 4 against 1, 2, 3, 4: 4.5 / sqrt(4.5 * 5)
  EXPECT_NEAR(spearman(Values{1, 2, 2, 3}, Values{1, 2, 3, 4}), 4.5 / std::sqrt(4.5 * 5), 1e-15);
  EXPECT_TRUE(std::isnan(pearson(Values{1}, Values{1})));
  EXPECT_TRUE(std::isnan(pearson(Values{1, 1}, Values{1, 2})));
  EXPECT_TRUE(std::isnan(spearman(Values{1, kNan}, Values{1, 2})));
}

}  // namespace
}  // namespace tempera::quality
