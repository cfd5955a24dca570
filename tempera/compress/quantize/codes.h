#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "tempera/graph/tensor.h"

/// Weights as 8-bit codes with scales, symmetric.
namespace tempera::compress {

struct WeightCodes {
  graph::Tensor codes;   ///< dims of the weight
  graph::Tensor scales;  ///< element type of the weight; [channels], or [] for one scale
  std::vector<float> scale_values;
  double relative_l2 = 0.0;  ///< of the decoded weights against the given ones; 0 when all are zero
};

struct WeightCodesOptions {
  graph::DataType type = graph::DataType::kInt8;  ///< or kFloat8E4M3FN
  std::optional<std::int64_t> channel_axis;       ///< one scale for each index of it; nothing: one for all
  bool seven_bit = false;                         ///< int8: codes in -63..63
};

/// Codes of a float tensor:  s[c] = max(max|w[c]| / largest code, least[c]),  q = saturate(round_half_even(w
/// / s[c])).
///
/// A channel that is all zero keeps the scale 1, or least[c] when that is above zero.
///
/// \param least  one for each channel, or empty
/// \throws Error{kInvalidArgument} on a weight that is not finite
[[nodiscard]] WeightCodes quantize_weights(const graph::Tensor& weights, const WeightCodesOptions& options,
                                           std::span<const float> least = {});

}  // namespace tempera::compress
