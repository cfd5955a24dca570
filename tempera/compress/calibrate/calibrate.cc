#include "tempera/compress/calibrate/calibrate.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <set>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "tempera/base/error.h"
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

struct Extremes {
  float min = std::numeric_limits<float>::infinity();
  float max = -std::numeric_limits<float>::infinity();
};

/// \throws Error{kInvalidArgument} at the first NaN or infinity, and when there are no values
Extremes extremes_of(std::span<const float> values, const std::string& tensor) {
  if (values.empty()) {
    throw Error(ErrorCode::kInvalidArgument, fmt::format("tensor '{}' is empty", tensor));
  }
  Extremes extremes;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) {
      throw Error(ErrorCode::kInvalidArgument, fmt::format("tensor '{}' holds {} at element {}", tensor, values[i], i));
    }
    extremes.min = std::min(extremes.min, values[i]);
    extremes.max = std::max(extremes.max, values[i]);
  }
  return extremes;
}

/// One tensor over the samples merged so far.
struct Observed {
  Extremes all;
  double average_min = 0.0;
  double average_max = 0.0;
  bool any = false;

  void merge(const Extremes& sample, double momentum) {
    all.min = std::min(all.min, sample.min);
    all.max = std::max(all.max, sample.max);
    average_min = any ? momentum * average_min + (1.0 - momentum) * sample.min : sample.min;
    average_max = any ? momentum * average_max + (1.0 - momentum) * sample.max : sample.max;
    any = true;
  }
};

/// A range that a method proposes.
struct Candidate {
  RangeMethod method = RangeMethod::kMinMax;
  float lo = 0.0F;
  float hi = 0.0F;
  QuantizeError error;
};

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

  void calibrate_group(const std::vector<std::string>& tensors, std::map<std::string, TensorRange>& ranges) {
    Sessions sessions = make_sessions(tensors);
    const std::vector<Observed> observed = observe(tensors, sessions);
    std::vector<std::vector<Candidate>> candidates(tensors.size());
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      candidates[t] = propose(observed[t]);
    }
    judge(sessions, candidates);
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      ranges[tensors[t]] = choose(observed[t], candidates[t]);
    }
  }

  Sessions make_sessions(const std::vector<std::string>& tensors) const {
    Sessions sessions;
    for (int i = 0; i < sessions_; ++i) {
      sessions.push_back(std::make_unique<TapSession>(engine_, model_, tensors, compile_));
    }
    return sessions;
  }

  /// Places in `samples_` that ranges are judged on.
  [[nodiscard]] std::vector<std::size_t> judged_places() const {
    constexpr std::size_t kStride = 5;
    constexpr std::size_t kMost = 64;  // beyond it the estimate of the error hardly changes, only the time
    const std::size_t count = samples_.size();
    const std::size_t stride = std::max(kStride, (count + kMost - 1) / kMost);
    std::vector<std::size_t> places;
    for (std::size_t place = stride - 1; place < count; place += stride) {
      places.push_back(place);
    }
    for (std::size_t place = 0; place < count && count < kStride; ++place) {
      places.push_back(place);  // too few to hold any out
    }
    return places;
  }

  data::Prefetcher prefetch(const std::vector<std::size_t>& samples) const {
    const int workers = options_.workers > 0 ? options_.workers : data::default_workers();
    return {dataset_, samples, workers, host_.cancel};
  }

  std::vector<Observed> observe(const std::vector<std::string>& tensors, Sessions& sessions) const {
    std::vector<Observed> observed(tensors.size());
    std::vector<std::vector<Extremes>> slots(kChunk, std::vector<Extremes>(tensors.size()));
    data::Prefetcher prefetcher = prefetch(samples_);
    host_.progress.begin("calibrating", static_cast<std::int64_t>(samples_.size()));
    for (std::size_t first = 0; first < samples_.size(); first += kChunk) {
      const std::size_t count = std::min(kChunk, samples_.size() - first);
      stream_samples(sessions, prefetcher, first, count, 1, host_, [&](const StreamedSample& sample) {
        for (std::size_t t = 0; t < tensors.size(); ++t) {
          slots[sample.number - first][t] = extremes_of(sample.values[t], tensors[t]);
        }
      });
      for (std::size_t i = 0; i < count; ++i) {
        for (std::size_t t = 0; t < tensors.size(); ++t) {
          observed[t].merge(slots[i][t], options_.momentum);
        }
      }
    }
    host_.progress.end();
    return observed;
  }

  [[nodiscard]] std::vector<Candidate> propose(const Observed& observed) const {
    std::vector<Candidate> candidates;
    const auto add = [&](RangeMethod method, float lo, float hi) {
      if (options_.symmetric && lo < 0.0F && hi > 0.0F) {
        const float largest = std::max(-lo, hi);
        lo = -largest;
        hi = largest;
      }
      candidates.push_back({method, lo, hi, {}});
    };
    if (options_.method == RangeMethod::kMinMax || options_.method == RangeMethod::kAuto) {
      add(RangeMethod::kMinMax, observed.all.min, observed.all.max);
    }
    if (options_.method == RangeMethod::kMovingAverage || options_.method == RangeMethod::kAuto) {
      add(RangeMethod::kMovingAverage, static_cast<float>(observed.average_min),
          static_cast<float>(observed.average_max));
    }
    return candidates;
  }

  void judge(Sessions& sessions, std::vector<std::vector<Candidate>>& candidates) const {
    std::vector<std::size_t> indices;
    for (const std::size_t place : judged_places()) {
      indices.push_back(samples_[place]);
    }
    // [sample of the chunk][tensor][candidate]
    std::vector<std::vector<std::vector<QuantizeError>>> slots(kChunk);
    data::Prefetcher prefetcher = prefetch(indices);
    host_.progress.begin("judging ranges", static_cast<std::int64_t>(indices.size()));
    for (std::size_t first = 0; first < indices.size(); first += kChunk) {
      const std::size_t count = std::min(kChunk, indices.size() - first);
      stream_samples(sessions, prefetcher, first, count, 1, host_, [&](const StreamedSample& sample) {
        auto& slot = slots[sample.number - first];
        slot.resize(candidates.size());
        for (std::size_t t = 0; t < candidates.size(); ++t) {
          slot[t].clear();
          for (const Candidate& candidate : candidates[t]) {
            slot[t].push_back(quantize_error(sample.values[t],
                                             numeric::affine_from_range(candidate.lo, candidate.hi, kJudgedCodes)));
          }
        }
      });
      for (std::size_t i = 0; i < count; ++i) {
        for (std::size_t t = 0; t < candidates.size(); ++t) {
          for (std::size_t c = 0; c < candidates[t].size(); ++c) {
            candidates[t][c].error += slots[i][t][c];
          }
        }
      }
    }
    host_.progress.end();
  }

  static TensorRange choose(const Observed& observed, const std::vector<Candidate>& candidates) {
    // The first of equals: min-max leads the list.
    const auto best = std::min_element(candidates.begin(), candidates.end(), [](const auto& a, const auto& b) {
      return a.error.error < b.error.error;
    });
    TensorRange range;
    range.min = observed.all.min;
    range.max = observed.all.max;
    range.lo = best->lo;
    range.hi = best->hi;
    range.method = best->method;
    range.relative_mse = best->error.square > 0.0 ? best->error.error / best->error.square : 0.0;
    return range;
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
