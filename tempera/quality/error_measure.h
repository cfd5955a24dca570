#pragma once

#include "tempera/graph/tensor.h"

namespace tempera::quality {

/// How far `candidate` is from `reference`, over all elements, in double:
///
///   max_abs     = max |c - r|
///   relative_l2 = ||c - r|| / ||r||
///   sqnr_db     = 20 log10(||r|| / ||c - r||)
///   cosine      = <r, c> / (||r|| ||c||)
///
/// Equal tensors give 0, 0, infinity and 1, also when they are zero or empty; a zero reference with a
/// candidate that is not gives relative_l2 = infinity, sqnr_db = -infinity, cosine = 0. NaN or infinity in
/// the candidate only (or at other places than in the reference) gives max_abs = relative_l2 = infinity,
/// sqnr_db = -infinity, cosine = 0; where both hold the same one, the element is left out.
struct ErrorMeasures {
  double max_abs = 0.0;
  double relative_l2 = 0.0;
  double sqnr_db = 0.0;
  double cosine = 1.0;
};

/// \throws Error{kInvalidArgument} when dimensions differ or a type has no numbers; element types may differ
[[nodiscard]] ErrorMeasures measure_error(const graph::Tensor& reference, const graph::Tensor& candidate);

}  // namespace tempera::quality
