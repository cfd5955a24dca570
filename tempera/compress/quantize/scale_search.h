#pragma once

#include <cstdint>
#include <span>

namespace tempera::compress {

/// Whole numbers that a format offers around zero: low <= 0 < high.
struct Levels {
  int low = -1;
  int high = 1;
};

/// The scale s > 0 with the least squared error of s clamp(round(w / s), low, high) among those tried:
///
///   s = f max|w| / high                                  for clip factors f from 1 down, in steps of 1/20, then of 1/80
///   s = sum(w q) / sum(q^2)                              from the best of these: least squares for its own codes q
///
/// f = 1 is among them, so the error is never above that of the full range. Few levels gain by clipping: a normal channel
/// at 4 bits loses a third less than with its maximum.
///
/// \param values  finite
/// \return a normal float; 1 when all values are zero, so that 1 / s stays finite
///
/// Source: the grid as in Choukroun et al. 2019, arXiv:1902.06822, sec. 3.1 (MSE); the refinement is Lloyd's step.
[[nodiscard]] float search_scale(std::span<const float> values, Levels levels);

/// Sum over the values of (w - s clamp(round(w / s)))^2, ties to even. \param scale  not 0; may be negative
[[nodiscard]] double rounding_error(std::span<const float> values, float scale, Levels levels);

/// clamp(round(x), low, high), ties to even.
[[nodiscard]] inline float nearest_level(float x, Levels levels) {
  // Adding 1.5 2^23 leaves no bit for a fraction: the sum rounds to the nearest even integer, in every CPU's default mode
  // and several times faster than std::nearbyint. Exact below 2^22, which the clamp sees to.
  constexpr float kShift = 12582912.0F;
  const float low = static_cast<float>(levels.low);
  const float high = static_cast<float>(levels.high);
  const float clamped = x < low ? low : x > high ? high : x;
  return (clamped + kShift) - kShift;
}

}  // namespace tempera::compress
