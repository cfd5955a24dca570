#include "tempera/data/split.h"

#include <map>

#include <fmt/format.h>

namespace tempera::data {

Split split_three(const Dataset& dataset) {
  Split split;
  const auto& samples = dataset.samples();
  std::map<Sha256Digest, std::size_t> order;  // of distinct contents that have samples, by hash
  for (const SampleInfo& sample : samples) {
    order.emplace(dataset.sources()[sample.source].hash, 0);
  }
  const std::size_t contents = order.size();
  constexpr std::size_t kParts = 3;
  if (contents < kParts) {
    for (std::size_t i = 0; i < samples.size(); ++i) {
      split.calibrate.push_back(i);
    }
    split.search = split.calibrate;
    split.verify = split.calibrate;
    split.sufficient = false;
    split.reason = fmt::format(
        "insufficient data: {} distinct source{} where calibrating, choosing and verifying need one each",
        contents, contents == 1 ? "" : "s");
    return split;
  }
  std::size_t place = 0;
  for (auto& [hash, position] : order) {
    position = place++;
  }
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const std::size_t position = order.at(dataset.sources()[samples[i].source].hash);
    const std::size_t part = position * kParts / contents;
    (part == 0 ? split.calibrate : part == 1 ? split.search : split.verify).push_back(i);
  }
  return split;
}

}  // namespace tempera::data
