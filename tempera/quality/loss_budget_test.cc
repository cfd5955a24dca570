#include "tempera/quality/loss_budget.h"

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tempera/base/error.h"

namespace tempera::quality {
namespace {

using testing::HasSubstr;
using Kind = LossBudget::Kind;

OutputLoss fidelity(const std::string& name, double relative_l2, double sqnr_db) {
  OutputLoss output;
  output.output = name;
  output.relative_l2 = relative_l2;
  output.sqnr_db = sqnr_db;
  return output;
}

OutputLoss task(const std::string& name, const std::string& metric, double before, double after) {
  OutputLoss output = fidelity(name, 0.5, 6.0);
  output.metric = metric;
  output.metric_before = before;
  output.metric_after = after;
  return output;
}

TEST(LossBudgetTest, TextsAreParsedStrictly) {
  const LossBudget percent = LossBudget::parse_max_loss("5%");
  EXPECT_EQ(percent.kind, Kind::kRelative);
  EXPECT_DOUBLE_EQ(percent.limit, 0.05);
  EXPECT_DOUBLE_EQ(LossBudget::parse_max_loss(" 0.05 ").limit, 0.05);
  const LossBudget decibel = LossBudget::parse_max_loss("0.2dB");
  EXPECT_EQ(decibel.kind, Kind::kWorseBy);
  EXPECT_EQ(decibel.unit, "dB");
  EXPECT_EQ(LossBudget::parse_max_loss("0.01 hartree").unit, "hartree");
  EXPECT_EQ(LossBudget::parse_min("35 db").to_string(), "at least 35 dB");
  EXPECT_EQ(percent.to_string(), "at most 5% loss");
  for (const char* bad : {"", "%", "five", "-1%", "nan", "inf", "1e999"}) {
    EXPECT_THROW((void)LossBudget::parse_max_loss(bad), Error) << bad;
  }
}

TEST(LossBudgetTest, RelativeTakesTaskLossWhereThereIsATruthElseFidelity) {
  const LossBudget budget = LossBudget::parse_max_loss("5%");
  const LossVerdict verdict = judge(budget, {fidelity("a", 0.01, 40), task("b", "top1", 0.8, 0.78)});
  EXPECT_TRUE(verdict.within);
  EXPECT_EQ(verdict.output, "b");
  EXPECT_EQ(verdict.measured, "task loss (top1)");
  EXPECT_NEAR(verdict.loss, 0.025, 1e-12);
  EXPECT_EQ(verdict.text, "task loss (top1) of output 'b' is 2.5%: within the budget (at most 5% loss)");
  EXPECT_FALSE(judge(budget, {fidelity("a", 0.06, 24), task("b", "top1", 0.8, 0.8)}).within);
}

TEST(LossBudgetTest, OwnUnitsNeedAMetricInThatUnit) {
  const LossBudget budget = LossBudget::parse_max_loss("0.2dB");
  EXPECT_TRUE(judge(budget, {task("a", "psnr", 30, 29.9)}).within);
  EXPECT_FALSE(judge(budget, {task("a", "psnr", 30, 29.7)}).within);
  EXPECT_TRUE(judge(budget, {task("a", "psnr", 30, 31)}).within);
  EXPECT_THROW((void)judge(budget, {task("a", "top1", 1, 1)}), Error);
  EXPECT_THROW((void)judge(budget, {fidelity("a", 0, 90)}), Error);
  EXPECT_TRUE(judge(LossBudget::parse_max_loss("0.01 hartree"), {task("a", "mae", 0.02, 0.025)}).within);
}

TEST(LossBudgetTest, AtLeastTakesTheMetricOrElseTheFidelity) {
  const LossBudget budget = LossBudget::parse_min("35dB");
  EXPECT_TRUE(judge(budget, {fidelity("a", 0.01, 40)}).within);
  EXPECT_FALSE(judge(budget, {fidelity("a", 0.01, 40), fidelity("b", 0.1, 34)}).within);
  EXPECT_FALSE(judge(budget, {task("a", "psnr", 36, 34)}).within);
  EXPECT_THAT(judge(budget, {fidelity("a", 0.01, 40)}).text, HasSubstr("SQNR of output 'a' is 40 dB"));
}

TEST(LossBudgetTest, NanAndInfinityNeverPass) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE(
      judge(LossBudget::parse_max_loss("5%"), {fidelity("a", kNan, kNan), fidelity("b", 0, 99)}).within);
  EXPECT_FALSE(judge(LossBudget::parse_min("35dB"), {fidelity("a", 0, kNan)}).within);
  EXPECT_TRUE(
      judge(LossBudget::parse_min("35dB"), {fidelity("a", 0, std::numeric_limits<double>::infinity())})
          .within);
}

}  // namespace
}  // namespace tempera::quality
