#include "tempera/optimize/fill_report.h"

#include <algorithm>
#include <chrono>
#include <map>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tempera/base/hash.h"
#include "tempera/engine/measure/cpu.h"
#include "tempera/optimize/node_times.h"
#include "tempera/quality/metrics.h"

namespace tempera::optimize {
namespace {

namespace fs = std::filesystem;

std::string shapes_text(const std::map<std::string, graph::Dims>& shapes) {
  std::vector<std::string> parts;
  for (const auto& [name, dims] : shapes) {
    parts.push_back(fmt::format("{}{}", name, graph::to_string(std::span<const std::int64_t>(dims))));
  }
  return parts.empty() ? "as the model says" : fmt::format("{}", fmt::join(parts, " "));
}

std::string threads_text(int threads) { return threads > 0 ? std::to_string(threads) : "one for each core"; }

// File size of a model as a user counts it: with its weights, wherever they lie.
std::int64_t bytes_with_weights(const fs::path& path, std::int64_t weight_bytes) {
  return std::max(static_cast<std::int64_t>(fs::file_size(path)), weight_bytes);
}

report::Latency latency_of(const engine::LatencyStats& stats) {
  return {stats.min_ms, stats.median_ms, stats.p95_ms, stats.p99_ms, stats.runs};
}

report::Speedup speedup_of(const engine::PairedSpeedup& speedup) {
  return {speedup.median, speedup.lower95, speedup.noise, speedup.pairs, speedup.faster()};
}

// The measure that decides for an output: its own metric where a truth exists, else the distance from the
// original.
report::Loss loss_of(const quality::OutputLoss& loss, const data::Recipe& recipe,
                     const quality::LossBudget& budget, bool within) {
  report::Loss record;
  record.output = loss.output;
  record.worst_sample = loss.worst_sample;
  record.worst = loss.worst_relative_l2;
  record.within = within;
  record.limit = budget.limit;
  if (!loss.metric.empty()) {
    record.metric = loss.metric;
    record.unit = quality::find_metric(loss.metric).unit;
    if (record.unit == "same") {
      record.unit = recipe.output(loss.output)->unit;
    }
    record.value = loss.metric_after;
    record.baseline = loss.metric_before;
  } else {
    record.metric = "relative_l2";
    record.value = loss.relative_l2;
  }
  return record;
}

// Of the candidates measured on the search part.
std::string verdict_text(const Candidate& candidate, bool baseline, bool chosen) {
  if (baseline) {
    return chosen ? "nothing was faster beyond chance within the budget" : "the reference";
  }
  if (!candidate.failure.empty()) {
    return "does not run: " + candidate.failure;
  }
  if (!candidate.dropped.empty()) {
    return candidate.dropped;
  }
  if (chosen) {
    return "the fastest within the budget";
  }
  if (!candidate.verdict.within) {
    return "over the loss budget: " + candidate.verdict.text;
  }
  if (candidate.timing.speedup.faster()) {
    return "within the budget, but not the fastest";
  }
  return candidate.timing.speedup.pairs < engine::kFewestPairsOfALargeGain
             ? fmt::format("far behind the fastest in {} rounds", candidate.timing.speedup.pairs)
             : "not faster beyond chance";
}

report::Candidate record_of(const Candidate& candidate, const OptimizeOptions& options,
                            const data::Recipe& recipe, std::string verdict, std::int64_t file_bytes) {
  report::Candidate record;
  record.name = candidate.name;
  record.engine = options.engine;
  record.precision = engine::to_string(candidate.options.precision);
  record.threads = candidate.options.threads;
  record.rewritten = candidate.rewritten;
  record.file_bytes = file_bytes;
  record.load_ms = candidate.load_ms;
  record.latency = latency_of(candidate.timing.latency);
  record.speedup = speedup_of(candidate.timing.speedup);
  for (const quality::OutputLoss& loss : candidate.losses) {
    record.losses.push_back(loss_of(loss, recipe, options.budget, candidate.verdict.within));
  }
  record.verdict = std::move(verdict);
  return record;
}

std::vector<report::NodeRecord> node_records(const std::vector<engine::NodeTime>& before,
                                             const std::vector<engine::NodeTime>& after) {
  std::map<std::string, report::NodeRecord> merged;
  for (const engine::NodeTime& time : before) {
    report::NodeRecord& record = merged[time.node];
    record.node = time.node;
    record.op_type = time.op_type;
    record.kernel = time.kernel;
    record.before_us = record.before_us.value_or(0.0) + time.time_us;
  }
  for (const engine::NodeTime& time : after) {
    report::NodeRecord& record = merged[time.node];
    record.node = time.node;
    record.op_type = time.op_type;
    record.kernel = record.kernel.empty() || record.kernel == time.kernel
                        ? time.kernel
                        : record.kernel + " -> " + time.kernel;
    record.after_us = record.after_us.value_or(0.0) + time.time_us;
  }
  std::vector<report::NodeRecord> records;
  for (auto& [name, record] : merged) {
    if (std::max(record.before_us.value_or(0.0), record.after_us.value_or(0.0)) >= 1.0) {
      records.push_back(std::move(record));
    }
  }
  std::sort(records.begin(), records.end(), [](const report::NodeRecord& a, const report::NodeRecord& b) {
    return std::max(a.before_us.value_or(0.0), a.after_us.value_or(0.0)) >
           std::max(b.before_us.value_or(0.0), b.after_us.value_or(0.0));
  });
  return records;
}

std::string summary_of(const report::Report& report, const Candidate& chosen, const Candidate& shipped) {
  const report::Candidate& before = report.candidates.front();
  const report::Candidate& after = report.candidates.back();
  if (!report.changed) {
    return fmt::format(
        "The original stays: nothing was faster beyond chance within the loss budget ({:.2f} ms a run).",
        before.latency.median_ms);
  }
  return fmt::format(
      "{:.2f} times faster ({:.2f} ms a run instead of {:.2f}; at least {:.2f} times at 95 % confidence) as "
      "{}: {}.",
      after.speedup.median, after.latency.median_ms, after.latency.median_ms * after.speedup.median,
      after.speedup.lower95, chosen.name, shipped.verdict.text);
}

}  // namespace

report::Fingerprint fingerprint(const fs::path& path) {
  return {path.string(), to_hex(sha256_of_file(path)), static_cast<std::int64_t>(fs::file_size(path))};
}

std::string now_utc() {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::chrono::system_clock::now()));
}

void hash_settings(report::Report& report) {
  std::string all;
  for (const auto& [key, value] : report.settings) {
    all += key + "=" + value + "\n";
  }
  report.settings_sha256 = to_hex(sha256(all));
}

void fill_header(report::Report& report, const OptimizeOptions& options, const Subject& subject) {
  report.command = options.command;
  report.created = now_utc();
  report.versions = options.versions;
  const engine::CpuInfo cpu = engine::cpu_info();
  report.machine = {{"cpu", cpu.model},
                    {"features", fmt::format("{}", fmt::join(cpu.features, " "))},
                    {"cores", std::to_string(cpu.cores)},
                    {"memory", report::human_bytes(cpu.memory_bytes)}};
  report.model = fingerprint(options.subject.model);
  if (!options.subject.data.empty()) {
    std::vector<std::string> paths;
    for (const fs::path& path : options.subject.data) {
      paths.push_back(path.string());
    }
    report.data = {fmt::format("{}", fmt::join(paths, " ")), to_hex(subject.dataset->hash()), 0};
  }
  report.settings = {
      {"engine", options.engine},
      {"device", options.device},
      {"precision", options.precision ? std::string(engine::to_string(*options.precision)) : "all"},
      {"threads", threads_text(options.threads)},
      {"max loss", options.budget.to_string()},
      {"seed", std::to_string(options.subject.seed)},
      {"pairs", std::to_string(options.pairs)},
      {"skipped passes", fmt::format("{}", fmt::join(options.skip_passes, " "))},
      {"shapes", shapes_text(subject.input_shapes)}};
  hash_settings(report);
  fill_samples(report, subject.split);
}

void fill_samples(report::Report& report, const data::Split& split) {
  report.samples = {{"calibrate", static_cast<std::int64_t>(split.calibrate.size())},
                    {"search", static_cast<std::int64_t>(split.search.size())},
                    {"verify", static_cast<std::int64_t>(split.verify.size())}};
}

void fill_results(report::Report& report, const OptimizeOptions& options, const Subject& subject,
                  const engine::Engine& engine, const std::vector<Candidate>& candidates, std::size_t chosen,
                  const Candidate& shipped, const fs::path& written, const Host& host) {
  report.history = shipped.history;
  report.candidates.clear();
  const std::int64_t before_bytes = bytes_with_weights(options.subject.model, candidates.front().weight_bytes);
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const std::int64_t bytes =
        candidates[i].rewritten ? candidates[i].weight_bytes : before_bytes;
    report.candidates.push_back(record_of(candidates[i], options, subject.recipe,
                                          verdict_text(candidates[i], i == 0, i == chosen), bytes));
  }
  report.candidates.push_back(record_of(shipped, options, subject.recipe, "verified: " + shipped.verdict.text,
                                        bytes_with_weights(written, shipped.weight_bytes)));
  report.candidates.back().chosen = true;
  if (options.probe_memory) {
    host.progress.begin("measuring memory", 0);
    report.candidates.front().peak_memory_bytes =
        options.probe_memory(options.subject.model, candidates.front().options);
    report.candidates.back().peak_memory_bytes = options.probe_memory(written, shipped.options);
  }
  host.progress.begin("profiling", 0);
  // The same precision on both sides, so that a node's times differ by what the rewrites did to it.
  const auto same_precision = std::find_if(candidates.begin(), candidates.end(), [&](const Candidate& c) {
    return !c.rewritten && c.failure.empty() &&
           c.options.precision == candidates[chosen].options.precision;
  });
  const Candidate& before = same_precision == candidates.end() ? candidates.front() : *same_precision;
  const std::vector<engine::NodeTime> before_times = node_times(engine, subject, before);
  report.nodes = node_records(before_times,
                              chosen == 0 ? before_times : node_times(engine, subject, candidates[chosen]));
  report.output = fingerprint(written);
  report.output.path = (options.out / "model.onnx").string();
  report.changed = chosen != 0;
  report.verified = !subject.random_data && subject.split.sufficient;
  if (subject.random_data && options.subject.random_data) {
    report.notes.emplace_back("UNVERIFIED: losses were measured on made-up data");
  }
  const Candidate& kept = candidates[chosen];
  report.deploy = {{"engine", options.engine},
                   {"precision", std::string(engine::to_string(kept.options.precision))},
                   {"threads", threads_text(kept.options.threads)},
                   {"shapes", shapes_text(kept.options.input_shapes)}};
  if (options.engine == "openvino") {
    report.deploy["openvino properties"] = fmt::format("INFERENCE_PRECISION_HINT={} PERFORMANCE_HINT=LATENCY",
                                                       engine::to_string(kept.options.precision));
  }
  report.summary = summary_of(report, kept, shipped);
  host.progress.end();
}

}  // namespace tempera::optimize
