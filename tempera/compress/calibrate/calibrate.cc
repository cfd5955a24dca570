#include "tempera/compress/calibrate/calibrate.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <exception>
#include <functional>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "tempera/base/error.h"
#include "tempera/compress/calibrate/observed.h"
#include "tempera/compress/calibrate/quantize_error.h"
#include "tempera/compress/calibrate/sample_stream.h"
#include "tempera/compress/calibrate/taps.h"
#include "tempera/data/prefetch.h"

namespace tempera::compress {
namespace {

struct MethodName {
  RangeMethod method;
  std::string_view name;
};
constexpr std::array<MethodName, 6> kMethods{{{RangeMethod::kMinMax, "minmax"},
                                              {RangeMethod::kMovingAverage, "moving_average"},
                                              {RangeMethod::kPercentile, "percentile"},
                                              {RangeMethod::kMse, "mse"},
                                              {RangeMethod::kEntropy, "entropy"},
                                              {RangeMethod::kAuto, "auto"}}};

// Samples between two merges of what the workers counted.
constexpr std::size_t kChunk = 64;

// Values of tapped tensors held at a time, all sessions together; the engine may keep as much again.
constexpr std::int64_t kTapBytes = std::int64_t{256} << 20;

/// \throws Error{kInvalidArgument} at the first NaN or infinity, and when there are no values
void require_finite(const Extremes& extremes, std::span<const float> values, const std::string& tensor) {
  if (values.empty()) {
    throw Error(ErrorCode::kInvalidArgument, fmt::format("tensor '{}' is empty", tensor));
  }
  if (!extremes.finite) {
    const auto bad = std::find_if(values.begin(), values.end(), [](float x) { return !std::isfinite(x); });
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("tensor '{}' holds {} at element {}", tensor, *bad, bad - values.begin()));
  }
}

int thread_count(int asked) {
  return asked > 0 ? asked : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
}

void check_options(const std::vector<std::string>& tensors, const data::Dataset& dataset,
                   const std::vector<std::size_t>& samples, const CalibrateOptions& options) {
  const auto refuse = [](std::string message) { throw Error(ErrorCode::kInvalidArgument, std::move(message)); };
  if (samples.empty()) {
    refuse("no samples to calibrate on");
  }
  for (const std::size_t index : samples) {
    if (index >= dataset.samples().size()) {
      refuse(fmt::format("sample {} asked for, but the data hold {}", index, dataset.samples().size()));
    }
  }
  std::set<std::string> seen;
  for (const std::string& tensor : tensors) {
    if (!seen.insert(tensor).second) {
      refuse(fmt::format("tensor '{}' is asked for twice", tensor));
    }
  }
  if (!(options.percentile > 0.5 && options.percentile <= 1.0)) {
    refuse(fmt::format("percentile is {}, expected above 0.5 and at most 1", options.percentile));
  }
  if (!(options.momentum >= 0.0 && options.momentum < 1.0)) {
    refuse(fmt::format("momentum is {}, expected 0 to below 1", options.momentum));
  }
  if (options.batch < 1) {
    refuse(fmt::format("batch is {}, expected 1 or more", options.batch));
  }
  if (options.workers < 0 || options.compile.threads < 0) {
    refuse("the number of workers and threads must not be negative");
  }
  if (options.compile.precision != engine::Precision::kFloat32) {
    refuse(fmt::format("calibration runs in f32, not in {}", engine::to_string(options.compile.precision)));
  }
}

class Calibrator {
 public:
  Calibrator(const graph::Model& model, const data::Dataset& dataset, const std::vector<std::size_t>& samples,
             const engine::Engine& engine, const CalibrateOptions& options, const Host& host)
      : model_(model), dataset_(dataset), samples_(samples), engine_(engine), options_(options), host_(host) {
    constexpr int kMostSessions = 4;  // each holds the tapped tensors of its samples
    const int threads = thread_count(options.compile.threads);
    sessions_ = std::min(threads, kMostSessions);
    compile_ = options.compile;
    compile_.threads = threads / sessions_;
    compile_.exact = true;
    compile_.profile = false;
  }

  std::map<std::string, TensorRange> run(const std::vector<std::string>& tensors) {
    std::map<std::string, TensorRange> ranges;
    for (const std::vector<std::string>& group :
         group_taps(model_, tensors, compile_.input_shapes, kTapBytes / sessions_ / options_.batch)) {
      calibrate_group(group, ranges);
    }
    return ranges;
  }

 private:
  using Sessions = std::vector<std::unique_ptr<TapSession>>;
  static constexpr std::size_t kStride = 5;  // one sample of so many judges

  void calibrate_group(const std::vector<std::string>& tensors, std::map<std::string, TensorRange>& ranges) {
    Sessions sessions = make_sessions(tensors);
    const std::vector<Observed> observed = observe(tensors, sessions);
    std::vector<std::vector<Candidate>> proposed(tensors.size());
    in_parallel(tensors.size(), [&](std::size_t t) { proposed[t] = candidates(observed[t], options_); });
    judge(sessions, proposed);
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      ranges[tensors[t]] = choose(observed[t], proposed[t]);
    }
  }

  /// Calls `work` for 0 to count - 1 on as many threads as there are sessions.
  void in_parallel(std::size_t count, const std::function<void(std::size_t)>& work) const {
    std::atomic<std::size_t> next = 0;
    std::exception_ptr error;
    std::mutex mutex;
    const auto run = [&] {
      try {
        for (std::size_t i = next++; i < count; i = next++) {
          work(i);
        }
      } catch (...) {
        const std::lock_guard lock(mutex);
        error = std::current_exception();
      }
    };
    {
      std::vector<std::jthread> threads;
      for (int i = 0; i < sessions_; ++i) {
        threads.emplace_back(run);
      }
    }
    if (error) {
      std::rethrow_exception(error);
    }
  }

  Sessions make_sessions(const std::vector<std::string>& tensors) const {
    Sessions sessions;
    for (int i = 0; i < sessions_; ++i) {
      sessions.push_back(std::make_unique<TapSession>(engine_, model_, tensors, compile_));
    }
    return sessions;
  }

  /// Samples that ranges are judged on and that no histogram counts: every fifth, or fewer of many, which changes the
  /// estimate of an error little and the time much. Of less than five samples all judge, and all are counted.
  [[nodiscard]] bool is_judge(std::size_t place) const {
    constexpr std::size_t kMost = 64;
    const std::size_t count = samples_.size();
    const std::size_t stride = std::max(kStride, (count + kMost - 1) / kMost);
    return count < kStride || place % stride == stride - 1;
  }
  [[nodiscard]] bool is_counted(std::size_t place) const { return samples_.size() < kStride || !is_judge(place); }

  data::Prefetcher prefetch(const std::vector<std::size_t>& samples) const {
    const int workers = options_.workers > 0 ? options_.workers : data::default_workers();
    return {dataset_, samples, workers, host_.cancel};
  }

  std::vector<Observed> observe(const std::vector<std::string>& tensors, Sessions& sessions) const {
    std::vector<Observed> observed(tensors.size());
    std::vector<std::vector<Histogram>> counted(sessions.size(), std::vector<Histogram>(tensors.size()));
    std::vector<std::vector<Extremes>> slots(kChunk, std::vector<Extremes>(tensors.size()));
    data::Prefetcher prefetcher = prefetch(samples_);
    host_.progress.begin("calibrating", static_cast<std::int64_t>(samples_.size()));
    for (std::size_t first = 0; first < samples_.size(); first += kChunk) {
      const std::size_t count = std::min(kChunk, samples_.size() - first);
      stream_samples(sessions, prefetcher, first, count, 1, host_, [&](const StreamedSample& sample) {
        const bool count_values = needs_histogram() && is_counted(sample.number);
        for (std::size_t t = 0; t < tensors.size(); ++t) {
          const std::span<const float> values = sample.values[t];
          const Extremes extremes = count_values ? counted[sample.worker][t].add(values) : extremes_of(values);
          require_finite(extremes, values, tensors[t]);
          slots[sample.number - first][t] = extremes;
        }
      });
      for (std::size_t t = 0; t < tensors.size(); ++t) {
        for (std::size_t i = 0; i < count; ++i) {
          observed[t].merge(slots[i][t], options_.momentum);
        }
        for (std::vector<Histogram>& of_worker : counted) {
          observed[t].histogram.merge(of_worker[t]);
          of_worker[t].clear();
        }
      }
    }
    host_.progress.end();
    return observed;
  }

  [[nodiscard]] bool needs_histogram() const {
    return options_.method != RangeMethod::kMinMax && options_.method != RangeMethod::kMovingAverage;
  }

  void judge(Sessions& sessions, std::vector<std::vector<Candidate>>& proposed) const {
    std::vector<std::size_t> indices;
    for (std::size_t place = 0; place < samples_.size(); ++place) {
      if (is_judge(place)) {
        indices.push_back(samples_[place]);
      }
    }
    // [sample of the chunk][tensor][candidate]
    std::vector<std::vector<std::vector<QuantizeError>>> slots(kChunk);
    data::Prefetcher prefetcher = prefetch(indices);
    host_.progress.begin("judging ranges", static_cast<std::int64_t>(indices.size()));
    for (std::size_t first = 0; first < indices.size(); first += kChunk) {
      const std::size_t count = std::min(kChunk, indices.size() - first);
      stream_samples(sessions, prefetcher, first, count, 1, host_, [&](const StreamedSample& sample) {
        auto& slot = slots[sample.number - first];
        slot.resize(proposed.size());
        for (std::size_t t = 0; t < proposed.size(); ++t) {
          slot[t].clear();
          for (const Candidate& candidate : proposed[t]) {
            slot[t].push_back(quantize_error(sample.values[t],
                                             numeric::affine_from_range(candidate.lo, candidate.hi, kJudgedCodes)));
          }
        }
      });
      for (std::size_t i = 0; i < count; ++i) {
        for (std::size_t t = 0; t < proposed.size(); ++t) {
          for (std::size_t c = 0; c < proposed[t].size(); ++c) {
            proposed[t][c].error += slots[i][t][c];
          }
        }
      }
    }
    host_.progress.end();
  }

  const graph::Model& model_;
  const data::Dataset& dataset_;
  const std::vector<std::size_t>& samples_;
  const engine::Engine& engine_;
  const CalibrateOptions& options_;
  const Host& host_;
  engine::CompileOptions compile_;
  int sessions_ = 1;
};

}  // namespace

std::string_view to_string(RangeMethod method) {
  const auto* found =
      std::find_if(kMethods.begin(), kMethods.end(), [&](const MethodName& m) { return m.method == method; });
  return found->name;
}

std::optional<RangeMethod> range_method_from_string(std::string_view name) {
  const auto* found =
      std::find_if(kMethods.begin(), kMethods.end(), [&](const MethodName& m) { return m.name == name; });
  return found == kMethods.end() ? std::nullopt : std::optional(found->method);
}

Calibration calibrate(const graph::Model& model, const std::vector<std::string>& tensors, const data::Dataset& dataset,
                      const std::vector<std::size_t>& samples, const engine::Engine& engine,
                      const CalibrateOptions& options, const Host& host) {
  check_options(tensors, dataset, samples, options);
  Calibration calibration;
  calibration.samples = static_cast<std::int64_t>(samples.size());
  calibration.engine = fmt::format("{} {} {} f32", engine.attributes().name, engine.attributes().version,
                                   options.compile.device);
  calibration.ranges = Calibrator(model, dataset, samples, engine, options, host).run(tensors);
  return calibration;
}

}  // namespace tempera::compress
