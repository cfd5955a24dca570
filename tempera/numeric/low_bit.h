#pragma once

#include <cstdint>
#include <span>

namespace tempera::numeric {

/// Values approximated by {-1, 0, 1} times a scale.
struct TernaryFit {
  float scale = 0.0F;          ///< >= 0; 0 for values that are all zero
  double squared_error = 0.0;  ///< sum over the values
};

/// The scale and assignment with the least squared error of all.
///
///   error(k) = sum w^2 - (sum of the k largest |w|)^2 / k        scale = (sum of the k largest |w|) / k
///
/// k runs over every number of non-zeros, on |w| sorted; the published rule of thumb (threshold 0.7 mean|w|) only
/// estimates the best one. At the optimum a value is zero exactly when |w| <= scale / 2: see ternary_code.
///
/// \param values  finite
///
/// Source: Li, Zhang, Liu 2016, Ternary Weight Networks, arXiv:1605.04711, eq. 3 to 5.
[[nodiscard]] TernaryFit fit_ternary(std::span<const float> values);

/// The nearest of -1, 0, 1 to x / scale; 0 when the scale is 0 and at the middle.
[[nodiscard]] inline std::int32_t ternary_code(float x, float scale) {
  const float half = scale / 2;
  return scale > 0.0F ? static_cast<std::int32_t>(x > half) - static_cast<std::int32_t>(x < -half) : 0;
}

/// The scale with the least squared error of sign(x) scale: mean |x|. 0 for no values.
///
/// Source: Rastegari et al. 2016, XNOR-Net, arXiv:1603.05279, eq. 6.
[[nodiscard]] float fit_binary(std::span<const float> values);

/// -1 for x < 0, else 1.
[[nodiscard]] inline std::int32_t binary_code(float x) { return x < 0.0F ? -1 : 1; }

}  // namespace tempera::numeric
