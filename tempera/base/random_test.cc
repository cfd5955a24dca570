#include "tempera/base/random.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

namespace tempera {
namespace {

using Words = std::array<std::uint32_t, 4>;

// Known answers of Random123 1.14, file kat_vectors, "philox4x32 10".
TEST(RandomTest, PhiloxGivesThePublishedAnswers) {
  EXPECT_EQ(philox4x32_10({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr std::uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(philox4x32_10({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32_10({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(RandomTest, FillingEqualsAddressingOneByOne) {
  const CounterRng rng(7, 3);
  for (const std::size_t size : {0, 1, 3, 4, 5, 18}) {
    std::vector<float> uniform(size);
    std::vector<float> normal(size);
    rng.fill_uniform(uniform);
    rng.fill_normal(normal);
    for (std::size_t i = 0; i < size; ++i) {
      EXPECT_EQ(uniform[i], rng.uniform(i)) << i;
      EXPECT_EQ(normal[i], rng.normal(i)) << i;
    }
  }
}

TEST(RandomTest, SeedsAndDrawsDiffer) {
  EXPECT_NE(CounterRng(1, 0).bits(0), CounterRng(2, 0).bits(0));
  EXPECT_NE(CounterRng(1, 0).bits(0), CounterRng(1, 1).bits(0));
}

TEST(RandomTest, MomentsAreThoseOfTheDistributions) {
  std::vector<float> values(200'000);
  CounterRng(11).fill_normal(values);
  double sum = 0;
  double squares = 0;
  for (const float v : values) {
    ASSERT_TRUE(std::isfinite(v));
    sum += v;
    squares += static_cast<double>(v) * v;
  }
  const auto n = static_cast<double>(values.size());
  EXPECT_NEAR(sum / n, 0.0, 5 / std::sqrt(n));                       // five standard errors
  EXPECT_NEAR(squares / n, 1.0, 5 * std::sqrt(2.0) / std::sqrt(n));  // var of z^2 is 2
  CounterRng(12).fill_uniform(values);
  sum = 0;
  for (const float v : values) {
    ASSERT_GE(v, 0.0F);
    ASSERT_LT(v, 1.0F);
    sum += v;
  }
  EXPECT_NEAR(sum / n, 0.5, 5 * std::sqrt(1.0 / 12) / std::sqrt(n));
}

TEST(RandomTest, BelowStaysBelowAndReachesEveryValue) {
  const CounterRng rng(5);
  std::vector<int> counts(7);
  for (std::uint64_t i = 0; i < 7000; ++i) {
    const std::uint64_t value = rng.below(i, 7);
    ASSERT_LT(value, 7U);
    ++counts[value];
  }
  for (const int count : counts) {
    EXPECT_NEAR(count, 1000, 5 * std::sqrt(1000.0 * 6 / 7));  // five standard deviations
  }
  EXPECT_EQ(rng.below(0, 1), 0U);
}

}  // namespace
}  // namespace tempera
