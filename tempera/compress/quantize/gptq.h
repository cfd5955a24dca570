#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace tempera::compress {

/// Second moments of what a layer sums up: sum over samples of x x^T, for x the inputs of one output element.
///
/// Columns beyond kLargestHessian are cut into blocks that are treated as independent.
struct Hessian {
  std::int64_t columns = 0;
  std::int64_t groups = 1;      ///< a convolution's: each has inputs of its own; rows / groups rows share one
  std::int64_t samples = 0;     ///< vectors x summed up
  /// [groups][blocks][size, size], size = columns of the block; the lower triangle alone is summed
  std::vector<std::vector<double>> blocks;

  [[nodiscard]] std::int64_t block_count() const;
  [[nodiscard]] std::int64_t block_size(std::int64_t block) const;
  [[nodiscard]] const std::vector<double>& block_of(std::int64_t group, std::int64_t block) const;
};

inline constexpr std::int64_t kLargestHessian = 2048;  ///< Cholesky of more columns takes minutes, and GBs

/// \param columns, groups  as of the layer. All zero.
[[nodiscard]] Hessian make_hessian(std::int64_t columns, std::int64_t groups);
/// Adds vectors x. \param vectors  [any number, columns]
void add_vectors(Hessian& hessian, std::int64_t group, std::span<const float> vectors);

/// Replaces each weight of a row by one of its levels so that the row's products change least, not its weights:
///
///   minimise  (w - q) H (w - q)^T,   H = R R^T, R upper triangular, columns by falling diagonal of H
///   q_j = level nearest to  w_j + sum_{i < j} (w_i - q_i) R_ij / R_jj
///
/// Before the factorisation H gains 1 % of its mean diagonal; a column that was always zero is rounded on its own.
///
/// \param rows    [count, columns], replaced in place by decoded levels
/// \param nearest  nearest(row, column, value) -> decoded level; called in processing order
///
/// Source: Frantar et al. 2023, GPTQ, arXiv:2210.17323, eq. 2 and algorithm 1 with act-order. In this form (no inverse of H
/// is needed) it is Babai's nearest plane: Chen et al. 2025, arXiv:2507.18553, theorem 3.
void gptq_round(const Hessian& hessian, std::span<float> rows, std::int64_t count,
                const std::function<float(std::int64_t row, std::int64_t column, float value)>& nearest);

}  // namespace tempera::compress
