#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tempera/base/host.h"
#include "tempera/engine/engine.h"
#include "tempera/graph/tensor.h"

namespace tempera::engine {

/// Interleaved pairs below which nothing counts as faster or slower, but for a large difference.
inline constexpr std::int64_t kFewestPairs = 30;

/// A difference that takes fewer pairs: a slow model would else need half an hour to show that it became twice as fast.
inline constexpr double kLargeGain = 1.5;
inline constexpr std::int64_t kFewestPairsOfALargeGain = 10;

/// Times of single runs, milliseconds.
struct LatencyStats {
  double min_ms = 0.0;
  double median_ms = 0.0;
  double p95_ms = 0.0;  ///< nearest rank
  double p99_ms = 0.0;
  std::int64_t runs = 0;
};

/// \param times_ms  at least one
[[nodiscard]] LatencyStats latency_stats(std::vector<double> times_ms);

/// How much faster a contender is than the baseline, from interleaved pairs.
///
///   ratio_i = baseline_i / contender_i      above 1: faster
///
/// The lower bound is the order statistic of the ratios that lies below their median with 95 % confidence,
/// from the binomial distribution of ranks (distribution-free; Conover, Practical Nonparametric Statistics,
/// 3rd ed., sec. 3.2). `noise` is the upper 95 % bound of the same for the baseline against its own second
/// run in each round: what chance alone gives.
struct PairedSpeedup {
  double median = 1.0;
  double lower95 = 1.0;
  double noise = 1.0;
  std::int64_t pairs = 0;

  /// The design's rule of *faster*: at least 30 pairs, and the lower bound above both 1 and the noise; or at least 10
  /// pairs, and the lower bound above 1.5 times the noise.
  [[nodiscard]] bool faster() const { return beyond_chance(lower95); }
  /// The mirror: slower beyond doubt.
  double upper95 = 1.0;
  [[nodiscard]] bool slower() const { return upper95 > 0.0 && beyond_chance(1.0 / upper95); }

 private:
  [[nodiscard]] bool beyond_chance(double bound) const {
    return bound > 1.0 && ((pairs >= kFewestPairs && bound > noise) ||
                           (pairs >= kFewestPairsOfALargeGain && bound > kLargeGain * noise));
  }
};

/// \param baseline,again,contender  times of the same rounds, equal lengths, at least one
[[nodiscard]] PairedSpeedup paired_speedup(std::span<const double> baseline, std::span<const double> again,
                                           std::span<const double> contender);

/// One session with its own input sets (in the order of its inputs); round i runs set i modulo their number.
struct Timed {
  Session* session = nullptr;
  std::span<const std::vector<graph::Tensor>> inputs;
};

struct TimingOptions {
  std::int64_t pairs = 30;  ///< rounds wanted
  std::int64_t warmup = 3;  ///< rounds run and not counted
  /// Stop earlier after this, but not before 5 rounds. Up to three times as long is spent on
  /// reaching kFewestPairs, where so many were asked for, while a contender is not yet beyond chance faster or slower.
  double max_seconds = 60.0;
  /// Stop after 10 rounds once no contender's median ratio is above 1: for asking only whether something is
  /// faster. Looking early cannot make anything count as faster: what is not above 1 stays so.
  bool stop_when_slower = false;
};

struct Timing {
  LatencyStats latency;
  PairedSpeedup speedup;  ///< against the first; of the first: against itself
};

/// Runs all sessions in turn, round by round, in an order that is reversed every other round: baseline,
/// contenders, baseline again. The first of `sessions` is the baseline. A session that took less than 50 ms in
/// the last warm-up runs once untimed before each timed run, so that it finds the caches as in a program that
/// runs nothing else. \throws Error{kCancelled} and what the sessions throw
[[nodiscard]] std::vector<Timing> time_interleaved(std::span<const Timed> sessions,
                                                   const TimingOptions& options, const Host& host);

}  // namespace tempera::engine
