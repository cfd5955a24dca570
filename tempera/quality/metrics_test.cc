#include "tempera/quality/metrics.h"

#include <cmath>
#include <limits>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tempera/base/error.h"

namespace tempera::quality {
namespace {

using graph::Tensor;
using testing::HasSubstr;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

std::unique_ptr<Metric> make(const std::string& name) { return find_metric(name).make({}); }

TEST(MetricsTest, NamesAreUniqueAndUnknownOnesListTheNearest) {
  const std::vector<std::string> names = metric_names();
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), names.size());
  for (const MetricInfo& metric : metrics()) {
    EXPECT_FALSE(metric.name.empty() || metric.summary.empty());
    EXPECT_EQ(metric.make({})->result().samples, 0);
    EXPECT_TRUE(std::isnan(metric.make({})->result().value)) << metric.name;
  }
  try {
    (void)find_metric("psnr-y");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("unknown metric 'psnr-y': the nearest are 'psnr_y'"));
  }
}

TEST(MetricsTest, MeansOverSamplesNameTheWorst) {
  const auto metric = make("relative_l2");
  metric->add("a", Tensor::from<float>({2}, {3, 4}), Tensor::from<float>({2}, {3, 4}));
  metric->add("b", Tensor::from<float>({2}, {3, 4}), Tensor::from<float>({2}, {3, 2}));
  const Metric::Result result = metric->result();
  EXPECT_DOUBLE_EQ(result.value, 0.2);
  EXPECT_EQ(result.samples, 2);
  EXPECT_EQ(result.worst_sample, "b");
  EXPECT_DOUBLE_EQ(result.worst_value, 0.4);
}

TEST(MetricsTest, MaxAbsIsTheLargestNotTheMean) {
  const auto metric = make("max_abs");
  metric->add("a", Tensor::scalar(1.0F), Tensor::scalar(4.0F));
  metric->add("b", Tensor::scalar(1.0F), Tensor::scalar(2.0F));
  EXPECT_EQ(metric->result().value, 3.0);
  EXPECT_EQ(metric->result().worst_sample, "a");
}

TEST(MetricsTest, TopTakesIndicesOneHotRowsOrAnotherModelsScores) {
  const Tensor scores = Tensor::from<float>({2, 3}, {0.1F, 0.7F, 0.2F, 0.5F, 0.3F, 0.2F});
  for (const Tensor& truth :
       {Tensor::from<std::int64_t>({2}, {1, 2}), Tensor::from<std::int64_t>({2, 1}, {1, 2}),
        Tensor::from<float>({2, 3}, {0, 1, 0, 0, 0, 1})}) {
    const auto top1 = make("top1");
    top1->add("s", truth, scores);
    EXPECT_EQ(top1->result().value, 0.5);
    const auto top5 = make("top5");
    top5->add("s", truth, scores);
    EXPECT_EQ(top5->result().value, 1.0);
  }
  EXPECT_THROW(make("top1")->add("s", Tensor::from<float>({3}, {1, 2, 3}), scores), Error);
}

TEST(MetricsTest, ImagesAreComparedAsTheyWouldBeSaved) {
  data::OutputRecipe output;
  output.metric = "psnr";
  output.border = 1;
  const auto metric = make_metric(output);
  std::vector<float> a(3 * 12 * 12, 0.5F);
  std::vector<float> b = a;
  b[0] = 1.0F;           // in the border
  b[13] = 0.5F + 1e-4F;  // below a half step of 1/255
  metric->add("s", Tensor::from<float>({1, 3, 12, 12}, std::span<const float>(a)),
              Tensor::from<float>({1, 3, 12, 12}, std::span<const float>(b)));
  EXPECT_EQ(metric->result().value, kInf);
}

TEST(MetricsTest, PooledStatisticsUseAllElements) {
  const auto rmse = make("rmse");
  rmse->add("a", Tensor::from<double>({2}, {0, 0}), Tensor::from<double>({2}, {3, 0}));
  rmse->add("b", Tensor::from<double>({2}, {0, 0}), Tensor::from<double>({2}, {0, 4}));
  EXPECT_DOUBLE_EQ(rmse->result().value, std::sqrt(25.0 / 4));
}

TEST(MetricsTest, RelativeTaskLossFollowsEachRule) {
  EXPECT_DOUBLE_EQ(relative_task_loss(find_metric("top1"), 0.8, 0.76), 1 - 0.76 / 0.8);
  EXPECT_DOUBLE_EQ(relative_task_loss(find_metric("mae"), 2.0, 2.1), 2.1 / 2.0 - 1);
  EXPECT_NEAR(relative_task_loss(find_metric("psnr"), 30.0, 30.0 - 20 * std::log10(1.05)), 0.05, 1e-12);
  EXPECT_NEAR(relative_task_loss(find_metric("ssim"), 0.9, 0.88), 0.02, 1e-12);
  EXPECT_LT(relative_task_loss(find_metric("psnr"), 30.0, 31.0), 0.0);
}

TEST(MetricsTest, RelativeTaskLossOfExtremes) {
  EXPECT_EQ(relative_task_loss(find_metric("psnr"), kInf, kInf), 0.0);
  EXPECT_EQ(relative_task_loss(find_metric("psnr"), kInf, 40.0), kInf);
  EXPECT_EQ(relative_task_loss(find_metric("psnr"), 40.0, kInf), -1.0);
  EXPECT_EQ(relative_task_loss(find_metric("mae"), 0.0, 0.1), kInf);
  EXPECT_EQ(relative_task_loss(find_metric("mae"), 0.0, 0.0), 0.0);
  EXPECT_EQ(relative_task_loss(find_metric("top1"), 0.0, 0.5), -1.0);
  EXPECT_EQ(relative_task_loss(find_metric("top1"), 0.5, kNan), kInf);
}

}  // namespace
}  // namespace tempera::quality
