#include "tempera/optimize/candidate.h"

#include <gtest/gtest.h>

namespace tempera::optimize {
namespace {

Candidate measured(double median_ms, double lower95, bool within) {
  Candidate candidate;
  candidate.timing.latency.median_ms = median_ms;
  candidate.timing.speedup.median = 10.0 / median_ms;
  candidate.timing.speedup.lower95 = lower95;
  candidate.timing.speedup.noise = 1.02;
  candidate.timing.speedup.pairs = 30;
  candidate.verdict.within = within;
  return candidate;
}

TEST(ChooseTest, TakesTheFastestWithinTheBudget) {
  std::vector<Candidate> candidates;
  candidates.push_back(measured(10, 1.0, true));
  candidates.push_back(measured(5, 1.9, true));
  candidates.push_back(measured(2, 4.0, false));  // too lossy
  candidates.push_back(measured(4, 2.2, true));
  EXPECT_EQ(choose(candidates), 3U);
}

TEST(ChooseTest, KeepsTheOriginalWhenGainsAreWithinNoise) {
  std::vector<Candidate> candidates;
  candidates.push_back(measured(10, 1.0, true));
  candidates.push_back(measured(9.9, 1.01, true));
  EXPECT_EQ(choose(candidates), 0U);
}

TEST(ChooseTest, OfEquallyFastOnesTheSmallestIsKept) {
  std::vector<Candidate> candidates;
  candidates.push_back(measured(10, 1.0, true));
  candidates.push_back(measured(5.0, 1.9, true));
  candidates.push_back(measured(5.1, 1.9, true));
  candidates.push_back(measured(6.0, 1.6, true));
  candidates[0].weight_bytes = candidates[1].weight_bytes = 4000;
  candidates[2].weight_bytes = 1000;
  candidates[3].weight_bytes = 500;  // small, but clearly slower
  EXPECT_EQ(choose(candidates), 2U);
}

TEST(ChooseTest, PassesOverWhatDoesNotRun) {
  std::vector<Candidate> candidates;
  candidates.push_back(measured(10, 1.0, true));
  candidates.push_back(measured(2, 4.5, true));
  candidates.back().failure = "no kernel";
  EXPECT_EQ(choose(candidates), 0U);
}

TEST(ChooseTest, PassesOverWhatWasDropped) {
  std::vector<Candidate> candidates;
  candidates.push_back(measured(10, 1.0, true));
  candidates.push_back(measured(5, 1.9, true));
  candidates.back().dropped = "failed verification";
  EXPECT_EQ(choose(candidates), 0U);
}

TEST(ChooseTest, AWrongOriginalIsReplacedEvenBySomethingSlower) {
  std::vector<Candidate> candidates;
  candidates.push_back(measured(10, 1.0, false));
  candidates.push_back(measured(12, 0.8, true));
  EXPECT_EQ(choose(candidates), 1U);
}

}  // namespace
}  // namespace tempera::optimize
