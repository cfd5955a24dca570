#include "tempera/engine/measure/latency.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "tempera/base/error.h"

namespace tempera::engine {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double median_of_sorted(const std::vector<double>& sorted) {
  const std::size_t n = sorted.size();
  return n % 2 == 1 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2.0;
}

double nearest_rank(const std::vector<double>& sorted, double fraction) {
  const auto rank = static_cast<std::size_t>(std::ceil(fraction * static_cast<double>(sorted.size())));
  return sorted[std::max<std::size_t>(rank, 1) - 1];
}

// Index (from 0) of the largest order statistic that lies at or below the median with at least 95 %
// confidence: the largest k with P(Binomial(n, 1/2) <= k) <= 0.05 from below, or 0 when n is too small for
// any.
std::size_t lower_rank(std::size_t n) {
  double probability = std::pow(0.5, static_cast<double>(n));
  double cumulative = 0.0;
  std::size_t k = 0;
  for (std::size_t i = 0; i < n; ++i) {
    cumulative += probability;
    if (cumulative > 0.05) {
      break;
    }
    k = i;
    probability *= static_cast<double>(n - i) / static_cast<double>(i + 1);
  }
  return k;
}

std::vector<double> sorted_ratios(std::span<const double> above, std::span<const double> below) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < above.size(); ++i) {
    ratios.push_back(above[i] / below[i]);
  }
  std::sort(ratios.begin(), ratios.end());
  return ratios;
}

// No contender's median ratio is above 1. \param times  of each session; the first is the baseline
bool all_slower(const std::vector<std::vector<double>>& times) {
  return std::all_of(times.begin() + 1, times.end(), [&](const std::vector<double>& contender) {
    return median_of_sorted(sorted_ratios(times.front(), contender)) <= 1.0;
  });
}

// Whether the rounds so far tell of each contender that it is faster or slower than the baseline.
bool all_decided(const std::vector<std::vector<double>>& times, const std::vector<double>& again) {
  return std::all_of(times.begin() + 1, times.end(), [&](const std::vector<double>& contender) {
    const PairedSpeedup speedup = paired_speedup(times.front(), again, contender);
    return speedup.faster() || speedup.slower();
  });
}

}  // namespace

LatencyStats latency_stats(std::vector<double> times_ms) {
  TEMPERA_CHECK(!times_ms.empty(), "no times to summarise");
  std::sort(times_ms.begin(), times_ms.end());
  return {times_ms.front(), median_of_sorted(times_ms), nearest_rank(times_ms, 0.95),
          nearest_rank(times_ms, 0.99), static_cast<std::int64_t>(times_ms.size())};
}

PairedSpeedup paired_speedup(std::span<const double> baseline, std::span<const double> again,
                             std::span<const double> contender) {
  TEMPERA_CHECK(!baseline.empty() && baseline.size() == again.size() && baseline.size() == contender.size(),
                "paired times differ in number");
  const std::vector<double> ratios = sorted_ratios(baseline, contender);
  const std::vector<double> chance = sorted_ratios(baseline, again);
  const std::size_t n = ratios.size();
  const std::size_t k = lower_rank(n);
  PairedSpeedup speedup;
  speedup.median = median_of_sorted(ratios);
  speedup.lower95 = ratios[k];
  speedup.upper95 = ratios[n - 1 - k];
  // Either run of the baseline may be the slower one, so the bound is taken on both sides.
  speedup.noise = std::max(chance[n - 1 - k], 1.0 / chance[k]);
  speedup.noise = std::max(speedup.noise, 1.0);
  speedup.pairs = static_cast<std::int64_t>(n);
  return speedup;
}

std::vector<Timing> time_interleaved(std::span<const Timed> sessions, const TimingOptions& options,
                                     const Host& host) {
  TEMPERA_CHECK(!sessions.empty(), "nothing to time");
  constexpr std::int64_t kFewestRounds = 5;
  constexpr std::int64_t kRoundsToGiveUp = 10;
  constexpr double kPatience = 3.0;
  const std::size_t count = sessions.size();
  std::vector<std::vector<double>> times(count);
  std::vector<double> again;
  const auto time_one = [&](std::size_t which, std::int64_t round) {
    const auto& sets = sessions[which].inputs;
    const std::vector<graph::Tensor>& inputs = sets[static_cast<std::size_t>(round) % sets.size()];
    const Clock::time_point start = Clock::now();
    (void)sessions[which].session->run(inputs);
    return seconds_since(start) * 1e3;
  };
  // The run before belongs to another session, which leaves its own weights in the caches: a long run does not notice, a
  // short one first runs once untimed.
  constexpr double kNoticesCachesMs = 50.0;
  std::vector<bool> warms_up(count);
  for (std::int64_t round = 0; round < options.warmup; ++round) {
    for (std::size_t i = 0; i < count; ++i) {
      warms_up[i] = time_one(i, round) < kNoticesCachesMs;
    }
  }
  const auto time_warm = [&](std::size_t which, std::int64_t round) {
    if (warms_up[which]) {
      (void)time_one(which, round);
    }
    return time_one(which, round);
  };
  const Clock::time_point start = Clock::now();
  host.progress.begin("measuring latency", options.pairs);
  for (std::int64_t round = 0; round < options.pairs; ++round) {
    host.cancel.throw_if_cancelled();
    const double spent = seconds_since(start) / options.max_seconds;
    if (round >= kFewestRounds && spent > 1.0) {
      const bool may_become_enough = round < kFewestPairs && options.pairs >= kFewestPairs && spent < kPatience;
      if (!may_become_enough || all_decided(times, again)) {
        break;
      }
    }
    if (options.stop_when_slower && round >= kRoundsToGiveUp && all_slower(times)) {
      break;
    }
    // Reversing every other round keeps a drift of the machine's speed from favouring one place in the order.
    const bool forward = round % 2 == 0;
    const double first = time_warm(0, round);
    for (std::size_t i = 1; i < count; ++i) {
      const std::size_t which = forward ? i : count - i;
      times[which].push_back(time_warm(which, round));
    }
    const double last = time_warm(0, round);
    times[0].push_back(forward ? first : last);
    again.push_back(forward ? last : first);
    host.progress.advance();
  }
  host.progress.end();
  std::vector<Timing> results(count);
  for (std::size_t i = 0; i < count; ++i) {
    results[i].latency = latency_stats(times[i]);
    results[i].speedup = paired_speedup(times[0], again, i == 0 ? std::span<const double>(again) : times[i]);
  }
  return results;
}

}  // namespace tempera::engine
