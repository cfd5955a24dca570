#include "tempera/compress/quantize/equalize.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "tempera/compress/quantize/channel_scaling.h"

namespace tempera::compress {
namespace {

constexpr int kMaxSweeps = 20;
constexpr double kSettled = 0.01;
constexpr double kLargestFactor =
    1e4;  // a channel of almost no weight is noise, not worth overflowing its neighbours for

// s of eq. 11.
std::vector<double> factors_of(const std::vector<double>& r1, const std::vector<double>& r2) {
  std::vector<double> factors(r1.size(), 1.0);
  for (std::size_t i = 0; i < r1.size(); ++i) {
    if (r1[i] > 0.0 && r2[i] > 0.0) {
      factors[i] = std::clamp(std::sqrt(r1[i] * r2[i]) / r2[i], 1.0 / kLargestFactor, kLargestFactor);
    }
  }
  return factors;
}

double distance_from_one(const std::vector<double>& factors) {
  double largest = 0.0;
  for (const double factor : factors) {
    largest = std::max(largest, std::abs(std::log(factor)));
  }
  return largest;
}

}  // namespace

Equalization equalize(graph::Model& model) {
  graph::Graph& graph = model.graph;
  std::vector<ScalableTensor> pairs = find_scalable(graph);
  std::erase_if(pairs, [](const ScalableTensor& tensor) { return !tensor.maker.has_value(); });
  std::set<std::string> scaled;
  Equalization result;
  for (bool settled = pairs.empty(); !settled && result.sweeps < kMaxSweeps; ++result.sweeps) {
    settled = true;
    for (const ScalableTensor& pair : pairs) {
      const std::vector<double> factors = factors_of(maker_ranges(graph, pair), reader_ranges(graph, pair));
      if (distance_from_one(factors) > kSettled && scale_channels(graph, pair, factors)) {
        scaled.insert(pair.maker->name);
        settled = false;
      }
    }
  }
  for (const ScalableTensor& pair : pairs) {
    if (scaled.contains(pair.maker->name)) {
      result.layers.push_back(pair.maker->name);
    }
  }
  return result;
}

}  // namespace tempera::compress
