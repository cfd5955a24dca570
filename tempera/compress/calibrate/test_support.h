#pragma once

/// What the tests of this room share.

#include <cstddef>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "tempera/base/host.h"
#include "tempera/base/random.h"
#include "tempera/data/dataset.h"

namespace tempera::compress {

/// Samples given as tensors.
class MemoryDataset final : public data::Dataset {
 public:
  explicit MemoryDataset(std::vector<std::vector<graph::Tensor>> inputs) : inputs_(std::move(inputs)) {
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      samples_.push_back({"sample " + std::to_string(i), i});
      Sha256 hash;
      for (const graph::Tensor& tensor : inputs_[i]) {
        hash.update(tensor.bytes());
      }
      sources_.push_back({samples_.back().name, hash.finish()});
    }
  }

  [[nodiscard]] const std::vector<data::SampleInfo>& samples() const override { return samples_; }
  [[nodiscard]] const std::vector<data::Source>& sources() const override { return sources_; }
  [[nodiscard]] data::Sample load(std::size_t index) const override {
    return {samples_.at(index).name, inputs_.at(index), {}};
  }

  [[nodiscard]] std::vector<std::size_t> all() const {
    std::vector<std::size_t> indices(inputs_.size());
    std::iota(indices.begin(), indices.end(), std::size_t{0});
    return indices;
  }

 private:
  std::vector<std::vector<graph::Tensor>> inputs_;
  std::vector<data::SampleInfo> samples_;
  std::vector<data::Source> sources_;
};

/// Normal numbers of the given shape, sample by sample.
[[nodiscard]] inline MemoryDataset normal_samples(std::size_t count, const graph::Dims& dims,
                                                  std::uint64_t seed = 1) {
  std::vector<std::vector<graph::Tensor>> inputs;
  for (std::size_t i = 0; i < count; ++i) {
    graph::Tensor::Writable tensor = graph::Tensor::allocate(graph::DataType::kFloat32, dims);
    CounterRng(seed, i).fill_normal(tensor.values<float>());
    inputs.push_back({std::move(tensor.tensor)});
  }
  return MemoryDataset(std::move(inputs));
}

/// A host that shows nothing.
struct QuietHost {
  std::unique_ptr<Logger> log = make_null_logger();
  std::unique_ptr<Progress> progress = make_null_progress();
  CancelToken cancel;
  Host host{*log, *progress, cancel};
};

}  // namespace tempera::compress
