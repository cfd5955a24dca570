#include "tempera/compress/quantize/scale_search.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tempera::compress {
namespace {

float largest_magnitude(std::span<const float> values) {
  float largest = 0.0F;
  for (const float value : values) {
    largest = std::max(largest, std::abs(value));
  }
  return largest;
}

// Clipping below these shares of the maximum never won on normal, Laplace and uniform channels: with more levels the
// clipped tail costs more than the finer grid saves.
int lowest_twentieth(Levels levels) {
  const int count = levels.high - levels.low + 1;
  return count > 64 ? 14 : count > 8 ? 8 : 3;
}

// sum(w q) / sum(q^2) for the codes that `scale` gives; 0 when they are all zero.
double least_squares_scale(std::span<const float> values, float scale, Levels levels) {
  double product = 0.0;
  double squares = 0.0;
  for (const float value : values) {
    const float code = nearest_level(value / scale, levels);
    product += static_cast<double>(value) * code;
    squares += static_cast<double>(code) * code;
  }
  return squares > 0.0 ? product / squares : 0.0;
}

}  // namespace

double rounding_error(std::span<const float> values, float scale, Levels levels) {
  double sum = 0.0;
  for (const float value : values) {
    const double error = value - scale * nearest_level(value / scale, levels);
    sum += error * error;
  }
  return sum;
}

float search_scale(std::span<const float> values, Levels levels) {
  const float largest = largest_magnitude(values);
  if (largest == 0.0F) {
    return 1.0F;
  }
  float best = 1.0F;
  double least = std::numeric_limits<double>::infinity();
  const auto consider = [&](double candidate) {
    const float scale = std::max(static_cast<float>(candidate), std::numeric_limits<float>::min());
    if (const double error = rounding_error(values, scale, levels); error < least) {
      least = error;
      best = scale;
    }
  };
  const double full = static_cast<double>(largest) / levels.high;
  for (int twentieth = 20; twentieth >= lowest_twentieth(levels); --twentieth) {
    consider(full * twentieth / 20.0);
  }
  const double coarse = best;
  for (const int quarter : {-3, -2, -1, 1, 2, 3}) {
    consider(coarse + full * quarter / 80.0);
  }
  for (int round = 0; round < 2; ++round) {
    if (const double refined = least_squares_scale(values, best, levels); refined > 0.0) {
      consider(refined);
    }
  }
  return best;
}

}  // namespace tempera::compress
