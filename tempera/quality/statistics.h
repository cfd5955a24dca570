#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tempera::quality {

/// Indices of the k largest scores, best first; equal scores in the order of their index, NaN last.
[[nodiscard]] std::vector<std::int64_t> top_k(std::span<const double> scores, std::int64_t k);

[[nodiscard]] double mean(std::span<const double> values);  ///< NaN when empty
[[nodiscard]] double median(
    std::vector<double> values);  ///< mean of the middle two when even; NaN when empty
[[nodiscard]] double mean_absolute_error(std::span<const double> truth, std::span<const double> predicted);
[[nodiscard]] double root_mean_square_error(std::span<const double> truth, std::span<const double> predicted);

/// Correlation, -1..1; NaN for fewer than two points or when one side is constant.
[[nodiscard]] double pearson(std::span<const double> a, std::span<const double> b);
/// Pearson of the ranks; equal values share the mean of their ranks.
[[nodiscard]] double spearman(std::span<const double> a, std::span<const double> b);

}  // namespace tempera::quality
