#include "tempera/compress/calibrate/range_search.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <string>

#include <gtest/gtest.h>

#include "tempera/base/random.h"
#include "tempera/compress/calibrate/quantize_error.h"

namespace tempera::compress {
namespace {

using Values = std::vector<float>;

Values normal_values(std::size_t count, std::uint64_t seed) {
  Values values(count);
  CounterRng(seed).fill_normal(values);
  return values;
}

Values changed(Values values, const std::function<float(float)>& change) {
  std::transform(values.begin(), values.end(), values.begin(), change);
  return values;
}

/// The tensors that calibration gets wrong elsewhere. Heavy-tailed: a normal over the square root of a
/// uniform.
const std::map<std::string, Values>& tensors() {
  static const std::map<std::string, Values> made = [] {
    const Values normal = normal_values(20000, 1);
    Values heavy = normal;
    const CounterRng uniform(2);
    for (std::size_t i = 0; i < heavy.size(); ++i) {
      heavy[i] /= std::sqrt(uniform.uniform(i) + 1e-3F);
    }
    return std::map<std::string, Values>{
        {"normal", normal},
        {"heavy", heavy},
        {"heavy_relu", changed(heavy, [](float x) { return std::max(x, 0.0F); })},
        {"relu6", changed(heavy, [](float x) { return std::clamp(3.0F * x, 0.0F, 6.0F); })},
        {"negative", changed(heavy, [](float x) { return -std::abs(x) - 0.5F; })},
        {"far_from_zero", changed(normal, [](float x) { return x + 100.0F; })},
        {"constant", Values(1000, 3.7F)},
        {"negative_constant", Values(1000, -1e-3F)},
        {"one_value", Values(1, 2.0F)},
    };
  }();
  return made;
}

Histogram histogram_of(const Values& values) {
  Histogram histogram;
  histogram.add(values);
  return histogram;
}

/// QuantizeLinear and DequantizeLinear value by value.
double slow_error(const Values& values, ClipRange range) {
  const numeric::AffineParams params = numeric::affine_from_range(range.lo, range.hi, kJudgedCodes);
  double error = 0.0;
  for (const float x : values) {
    const double off = static_cast<double>(x) - static_cast<double>(numeric::dequantize(
                                                    numeric::quantize(x, params, kJudgedCodes), params));
    error += off * off;
  }
  return error;
}

TEST(QuantizeErrorTest, IsThatOfQuantizingValueByValue) {
  for (const auto& [name, values] : tensors()) {
    for (const double factor : {1.0, 0.5, 0.01}) {
      const Extremes all = extremes_of(values);
      const ClipRange range{static_cast<float>(all.min * factor), static_cast<float>(all.max * factor)};
      const QuantizeError found =
          quantize_error(values, numeric::affine_from_range(range.lo, range.hi, kJudgedCodes));
      double square = 0.0;
      for (const float x : values) {
        square += static_cast<double>(x) * static_cast<double>(x);
      }
      // 64 float products to a lane: relative 64 * 2^-24; an x - Q(x) of one rounding of x adds 2^-22 x^2 at
      // most.
      EXPECT_NEAR(found.square, square, 4e-6 * square) << name;
      const double slow = slow_error(values, range);
      EXPECT_NEAR(found.error, slow, 4e-6 * slow + 1e-12 * square) << name << " " << factor;
    }
  }
}

TEST(ExpectedErrorTest, IsTheIntegralOverEvenlyFilledBins) {
  for (const auto& [name, values] : tensors()) {
    const Histogram histogram = histogram_of(values);
    for (const double factor : {1.0, 0.7, 0.05}) {
      const ClipRange range{static_cast<float>(histogram.extremes().min * factor),
                            static_cast<float>(histogram.extremes().max * factor)};
      const numeric::AffineParams params = numeric::affine_from_range(range.lo, range.hi, kJudgedCodes);
      // Midpoint rule with 64 points to a bin.
      double integral = 0.0;
      const auto add_side = [&](const std::vector<std::uint64_t>& bins, double sign) {
        for (std::size_t k = 0; k < bins.size(); ++k) {
          double lo = sign * static_cast<double>(k) * histogram.width();
          double hi = sign * static_cast<double>(k + 1) * histogram.width();
          lo = std::clamp<double>(lo, histogram.extremes().min, histogram.extremes().max);
          hi = std::clamp<double>(hi, histogram.extremes().min, histogram.extremes().max);
          constexpr int kPoints = 64;
          for (int i = 0; i < kPoints && bins[k] > 0; ++i) {
            const double x = lo + (hi - lo) * (i + 0.5) / kPoints;
            const double code = std::clamp(std::nearbyint(x / params.scale) + params.zero_point, 0.0, 255.0);
            const double off = x - params.scale * (code - params.zero_point);
            integral += static_cast<double>(bins[k]) * off * off / kPoints;
          }
        }
      };
      add_side(histogram.positive(), 1.0);
      add_side(histogram.negative(), -1.0);
      // The midpoint rule errs by 1/(4 * 64^2) of the squared bin width for each value.
      const double rule = static_cast<double>(values.size()) * std::pow(histogram.width() / 64.0, 2);
      EXPECT_NEAR(expected_error(histogram, range), integral, 1e-6 * integral + rule)
          << name << " " << factor;
    }
  }
}

TEST(MseRangeTest, NoGridFindsAMuchBetterRange) {
  for (const auto& [name, values] : tensors()) {
    const Histogram histogram = histogram_of(values);
    const Extremes all = histogram.extremes();
    const ClipRange found = mse_range(histogram, false);
    EXPECT_LE(all.min, found.lo) << name;
    EXPECT_LE(found.lo, found.hi) << name;
    EXPECT_LE(found.hi, all.max) << name;
    double best = slow_error(values, {all.min, all.max});
    constexpr int kGrid = 24;
    for (int i = 1; i <= kGrid; ++i) {
      for (int j = 1; j <= kGrid; ++j) {
        const ClipRange tried{all.min < 0.0F ? all.min * static_cast<float>(i) / kGrid : all.min,
                              all.max > 0.0F ? all.max * static_cast<float>(j) / kGrid : all.max};
        if (tried.lo <= tried.hi) {
          best = std::min(best, slow_error(values, tried));
        }
      }
    }
    // Bins blur the error by the square of their width, a 64th of a code's at the least.
    EXPECT_LE(slow_error(values, found), 1.02 * best + 1e-12) << name;
    EXPECT_LE(expected_error(histogram, found), expected_error(histogram, {all.min, all.max})) << name;
  }
  const Values& heavy = tensors().at("heavy");
  EXPECT_LT(slow_error(heavy, mse_range(histogram_of(heavy), false)),
            0.97 * slow_error(heavy, {extremes_of(heavy).min, extremes_of(heavy).max}));
}

TEST(MseRangeTest, SymmetricEndsMoveTogether) {
  const Histogram histogram = histogram_of(tensors().at("heavy"));
  const ClipRange found = mse_range(histogram, true);
  const Extremes all = histogram.extremes();
  EXPECT_TRUE(found.lo == -found.hi || found.lo == all.min || found.hi == all.max);
  EXPECT_LT(found.hi - found.lo, all.max - all.min);
}

TEST(PercentileRangeTest, LeavesItsShareOutside) {
  for (const auto& [name, values] : tensors()) {
    const Histogram histogram = histogram_of(values);
    Values sorted = values;
    std::sort(sorted.begin(), sorted.end());
    for (const double percentile : {0.999, 0.98, 0.6}) {
      const ClipRange found = percentile_range(histogram, percentile, false);
      // The sorted values themselves, to within a bin.
      const double outside = (1.0 - percentile) / 2.0;
      const auto rank = [&](double share) {
        const double at = std::ceil(share * static_cast<double>(sorted.size())) - 1.0;
        return sorted[static_cast<std::size_t>(std::max(at, 0.0))];
      };
      EXPECT_NEAR(found.lo, rank(outside), histogram.width()) << name << " " << percentile;
      EXPECT_NEAR(found.hi, rank(1.0 - outside), histogram.width()) << name << " " << percentile;
      EXPECT_GE(found.lo, sorted.front()) << name;
      EXPECT_LE(found.hi, sorted.back()) << name;

      const ClipRange both = percentile_range(histogram, percentile, true);
      Values magnitudes = changed(values, [](float x) { return std::abs(x); });
      std::sort(magnitudes.begin(), magnitudes.end());
      const float a = magnitudes[static_cast<std::size_t>(
          std::max(std::ceil(percentile * static_cast<double>(magnitudes.size())) - 1.0, 0.0))];
      EXPECT_NEAR(std::max(both.hi, -both.lo), a, histogram.width()) << name << " " << percentile;
    }
    EXPECT_EQ(percentile_range(histogram, 1.0, false).lo, sorted.front()) << name;
    EXPECT_EQ(percentile_range(histogram, 1.0, false).hi, sorted.back()) << name;
  }
}

/// Migacz's pseudo-code as it stands, with arrays of P and Q.
std::size_t slow_entropy_bins(const std::vector<std::uint64_t>& counts) {
  const std::size_t size = counts.size();
  std::vector<double> bins(counts.begin(), counts.end());
  bins[0] = 0.0;
  std::size_t best = size;
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t i = size; i >= 128; --i) {
    std::vector<double> p(bins.begin(), bins.begin() + static_cast<std::ptrdiff_t>(i));
    for (std::size_t k = i; k < size; ++k) {
      p[i - 1] += bins[k];
    }
    std::vector<double> q(i, 0.0);
    for (std::size_t level = 0; level < 128; ++level) {
      const std::size_t begin = level * i / 128;
      const std::size_t end = (level + 1) * i / 128;
      double sum = 0.0;
      double filled = 0.0;
      for (std::size_t k = begin; k < end; ++k) {
        sum += bins[k];
        filled += p[k] > 0.0 ? 1.0 : 0.0;
      }
      for (std::size_t k = begin; k < end; ++k) {
        q[k] = p[k] > 0.0 ? sum / filled : 0.0;
      }
    }
    double sum_p = 0.0;
    double sum_q = 0.0;
    for (std::size_t k = 0; k < i; ++k) {
      sum_p += p[k];
      sum_q += q[k];
    }
    double divergence = 0.0;
    for (std::size_t k = 0; k < i; ++k) {
      if (p[k] > 0.0) {
        divergence += q[k] > 0.0 ? p[k] / sum_p * std::log(p[k] / sum_p / (q[k] / sum_q))
                                 : std::numeric_limits<double>::infinity();
      }
    }
    if (divergence < least - 1e-12) {  // sums in another order: the same divergence to within 1e-12 is a tie
      least = divergence;
      best = i;
    }
  }
  return best;
}

TEST(EntropyRangeTest, IsTheLeastDivergenceOfThePublishedPseudoCode) {
  // 600 bins: the published loop over arrays takes a cube of their number.
  for (const std::uint64_t seed : {1U, 2U, 3U}) {
    std::vector<std::uint64_t> counts(600);
    const CounterRng random(seed);
    for (std::size_t k = 0; k < counts.size(); ++k) {
      const double tail = 1e5 * std::exp(-static_cast<double>(k) / 40.0) + 20.0 * random.uniform(k);
      counts[k] = random.uniform(1000 + k) < 0.1F ? 0 : static_cast<std::uint64_t>(tail);
    }
    counts[0] = 100'000'000;  // what a ReLU leaves: must not matter
    counts.back() = 1;
    const std::size_t expected = slow_entropy_bins(counts);
    EXPECT_EQ(entropy_bins(counts), expected) << "seed " << seed;
    counts[0] = 0;
    EXPECT_EQ(entropy_bins(counts), expected) << "seed " << seed;
    EXPECT_LT(expected, counts.size());
  }
}

TEST(EntropyRangeTest, FewBinsAreAllKept) {
  EXPECT_EQ(entropy_bins({5, 4, 3}), 3U);
  std::vector<std::uint64_t> single(3000);
  single.back() = 7;  // a constant
  EXPECT_EQ(entropy_bins(single), 3000U);
}

TEST(EntropyRangeTest, ClipsAHeavyTailAndKeepsAReluFromBeingRuledByItsZeros) {
  for (const auto& [name, values] : tensors()) {
    const Histogram histogram = histogram_of(values);
    const ClipRange found = entropy_range(histogram);
    EXPECT_GE(found.lo, histogram.extremes().min) << name;
    EXPECT_LE(found.hi, histogram.extremes().max) << name;
    EXPECT_LE(found.lo, found.hi) << name;
  }
  const Values& relu = tensors().at("heavy_relu");
  Values without_zeros;
  std::copy_if(relu.begin(), relu.end(), std::back_inserter(without_zeros),
               [](float x) { return x != 0.0F; });
  const ClipRange found = entropy_range(histogram_of(relu));
  EXPECT_LT(found.hi, extremes_of(relu).max);
  EXPECT_EQ(found.hi, entropy_range(histogram_of(without_zeros)).hi);
}

TEST(RangeSearchTest, DeadAndConstantTensorsKeepTheirValue) {
  const Histogram dead = histogram_of(Values(100, 0.0F));
  for (const ClipRange range : {percentile_range(dead, 0.99, false), percentile_range(dead, 0.99, true),
                                mse_range(dead, false), mse_range(dead, true), entropy_range(dead)}) {
    EXPECT_EQ(range.lo, 0.0F);
    EXPECT_EQ(range.hi, 0.0F);
  }
  EXPECT_EQ(expected_error(dead, {0.0F, 0.0F}), 0.0);
  const Histogram constant = histogram_of(Values(100, 3.7F));
  for (const ClipRange range : {percentile_range(constant, 0.99, false),
                                percentile_range(constant, 0.99, true), entropy_range(constant)}) {
    EXPECT_EQ(range.hi, 3.7F);
  }
  EXPECT_LT(slow_error(Values(1, 3.7F), mse_range(constant, false)), 1e-12);
}

}  // namespace
}  // namespace tempera::compress
