#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tempera/base/host.h"
#include "tempera/compress/calibrate/taps.h"
#include "tempera/data/prefetch.h"

namespace tempera::compress {

/// One sample as a worker sees it.
struct StreamedSample {
  std::size_t worker = 0;
  std::size_t number = 0;                          ///< in the order of the stream
  const std::string& name;                         ///< of the sample
  std::span<const std::span<const float>> values;  ///< of the tapped tensors
};

/// Runs the next `count` samples of `samples` through the sessions, one thread each, and shows every sample
/// to the worker that ran it: several at a time, in no particular order, those of one worker one after the
/// other.
///
/// \param first    number of the first sample, for StreamedSample::number
/// \param batch    samples run together
/// \throws what loading, running or `see` throws for the first sample in order that fails; Error{kCancelled}
void stream_samples(std::vector<std::unique_ptr<TapSession>>& sessions, data::Prefetcher& samples,
                    std::size_t first, std::size_t count, std::size_t batch, const Host& host,
                    const std::function<void(const StreamedSample&)>& see);

}  // namespace tempera::compress
