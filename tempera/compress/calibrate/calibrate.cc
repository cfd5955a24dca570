#include "tempera/compress/calibrate/calibrate.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <exception>
#include <functional>
#include <limits>
#include <mutex>
#include <numeric>
#include <set>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "tempera/base/error.h"
#include "tempera/compress/calibrate/checkpoint.h"
#include "tempera/compress/calibrate/observed.h"
#include "tempera/compress/calibrate/quantize_error.h"
#include "tempera/compress/calibrate/sample_stream.h"
#include "tempera/compress/calibrate/taps.h"
#include "tempera/compress/calibrate/timesteps.h"
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

// Values of tapped tensors held at a time, all sessions together; the engine may keep as much again. No second session is
// opened for a model whose weights, of which each holds a copy, would take more.
constexpr std::int64_t kTapBytes = std::int64_t{256} << 20;

/// \throws Error{kInvalidArgument} at the first NaN or infinity, and when there are no values
void require_finite(const Extremes& extremes, std::span<const float> values, const std::string& tensor,
                    const std::function<std::size_t(std::size_t shown)>& element) {
  if (values.empty()) {
    throw Error(ErrorCode::kInvalidArgument, fmt::format("tensor '{}' is empty", tensor));
  }
  if (extremes.finite) {
    return;
  }
  std::size_t first = std::numeric_limits<std::size_t>::max();
  float bad = 0.0F;
  for (std::size_t shown = 0; shown < values.size(); ++shown) {
    if (!std::isfinite(values[shown]) && element(shown) < first) {
      first = element(shown);
      bad = values[shown];
    }
  }
  throw Error(ErrorCode::kInvalidArgument, fmt::format("tensor '{}' holds {} at element {}", tensor, bad, first));
}

int thread_count(int asked) {
  return asked > 0 ? asked : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
}

void check_options(const std::vector<std::string>& tensors, const data::Dataset& dataset,
                   const std::vector<std::size_t>& samples, const CalibrateOptions& options) {
  const auto refuse = [](std::string message) {
    throw Error(ErrorCode::kInvalidArgument, std::move(message));
  };
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
    mark_judges();
    compile_ = options.compile;
    compile_.exact = true;
    compile_.profile = false;
  }

  /// \param store  where finished groups of tensors and merged samples are kept, if anywhere
  std::map<std::string, TensorRange> run(std::vector<std::string> tensors, const CalibrationStore* store) {
    store_ = store;
    Checkpoint state;
    if (store_ != nullptr) {
      state = store_->partial().value_or(Checkpoint{});
    }
    std::erase_if(tensors, [&](const std::string& tensor) { return state.ranges.contains(tensor); });
    const std::vector<std::int64_t> bytes = tap_bytes(model_, tensors, typical_shapes());
    std::int64_t largest = std::max<std::int64_t>(graph::weight_size(model_.graph).bytes, 1);
    for (const std::int64_t size : bytes) {
      largest = std::max(largest, size);
    }
    use_sessions(static_cast<int>(std::clamp<std::int64_t>(kTapBytes / largest, 1, kMostSessions)));
    for (const std::vector<std::string>& group : group_taps(tensors, bytes, kTapBytes / sessions_ / options_.batch)) {
      if (state.tensors != group) {  // a fresh group, or one cut for another number of sessions
        state.tensors = group;
        state.observed.assign(group.size(), {});
        state.merged = 0;
      }
      calibrate_group(state);
    }
    return std::move(state.ranges);
  }

 private:
  using Sessions = std::vector<std::unique_ptr<TapSession>>;
  static constexpr int kMostSessions = 4;  // each holds the tapped tensors of its samples
  static constexpr std::size_t kStride = 5;  // one sample of so many judges

  /// As many sessions as there are threads, at most `most`; they share the threads.
  void use_sessions(int most) {
    const int threads = thread_count(options_.compile.threads);
    sessions_ = std::min(threads, most);
    compile_.threads = threads / sessions_;
    compile_.bind_threads = sessions_ == 1;
  }

  /// Shapes by which memory is planned: those that all samples have, else the first sample's.
  [[nodiscard]] std::map<std::string, graph::Dims> typical_shapes() const {
    std::map<std::string, graph::Dims> shapes = compile_.input_shapes;
    const std::vector<std::string> names = data::required_inputs(model_.graph);
    const std::vector<graph::Tensor> inputs = data::arrange_inputs(dataset_.load(samples_.front()), model_.graph, names);
    for (std::size_t i = 0; i < names.size(); ++i) {
      shapes.emplace(names[i], inputs[i].dims());
    }
    return shapes;
  }

  void calibrate_group(Checkpoint& state) {
    Sessions sessions = make_sessions(state.tensors);
    observe(sessions, state);
    std::vector<std::vector<Candidate>> proposed(state.tensors.size());
    in_parallel(proposed.size(),
                [&](std::size_t t) { proposed[t] = candidates(state.observed[t], options_); });
    judge(sessions, proposed);
    for (std::size_t t = 0; t < proposed.size(); ++t) {
      state.ranges[state.tensors[t]] = choose(state.observed[t], proposed[t]);
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

  Sessions make_sessions(const std::vector<std::string>& tensors) {
    Sessions sessions;
    sessions.push_back(std::make_unique<TapSession>(engine_, model_, tensors, compile_, 1, TapOrder::kAny));
    batch_ = batch_for(tensors, *sessions.front());
    if (batch_ > 1) {
      sessions.clear();
    }
    while (sessions.size() < static_cast<std::size_t>(sessions_)) {
      sessions.push_back(
          std::make_unique<TapSession>(engine_, model_, tensors, compile_, static_cast<int>(batch_), TapOrder::kAny));
    }
    return sessions;
  }

  /// The batch asked for when the model takes it and gives each sample the same bits in it as alone; else 1.
  [[nodiscard]] std::size_t batch_for(const std::vector<std::string>& tensors, TapSession& alone) const {
    if (options_.batch == 1) {
      return 1;
    }
    if (!batched_shapes(model_.graph, compile_.input_shapes, options_.batch)) {
      host_.log.info("samples run one at a time: the model's leading dimensions are fixed");
      return 1;
    }
    TapSession together(engine_, model_, tensors, compile_, options_.batch, TapOrder::kAny);
    if (!together.divides() || !agree(alone, together)) {
      host_.log.info("samples run one at a time: a tensor is not the same in a batch");
      return 1;
    }
    return static_cast<std::size_t>(options_.batch);
  }

  /// Whether the first samples have the same bits in a batch as alone.
  [[nodiscard]] bool agree(TapSession& alone, TapSession& together) const {
    std::vector<data::Sample> samples;
    for (std::size_t i = 0; i < samples_.size() && samples.size() < static_cast<std::size_t>(options_.batch);
         ++i) {
      samples.push_back(dataset_.load(samples_[i]));
    }
    bool same = true;
    together.run(samples, [&](const TappedSample& in_batch) {
      alone.run({&samples[in_batch.place], 1}, [&](const TappedSample& single) {
        for (std::size_t t = 0; t < single.values.size(); ++t) {
          const std::span<const float> a = single.values[t];
          const std::span<const float> b = in_batch.values[t];
          same = same && a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
        }
      });
    });
    return same;
  }

  /// Samples that ranges are judged on and that no histogram counts: every fifth, or fewer of many, which
  /// changes the estimate of an error little and the time much. Of less than five samples all judge, and all
  /// are counted.
  void mark_judges() {
    constexpr std::size_t kMost = 64;
    const std::size_t count = samples_.size();
    const std::size_t stride = std::max(kStride, (count + kMost - 1) / kMost);
    std::vector<std::size_t> order(count);
    std::iota(order.begin(), order.end(), std::size_t{0});
    if (!options_.timestep_input.empty()) {
      order = places_by_timestep(dataset_, model_.graph, samples_, options_.timestep_input, host_);
    }
    judges_.assign(count, count < kStride);
    for (std::size_t i = stride - 1; i < count; i += stride) {
      judges_[order[i]] = true;
    }
  }
  [[nodiscard]] bool is_judge(std::size_t place) const { return judges_[place]; }
  [[nodiscard]] bool is_counted(std::size_t place) const {
    return samples_.size() < kStride || !judges_[place];
  }

  data::Prefetcher prefetch(const std::vector<std::size_t>& samples) const {
    const int workers = options_.workers > 0 ? options_.workers : data::default_workers();
    return {dataset_, samples, workers, host_.cancel};
  }

  /// Merges the samples that `state` lacks, a checkpoint after each chunk.
  void observe(Sessions& sessions, Checkpoint& state) const {
    const std::vector<std::string>& tensors = state.tensors;
    std::vector<std::vector<Histogram>> counted(sessions.size(), std::vector<Histogram>(tensors.size()));
    std::vector<std::vector<Extremes>> slots(kChunk, std::vector<Extremes>(tensors.size()));
    const auto merged = static_cast<std::ptrdiff_t>(state.merged);
    data::Prefetcher prefetcher = prefetch({samples_.begin() + merged, samples_.end()});
    host_.progress.begin("calibrating", static_cast<std::int64_t>(samples_.size()));
    host_.progress.advance(merged);
    for (std::size_t first = state.merged; first < samples_.size(); first += kChunk) {
      const std::size_t count = std::min(kChunk, samples_.size() - first);
      stream_samples(sessions, prefetcher, first, count, batch_, host_, [&](const StreamedSample& sample) {
        const bool count_values = needs_histogram() && is_counted(sample.number);
        for (std::size_t t = 0; t < tensors.size(); ++t) {
          const std::span<const float> values = sample.values[t];
          const Extremes extremes =
              count_values ? counted[sample.worker][t].add(values) : extremes_of(values);
          require_finite(extremes, values, tensors[t],
                         [&](std::size_t shown) { return sessions[sample.worker]->element(t, shown); });
          slots[sample.number - first][t] = extremes;
        }
      });
      for (std::size_t t = 0; t < tensors.size(); ++t) {
        for (std::size_t i = 0; i < count; ++i) {
          state.observed[t].merge(slots[i][t], options_.momentum);
        }
        for (std::vector<Histogram>& of_worker : counted) {
          state.observed[t].histogram.merge(of_worker[t]);
          of_worker[t].clear();
        }
      }
      state.merged = first + count;
      if (store_ != nullptr) {
        store_->put(state);
      }
    }
    host_.progress.end();
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
      stream_samples(sessions, prefetcher, first, count, batch_, host_, [&](const StreamedSample& sample) {
        auto& slot = slots[sample.number - first];
        slot.resize(proposed.size());
        for (std::size_t t = 0; t < proposed.size(); ++t) {
          slot[t].clear();
          for (const Candidate& candidate : proposed[t]) {
            slot[t].push_back(quantize_error(
                sample.values[t], numeric::affine_from_range(candidate.lo, candidate.hi, kJudgedCodes)));
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
  std::size_t batch_ = 1;
  std::vector<bool> judges_;  // by place in samples_
  const CalibrationStore* store_ = nullptr;
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

Calibration calibrate(const graph::Model& model, const std::vector<std::string>& tensors,
                      const data::Dataset& dataset, const std::vector<std::size_t>& samples,
                      const engine::Engine& engine, const CalibrateOptions& options, const Host& host) {
  check_options(tensors, dataset, samples, options);
  std::optional<CalibrationStore> store;
  if (!options.cache_dir.empty()) {
    store.emplace(options.cache_dir, calibration_key(model, tensors, dataset, samples, engine, options));
    if (std::optional<Calibration> known = store->finished()) {
      host.log.info("calibration found in the cache");
      return std::move(*known);
    }
  }
  Calibration calibration;
  calibration.samples = static_cast<std::int64_t>(samples.size());
  calibration.engine = fmt::format("{} {} {} f32", engine.attributes().name, engine.attributes().version,
                                   options.compile.device);
  calibration.ranges =
      Calibrator(model, dataset, samples, engine, options, host).run(tensors, store ? &*store : nullptr);
  if (store) {
    store->put(calibration);
  }
  return calibration;
}

}  // namespace tempera::compress
