#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "tempera/base/cancel.h"
#include "tempera/data/dataset.h"

namespace tempera::data {

/// min(8, cores of this process).
[[nodiscard]] int default_workers();

/// Loads samples ahead on its own threads and hands them out in the order asked for, whatever the number of
/// workers. Belongs to one thread; the dataset must outlive it.
class Prefetcher {
 public:
  /// \param indices  samples to load, in order
  /// \param workers  threads, >= 1; at most 2 * workers samples are held
  Prefetcher(const Dataset& dataset, std::vector<std::size_t> indices, int workers, CancelToken cancel = {});
  ~Prefetcher();

  /// The next sample; nothing after the last. \throws what loading it threw, at its place in the order;
  /// Error{kCancelled}
  [[nodiscard]] std::optional<Sample> next();

 private:
  class Pool;
  std::unique_ptr<Pool> pool_;
};

/// Every sample of `indices` at once, through a Prefetcher.
[[nodiscard]] std::vector<Sample> load_all(const Dataset& dataset, const std::vector<std::size_t>& indices,
                                           int workers, const CancelToken& cancel = {});

}  // namespace tempera::data
