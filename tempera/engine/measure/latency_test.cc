#include "tempera/engine/measure/latency.h"

#include <numeric>

#include <gtest/gtest.h>

namespace tempera::engine {
namespace {

TEST(LatencyTest, PercentilesAreNearestRanks) {
  std::vector<double> times(100);
  std::iota(times.begin(), times.end(), 1.0);  // 1, 2, ..., 100
  const LatencyStats stats = latency_stats(times);
  EXPECT_EQ(stats.min_ms, 1.0);
  EXPECT_EQ(stats.median_ms, 50.5);
  EXPECT_EQ(stats.p95_ms, 95.0);
  EXPECT_EQ(stats.p99_ms, 99.0);
  EXPECT_EQ(latency_stats({3.0}).p95_ms, 3.0);
}

// For n = 30, P(Binomial(30, 1/2) <= 9) = 0.0214 and P(<= 10) = 0.0494 (tables of the binomial distribution): rank 10
// counted from 0.
TEST(LatencyTest, LowerBoundIsTheBinomialOrderStatistic) {
  std::vector<double> baseline(30, 1.0);
  std::vector<double> contender;
  for (int i = 0; i < 30; ++i) {
    contender.push_back(1.0 / (1.0 + 0.01 * i));  // ratios 1.00, 1.01, ..., 1.29
  }
  const PairedSpeedup speedup = paired_speedup(baseline, baseline, contender);
  EXPECT_NEAR(speedup.median, 1.145, 1e-12);
  EXPECT_NEAR(speedup.lower95, 1.10, 1e-12);
  EXPECT_NEAR(speedup.upper95, 1.19, 1e-12);
  EXPECT_EQ(speedup.noise, 1.0);
  EXPECT_TRUE(speedup.faster());
}

TEST(LatencyTest, AModestGainTakesThirtyPairs) {
  for (const std::size_t pairs : {29U, 30U}) {
    const std::vector<double> baseline(pairs, 1.4);
    const std::vector<double> contender(pairs, 1.0);
    EXPECT_EQ(paired_speedup(baseline, baseline, contender).faster(), pairs == 30);
    EXPECT_EQ(paired_speedup(contender, contender, baseline).slower(), pairs == 30);
  }
}

TEST(LatencyTest, ALargeGainTakesTenPairs) {
  for (const std::size_t pairs : {9U, 10U}) {
    const std::vector<double> baseline(pairs, 1.6);
    const std::vector<double> contender(pairs, 1.0);
    EXPECT_EQ(paired_speedup(baseline, baseline, contender).faster(), pairs == 10);
    EXPECT_EQ(paired_speedup(contender, contender, baseline).slower(), pairs == 10);
  }
}

TEST(LatencyTest, ALargeGainIsMeasuredAgainstTheNoise) {
  const std::vector<double> baseline(12, 1.6);
  const std::vector<double> again(12, 1.4);  // a sixth of noise
  EXPECT_FALSE(paired_speedup(baseline, again, std::vector<double>(12, 1.0)).faster());
  EXPECT_TRUE(paired_speedup(baseline, again, std::vector<double>(12, 0.9)).faster());
}

TEST(LatencyTest, AGainWithinTheNoiseDoesNotCount) {
  std::vector<double> baseline(40, 1.0);
  std::vector<double> again(40, 1.1);  // the baseline differs from itself by 10 %
  const std::vector<double> contender(40, 0.95);
  const PairedSpeedup speedup = paired_speedup(baseline, again, contender);
  EXPECT_NEAR(speedup.noise, 1.1, 1e-12);
  EXPECT_GT(speedup.lower95, 1.0);
  EXPECT_FALSE(speedup.faster());
  EXPECT_FALSE(speedup.slower());
}

TEST(LatencyTest, ClearlySlowerIsSaid) {
  const std::vector<double> baseline(30, 1.0);
  const std::vector<double> contender(30, 1.5);
  EXPECT_TRUE(paired_speedup(baseline, baseline, contender).slower());
}

// A session that counts its runs.
class CountingSession : public Session {
 public:
  [[nodiscard]] const std::vector<Port>& inputs() const override { return ports_; }
  [[nodiscard]] const std::vector<Port>& outputs() const override { return ports_; }
  std::vector<graph::Tensor> run(std::span<const graph::Tensor>) override {
    ++runs;
    return {};
  }
  int runs = 0;

 private:
  std::vector<Port> ports_;
};

TEST(LatencyTest, EveryRoundTimesTheBaselineTwiceAndTheOthersOnceEachAfterAnUntimedRun) {
  const auto log = make_null_logger();
  const auto progress = make_null_progress();
  CountingSession baseline;
  CountingSession contender;
  const std::vector<std::vector<graph::Tensor>> inputs(1);
  const std::vector<Timed> timed = {{&baseline, inputs}, {&contender, inputs}};
  const auto timings = time_interleaved(timed, {30, 2, 60.0}, {*log, *progress, {}});
  EXPECT_EQ(baseline.runs, 2 + 2 * 60);
  EXPECT_EQ(contender.runs, 2 + 2 * 30);
  EXPECT_EQ(timings.at(1).speedup.pairs, 30);
}

}  // namespace
}  // namespace tempera::engine
