#pragma once

#include "tempera/quality/per_sample.h"

namespace tempera::quality {

/// A program of the user's own as metric: it is run once for each sample, with the paths of two .npy files as last
/// arguments, the truth and the output, and prints one finite number. The mean over samples is the result.
///
/// The files lie in a private folder that is gone afterwards. What a program may cost: see CommandOptions.
///
/// add() throws Error{kNotFound, kIo} when the program cannot be run, Error{kInvalidArgument} when it is not allowed,
/// fails, is killed, takes too long, or prints anything else; Error{kCancelled}. All but the last name program and
/// sample.
class CommandMetric final : public PerSample {
 public:
  CommandMetric(Direction direction, CommandOptions options)
      : PerSample(direction), options_(std::move(options)) {}

 protected:
  [[nodiscard]] double measure(const graph::Tensor& reference, const graph::Tensor& candidate) const override;

 private:
  CommandOptions options_;
};

}  // namespace tempera::quality
