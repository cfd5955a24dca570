#include "tempera/compress/calibrate/range_search.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "tempera/compress/calibrate/quantize_error.h"

namespace tempera::compress {
namespace {

/// Count, sum and sum of squares of some values.
struct Moments {
  double count = 0.0;
  double first = 0.0;
  double second = 0.0;
};

/// The values in ascending order: bins of negative values, the zeros, bins of positive ones; each bin filled
/// evenly between its ends.
class Distribution {
 public:
  explicit Distribution(const Histogram& histogram)
      : width_(histogram.width()), min_(histogram.extremes().min), max_(histogram.extremes().max) {
    const std::vector<std::uint64_t> negative = histogram.negative();
    const std::vector<std::uint64_t> positive = histogram.positive();
    zero_slot_ = negative.size();
    before_.emplace_back();
    for (std::size_t k = negative.size(); k-- > 0;) {
      add(-static_cast<double>(k + 1) * width_, -static_cast<double>(k) * width_, negative[k]);
    }
    add(0.0, 0.0, histogram.zeros());
    for (std::size_t k = 0; k < positive.size(); ++k) {
      add(static_cast<double>(k) * width_, static_cast<double>(k + 1) * width_, positive[k]);
    }
  }

  [[nodiscard]] double min() const { return min_; }
  [[nodiscard]] double max() const { return max_; }

  /// Moments of the values below x.
  [[nodiscard]] Moments below(double x) const {
    if (x <= min_) {
      return {};
    }
    if (x > max_) {
      return before_.back();
    }
    const std::size_t slot = slot_of(x);
    const Bin& bin = bins_[slot];
    Moments moments = before_[slot];
    if (bin.count > 0.0 && x > bin.lo) {
      const double end = std::min(x, bin.hi);
      const double density = bin.hi > bin.lo ? bin.count / (bin.hi - bin.lo) : 0.0;
      moments.count += density > 0.0 ? density * (end - bin.lo) : bin.count;
      moments.first += density > 0.0 ? density * (end * end - bin.lo * bin.lo) / 2.0 : bin.count * bin.lo;
      moments.second += density > 0.0 ? density * (end * end * end - bin.lo * bin.lo * bin.lo) / 3.0
                                      : bin.count * bin.lo * bin.lo;
    }
    return moments;
  }

  /// The least x with a share `share` of the values at or below it.
  [[nodiscard]] double quantile(double share) const {
    const double wanted = share * before_.back().count;
    const auto after = std::lower_bound(before_.begin() + 1, before_.end(), wanted,
                                        [](const Moments& m, double count) { return m.count < count; });
    if (after == before_.end()) {
      return max_;
    }
    const auto slot = static_cast<std::size_t>(after - before_.begin()) - 1;
    const Bin& bin = bins_[slot];
    const double inside = bin.count > 0.0 ? (wanted - before_[slot].count) / bin.count : 0.0;
    return std::clamp(bin.lo + inside * (bin.hi - bin.lo), min_, max_);
  }

 private:
  struct Bin {
    double lo;
    double hi;
    double count;
  };

  void add(double lo, double hi, std::uint64_t count) {
    const Bin bin{std::clamp(lo, min_, max_), std::clamp(hi, min_, max_), static_cast<double>(count)};
    Moments sum = before_.back();
    sum.count += bin.count;
    sum.first += bin.count * (bin.lo + bin.hi) / 2.0;
    sum.second += bin.count * (bin.lo * bin.lo + bin.lo * bin.hi + bin.hi * bin.hi) / 3.0;
    bins_.push_back(bin);
    before_.push_back(sum);
  }

  [[nodiscard]] std::size_t slot_of(double x) const {
    if (x < 0.0) {
      const auto k = static_cast<std::size_t>(-x / width_);
      return k >= zero_slot_ ? 0 : zero_slot_ - 1 - k;
    }
    const std::size_t slot = x == 0.0 ? zero_slot_ : zero_slot_ + 1 + static_cast<std::size_t>(x / width_);
    return std::min(slot, bins_.size() - 1);
  }

  double width_;
  double min_;
  double max_;
  std::size_t zero_slot_ = 0;
  std::vector<Bin> bins_;
  std::vector<Moments> before_;  // of all bins before number i; one more than bins_
};

// Sum over the codes' cells of the second moment about the code's value:
//   sum (x - q)^2 = sum x^2 - 2 q sum x + q^2 sum 1.
double error_of(const Distribution& values, ClipRange range) {
  const numeric::AffineParams params = numeric::affine_from_range(range.lo, range.hi, kJudgedCodes);
  double error = 0.0;
  Moments before;
  for (std::int32_t code = kJudgedCodes.min; code <= kJudgedCodes.max; ++code) {
    const double q = static_cast<double>(params.scale) * (code - params.zero_point);
    const bool last = code == kJudgedCodes.max;
    const Moments after =
        values.below(last ? std::numeric_limits<double>::infinity() : q + params.scale / 2.0);
    const Moments cell{after.count - before.count, after.first - before.first, after.second - before.second};
    if (cell.count > 0.0) {
      error += std::max(0.0, cell.second - 2.0 * q * cell.first + q * q * cell.count);
    }
    before = after;
  }
  return error;
}

/// Minimises `error` over a factor in (0, 1]: on a coarse grid, then twice on a finer one around the best
/// point.
template <typename Error>
double best_factor(const Error& error) {
  constexpr int kSteps = 32;
  double best = 1.0;
  double least = error(1.0);
  double lo = 0.0;
  double hi = 1.0;
  for (int round = 0; round < 3; ++round) {
    const double step = (hi - lo) / kSteps;
    for (int i = 1; i <= kSteps; ++i) {
      const double factor = lo + step * i;
      const double found = error(factor);
      if (found < least) {
        least = found;
        best = factor;
      }
    }
    lo = std::max(best - step, step / kSteps);
    hi = std::min(best + step, 1.0);
  }
  return best;
}

bool only_zeros(const Histogram& histogram) { return histogram.zeros() == histogram.total(); }

ClipRange within(const Histogram& histogram, double magnitude) {
  const auto a = static_cast<float>(magnitude);
  const Extremes& all = histogram.extremes();
  return {std::clamp(-a, all.min, all.max), std::clamp(a, all.min, all.max)};
}

std::vector<std::uint64_t> magnitudes_of(const Histogram& histogram) {
  std::vector<std::uint64_t> bins = histogram.positive();
  const std::vector<std::uint64_t> negative = histogram.negative();
  bins.resize(std::max(bins.size(), negative.size()));
  for (std::size_t k = 0; k < negative.size(); ++k) {
    bins[k] += negative[k];
  }
  return bins;
}

double x_log_x(double x) { return x > 0.0 ? x * std::log(x) : 0.0; }

}  // namespace

ClipRange percentile_range(const Histogram& histogram, double percentile, bool symmetric) {
  if (only_zeros(histogram)) {
    return {};
  }
  if (symmetric) {
    const std::vector<std::uint64_t> bins = magnitudes_of(histogram);
    const double wanted = percentile * static_cast<double>(histogram.total());
    auto below = static_cast<double>(histogram.zeros());
    std::size_t k = 0;
    while (k + 1 < bins.size() && below + static_cast<double>(bins[k]) < wanted) {
      below += static_cast<double>(bins[k++]);
    }
    const double inside =
        bins[k] > 0 ? std::clamp((wanted - below) / static_cast<double>(bins[k]), 0.0, 1.0) : 0.0;
    return within(histogram, (static_cast<double>(k) + inside) * histogram.width());
  }
  const Distribution values(histogram);
  const double outside = (1.0 - percentile) / 2.0;
  return {static_cast<float>(outside > 0.0 ? values.quantile(outside) : values.min()),
          static_cast<float>(outside > 0.0 ? values.quantile(1.0 - outside) : values.max())};
}

double expected_error(const Histogram& histogram, ClipRange range) {
  return only_zeros(histogram) ? 0.0 : error_of(Distribution(histogram), range);
}

ClipRange mse_range(const Histogram& histogram, bool symmetric) {
  if (only_zeros(histogram)) {
    return {};
  }
  const Distribution values(histogram);
  const float min = histogram.extremes().min;
  const float max = histogram.extremes().max;
  if (symmetric && min < 0.0F && max > 0.0F) {
    const double largest = std::max(-min, max);
    return within(histogram, largest * best_factor([&](double factor) {
                               const auto a = static_cast<float>(largest * factor);
                               return error_of(values, {-a, a});
                             }));
  }
  // One end after the other, the larger first; an end on its own side of zero has nothing to clip.
  double lo_factor = 1.0;
  double hi_factor = 1.0;
  const auto range = [&] {
    return ClipRange{std::min(static_cast<float>(min * lo_factor), max),
                     std::max(static_cast<float>(max * hi_factor), min)};
  };
  constexpr int kTurns = 4;
  const bool hi_first = max > -min;
  for (int turn = 0; turn < kTurns; ++turn) {
    const bool move_hi = hi_first == (turn % 2 == 0);
    if (move_hi ? max <= 0.0F : min >= 0.0F) {
      continue;
    }
    double& factor = move_hi ? hi_factor : lo_factor;
    const double before = factor;
    factor = best_factor([&](double f) {
      factor = f;
      const double error = error_of(values, range());
      factor = before;
      return error;
    });
  }
  const ClipRange found = range();
  return error_of(values, found) < error_of(values, {min, max}) ? found : ClipRange{min, max};
}

std::size_t entropy_bins(const std::vector<std::uint64_t>& magnitudes) {
  constexpr std::size_t kLevels = 128;
  const std::size_t size = magnitudes.size();
  if (size <= kLevels) {
    return size;
  }
  // Of bins 1 to k - 1: counts, how many are not empty, and sum c log c.
  std::vector<double> count(size + 1);
  std::vector<double> filled(size + 1);
  std::vector<double> entropy(size + 1);
  for (std::size_t k = 1; k < size; ++k) {
    const auto c = static_cast<double>(magnitudes[k]);
    count[k + 1] = count[k] + c;
    filled[k + 1] = filled[k] + (c > 0.0 ? 1.0 : 0.0);
    entropy[k + 1] = entropy[k] + x_log_x(c);
  }
  const double total = count[size];
  std::size_t best = size;
  double least = std::numeric_limits<double>::infinity();
  // With P = p / total and Q = q / inside, where q is C_g / m_g in a group of C_g counts on m_g filled bins:
  //   KL = (sum p log p - sum_g P_g log(C_g / m_g)) / total - log(total) + log(inside)
  for (std::size_t i = size; i >= kLevels; --i) {
    const double inside = count[i];
    const double outside = total - inside;
    if (inside <= 0.0) {
      break;
    }
    const auto last = i > 1 ? static_cast<double>(magnitudes[i - 1]) : 0.0;
    double sum = entropy[i - 1] + x_log_x(last + outside);
    for (std::size_t level = 0; level < kLevels; ++level) {
      const std::size_t begin = level * i / kLevels;
      const std::size_t end = (level + 1) * i / kLevels;
      const bool tail = end == i;
      const double c = count[end] - count[begin];
      const double p = c + (tail ? outside : 0.0);
      const double m = filled[end] - filled[begin] + (tail && last == 0.0 && outside > 0.0 ? 1.0 : 0.0);
      if (p > 0.0) {
        sum -= c > 0.0 ? p * std::log(c / m) : -std::numeric_limits<double>::infinity();
      }
    }
    const double divergence = sum / total - std::log(total) + std::log(inside);
    if (divergence < least) {
      least = divergence;
      best = i;
    }
  }
  return best;
}

ClipRange entropy_range(const Histogram& histogram) {
  if (only_zeros(histogram)) {
    return {};
  }
  const std::vector<std::uint64_t> magnitudes = magnitudes_of(histogram);
  const std::size_t kept = entropy_bins(magnitudes);
  if (kept == magnitudes.size()) {
    return {histogram.extremes().min, histogram.extremes().max};
  }
  return within(histogram, static_cast<double>(kept) * histogram.width());
}

}  // namespace tempera::compress
