#include "tempera/numeric/low_bit.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

namespace tempera::numeric {

TernaryFit fit_ternary(std::span<const float> values) {
  // w -> W   k -> |I_Delta|   scale -> alpha   gain -> (1/|I_Delta|) (sum_{i in I_Delta} |W_i|)^2   (arXiv:1605.04711)
  std::vector<float> magnitudes(values.size());
  std::transform(values.begin(), values.end(), magnitudes.begin(), [](float w) { return std::abs(w); });
  std::sort(magnitudes.begin(), magnitudes.end(), std::greater<>());
  double squares = 0.0;
  double sum = 0.0;
  double best_gain = 0.0;
  TernaryFit fit;
  for (std::size_t i = 0; i < magnitudes.size(); ++i) {
    const double w = magnitudes[i];
    const double k = static_cast<double>(i) + 1.0;
    squares += w * w;
    sum += w;
    if (const double gain = sum * sum / k; gain > best_gain) {
      best_gain = gain;
      fit.scale = static_cast<float>(sum / k);
    }
  }
  fit.squared_error = std::max(0.0, squares - best_gain);
  return fit;
}

float fit_binary(std::span<const float> values) {
  double sum = 0.0;
  for (const float w : values) {
    sum += std::abs(w);
  }
  return values.empty() ? 0.0F : static_cast<float>(sum / static_cast<double>(values.size()));
}

}  // namespace tempera::numeric
