#include "tempera/quality/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include "tempera/base/error.h"

namespace tempera::quality {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

void require_equal_sizes(std::span<const double> a, std::span<const double> b) {
  if (a.size() != b.size()) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{} and {} values cannot be compared", a.size(), b.size()));
  }
}

/// Ranks 1, 2, ...; equal values share the mean of theirs.
std::vector<double> ranks(std::span<const double> values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  std::vector<double> out(values.size());
  for (std::size_t first = 0; first < order.size();) {
    std::size_t last = first;
    while (last + 1 < order.size() && values[order[last + 1]] == values[order[first]]) {
      ++last;
    }
    for (std::size_t i = first; i <= last; ++i) {
      out[order[i]] = static_cast<double>(first + last) / 2.0 + 1.0;
    }
    first = last + 1;
  }
  return out;
}

}  // namespace

std::vector<std::int64_t> top_k(std::span<const double> scores, std::int64_t k) {
  std::vector<std::int64_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::int64_t{0});
  const auto count = std::clamp<std::int64_t>(k, 0, static_cast<std::int64_t>(scores.size()));
  const auto score = [&](std::int64_t i) {
    const double value = scores[static_cast<std::size_t>(i)];
    // NaN below everything, also below -infinity, so that the order is a strict weak one
    return std::pair(!std::isnan(value), std::isnan(value) ? 0.0 : value);
  };
  std::partial_sort(order.begin(), order.begin() + count, order.end(), [&](std::int64_t a, std::int64_t b) {
    return score(a) != score(b) ? score(a) > score(b) : a < b;
  });
  order.resize(static_cast<std::size_t>(count));
  return order;
}

double mean(std::span<const double> values) {
  return values.empty()
             ? kNan
             : std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double median(std::vector<double> values) {
  if (values.empty()) {
    return kNan;
  }
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2.0;
}

double mean_absolute_error(std::span<const double> truth, std::span<const double> predicted) {
  require_equal_sizes(truth, predicted);
  double sum = 0.0;
  for (std::size_t i = 0; i < truth.size(); ++i) {
    sum += std::abs(predicted[i] - truth[i]);
  }
  return truth.empty() ? kNan : sum / static_cast<double>(truth.size());
}

double root_mean_square_error(std::span<const double> truth, std::span<const double> predicted) {
  require_equal_sizes(truth, predicted);
  double sum = 0.0;
  for (std::size_t i = 0; i < truth.size(); ++i) {
    sum += (predicted[i] - truth[i]) * (predicted[i] - truth[i]);
  }
  return truth.empty() ? kNan : std::sqrt(sum / static_cast<double>(truth.size()));
}

double pearson(std::span<const double> a, std::span<const double> b) {
  require_equal_sizes(a, b);
  if (a.size() < 2) {
    return kNan;
  }
  const double mean_a = mean(a);
  const double mean_b = mean(b);
  double aa = 0.0;
  double bb = 0.0;
  double ab = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    aa += (a[i] - mean_a) * (a[i] - mean_a);
    bb += (b[i] - mean_b) * (b[i] - mean_b);
    ab += (a[i] - mean_a) * (b[i] - mean_b);
  }
  if (aa == 0.0 || bb == 0.0) {
    return kNan;
  }
  return std::clamp(ab / (std::sqrt(aa) * std::sqrt(bb)), -1.0, 1.0);
}

double spearman(std::span<const double> a, std::span<const double> b) {
  require_equal_sizes(a, b);
  const auto has_nan = [](std::span<const double> values) {
    return std::any_of(values.begin(), values.end(), [](double value) { return std::isnan(value); });
  };
  if (has_nan(a) || has_nan(b)) {
    return kNan;
  }
  return pearson(ranks(a), ranks(b));
}

}  // namespace tempera::quality
