#include "tempera/compress/calibrate/histogram.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "tempera/base/error.h"
#include "tempera/base/random.h"

namespace tempera::compress {
namespace {

std::vector<float> normal_values(std::size_t count, std::uint64_t seed) {
  std::vector<float> values(count);
  CounterRng(seed).fill_normal(values);
  return values;
}

/// By the definition, in double, one value at a time.
struct Slow {
  std::vector<std::uint64_t> positive;
  std::vector<std::uint64_t> negative;
  std::uint64_t zeros = 0;
  double width = 0.0;

  explicit Slow(const std::vector<float>& values) : positive(4096), negative(4096) {
    double largest = 0.0;
    for (const float x : values) {
      largest = std::max(largest, std::abs(static_cast<double>(x)));
    }
    width = std::ldexp(1.0, -126);
    while (largest >= 4096.0 * width) {
      width *= 2.0;
    }
    for (const float x : values) {
      if (x == 0.0F) {
        ++zeros;
      } else {
        ++(x < 0.0F
               ? negative
               : positive)[static_cast<std::size_t>(std::floor(std::abs(static_cast<double>(x)) / width))];
      }
    }
    for (auto* side : {&positive, &negative}) {
      while (!side->empty() && side->back() == 0) {
        side->pop_back();
      }
    }
  }
};

void expect_as_defined(const std::vector<float>& values) {
  Histogram histogram;
  const Extremes extremes = histogram.add(values);
  const Slow slow(values);
  EXPECT_EQ(histogram.positive(), slow.positive);
  EXPECT_EQ(histogram.negative(), slow.negative);
  EXPECT_EQ(histogram.zeros(), slow.zeros);
  EXPECT_EQ(histogram.total(), values.size());
  if (slow.zeros != values.size()) {
    EXPECT_EQ(histogram.width(), slow.width);
  }
  EXPECT_TRUE(extremes.finite);
  EXPECT_EQ(extremes.min, *std::min_element(values.begin(), values.end()));
  EXPECT_EQ(extremes.max, *std::max_element(values.begin(), values.end()));
}

TEST(HistogramTest, CountsAsDefined) {
  for (const std::size_t count : {1U, 15U, 16U, 17U, 4095U, 4096U, 4097U, 20000U}) {
    SCOPED_TRACE(count);
    std::vector<float> values = normal_values(count, 3);
    expect_as_defined(values);
    for (float& x : values) {
      x = std::max(x, 0.0F);
    }
    expect_as_defined(values);
    for (float& x : values) {
      x = -x * 1e20F;  // -0 among them, which is zero
    }
    expect_as_defined(values);
  }
  expect_as_defined({0.0F, -0.0F, 0.0F});
  expect_as_defined(std::vector<float>(100, -3.25F));
  expect_as_defined({std::numeric_limits<float>::max(), -std::numeric_limits<float>::max(), 1.0F});
  expect_as_defined({std::numeric_limits<float>::denorm_min(), -1e-40F, std::numeric_limits<float>::min()});
  expect_as_defined({4096.0F, std::nextafter(4096.0F, 0.0F), -1.0F, -0.9999999F});
}

TEST(HistogramTest, BothCountingLoopsAgree) {
  std::vector<float> values = normal_values(5000, 4);
  for (std::size_t i = 0; i < values.size(); i += 3) {
    values[i] = i % 2 == 0 ? 0.0F : -0.0F;
  }
  for (const std::size_t count : {1U, 16U, 1023U, 1024U, 1025U, 5000U}) {
    std::vector<std::uint32_t> a(2 * kBinsOfSide), b(2 * kBinsOfSide);
    EXPECT_EQ(count_bins(values.data(), count, 512.0F, a.data()),
              count_bins_portable(values.data(), count, 512.0F, b.data()));
    EXPECT_EQ(a, b);
  }
}

TEST(HistogramTest, NeitherOrderNorSplitMatters) {
  // Magnitudes from 1e-30 to 1e30, so that the width doubles many times on the way up and never on the way
  // down.
  std::vector<float> values = normal_values(3000, 5);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] *= std::pow(10.0F, static_cast<float>(i / 50) - 30.0F);
  }
  Histogram whole;
  whole.add(values);
  EXPECT_EQ(whole.positive(), Slow(values).positive);

  std::vector<float> reversed(values.rbegin(), values.rend());
  Histogram one_by_one;
  for (const float& x : reversed) {
    one_by_one.add({&x, 1});
  }
  EXPECT_EQ(one_by_one, whole);

  Histogram merged;
  for (std::size_t i = 0; i < values.size(); i += 700) {
    Histogram part;
    part.add(std::span(values).subspan(i, std::min<std::size_t>(700, values.size() - i)));
    if (i % 1400 == 0) {
      merged.merge(part);
    } else {
      part.merge(merged);
      merged = part;
    }
  }
  EXPECT_EQ(merged, whole);

  merged.clear();
  EXPECT_EQ(merged, Histogram());
  merged.merge(Histogram());
  EXPECT_EQ(merged.total(), 0U);
}

TEST(HistogramTest, NanAndInfinityAreSeenWhereverTheyAre) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity()}) {
    for (const std::size_t at : {0U, 1U, 15U, 16U, 4099U, 4100U}) {
      std::vector<float> values(4101, 1.0F);
      values[at] = bad;
      EXPECT_FALSE(extremes_of(values).finite) << bad << " at " << at;
      Histogram histogram;
      EXPECT_FALSE(histogram.add(values).finite) << bad << " at " << at;
    }
  }
}

TEST(HistogramTest, BytesBringItBack) {
  Histogram histogram;
  histogram.add(normal_values(1000, 6));
  histogram.add(std::vector<float>{0.0F, 7.5F});
  std::vector<std::byte> bytes;
  histogram.append_to(bytes);
  Histogram().append_to(bytes);
  std::span<const std::byte> left(bytes);
  EXPECT_EQ(Histogram::take_from(left), histogram);
  EXPECT_EQ(Histogram::take_from(left), Histogram());
  EXPECT_TRUE(left.empty());
  std::span<const std::byte> cut(bytes.data(), 40);
  EXPECT_THROW((void)Histogram::take_from(cut), Error);
}

}  // namespace
}  // namespace tempera::compress
