#pragma once

#include <cstdint>
#include <string>

#include "tempera/graph/tensor.h"

namespace tempera::graph {

/// How far one tensor is from another of the same shape, element by element in double.
///
///   max_abs     = max |b - a|
///   relative_l2 = ||b - a|| / ||a||                   0 / 0 = 0, x / 0 = infinity
///   sqnr_db     = 10 log10(||a||^2 / ||b - a||^2)     infinity for equal tensors, -infinity against zeros
///   cosine      = <a, b> / (||a|| ||b||)              1 for equal tensors, else 0 when either is zero
///
/// NaN against NaN and an infinity against the same one count as equal. Other pairs with a NaN or an infinity are counted
/// in `non_finite_pairs` and left out of the sums; with any of them, or with shapes that differ, nothing is near:
/// max_abs and relative_l2 are infinite, sqnr_db is -infinity, cosine is 0.
struct TensorError {
  std::int64_t elements = 0;
  double max_abs = 0.0;
  double relative_l2 = 0.0;
  double sqnr_db = 0.0;
  double cosine = 1.0;
  Dims worst_index;      ///< where |b - a| is largest; of the first unequal non-finite pair when there is one
  double worst_a = 0.0;
  double worst_b = 0.0;
  std::int64_t non_finite_a = 0;
  std::int64_t non_finite_b = 0;
  std::int64_t non_finite_pairs = 0;
  std::string mismatch;         ///< "shape [2,3] against [3,2]"; empty: comparable

  [[nodiscard]] bool comparable() const { return mismatch.empty() && non_finite_pairs == 0; }
};

/// \param a  the reference; \param b  the one judged; element types may differ (float against float16)
/// \throws Error{kInvalidArgument} for complex or string tensors
[[nodiscard]] TensorError tensor_error(const Tensor& a, const Tensor& b);

/// The same of tensors that must have one shape. \throws Error{kInvalidArgument} also when they have not
[[nodiscard]] TensorError checked_tensor_error(const Tensor& a, const Tensor& b);

}  // namespace tempera::graph
