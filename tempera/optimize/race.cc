#include "tempera/optimize/race.h"

#include <algorithm>
#include <iterator>
#include <list>
#include <utility>

#include <fmt/format.h>

#include "tempera/base/error.h"
#include "tempera/optimize/losses.h"
#include "tempera/optimize/reference.h"

namespace tempera::optimize {
namespace {

using engine::Precision;

constexpr double kHopeless = 1.5;      // times the fastest of a few rounds: noise of single runs stays below
constexpr double kSurelySlower = 1.1;  // times the original's latency in a few rounds

bool in_race(const Candidate& candidate) { return candidate.failure.empty() && candidate.dropped.empty(); }

}  // namespace

Race::Race(const OptimizeOptions& options, const Subject& subject, const engine::Engine& engine, const Host& host)
    : options_(options), subject_(subject), engine_(engine), host_(host) {}

engine::CompileOptions Race::compile_options(Precision precision) const {
  engine::CompileOptions compile = compile_options_for(subject_, precision, options_.device, options_.threads);
  compile.cache_dir = options_.cache_dir;
  return compile;
}

engine::CompileOptions Race::exact_options() const {
  engine::CompileOptions exact = compile_options(Precision::kFloat32);
  exact.exact = true;
  return exact;
}

std::unique_ptr<engine::Session> Race::compile_reference() const {
  return reopen_reference(subject_, engine_, exact_options(), engine_is_wrong_);
}

Candidate Race::compiled(bool rewritten, Precision precision, std::shared_ptr<const graph::Model> model) {
  Candidate candidate;
  candidate.name = fmt::format("{} {}", rewritten ? "rewritten" : "original", engine::to_string(precision));
  candidate.model = std::move(model);
  candidate.rewritten = rewritten;
  candidate.options = compile_options(precision);
  host_.progress.begin("compiling " + candidate.name, 0);
  prepare(candidate, engine_, subject_, samples());
  if (!candidate.failure.empty() && options_.strict) {
    throw Error(ErrorCode::kEngineFailed, fmt::format("{} does not run: {}", candidate.name, candidate.failure));
  }
  return candidate;
}

void Race::time_roughly(Candidate& candidate) {
  if (!candidate.failure.empty()) {
    return;
  }
  time_against(original(), candidate, subject_, samples(), rough_timing(), host_);
  if (!engine_is_wrong_ && candidate.timing.speedup.median * kSurelySlower < 1.0) {
    candidate.dropped = fmt::format("{:.1f} times the original's latency in {} rounds", 1.0 / candidate.timing.speedup.median,
                                    candidate.timing.speedup.pairs);
  }
}

std::vector<Candidate*> Race::running() {
  std::vector<Candidate*> running;
  for (Candidate& candidate : candidates_) {
    if (in_race(candidate)) {
      running.push_back(&candidate);
    }
  }
  return running;
}

std::optional<std::size_t> Race::fastest_rewritten() const {
  std::optional<std::size_t> best;
  for (std::size_t i = 1; i < candidates_.size(); ++i) {
    const Candidate& candidate = candidates_[i];
    if (candidate.rewritten && in_race(candidate) && candidate.verdict.within &&
        (!best.has_value() || latency_of(candidate) < latency_of(candidates_[*best]))) {
      best = i;
    }
  }
  return best;
}

std::vector<std::vector<Candidate*>> Race::bases_of_search() {
  std::vector<std::vector<Candidate*>> bases = {in_precision(chosen().options.precision)};
  if (chosen().options.precision != Precision::kFloat32) {
    bases.push_back(in_precision(Precision::kFloat32));
  }
  return bases;
}

// Fastest first: when the time is short, the others are not tried.
std::vector<Candidate*> Race::in_precision(Precision precision) {
  std::vector<Candidate*> found = running();
  std::erase_if(found, [&](const Candidate* candidate) {
    return candidate->options.precision != precision || !candidate->verdict.within;
  });
  std::stable_sort(found.begin(), found.end(),
                   [this](const Candidate* a, const Candidate* b) { return latency_of(*a) < latency_of(*b); });
  return found;
}

void Race::judge(Candidate& candidate, engine::Session& reference, const std::vector<std::size_t>& part) const {
  const Opened open(candidate, engine_);
  candidate.losses = measure_losses(subject_, reference, {{candidate.name, candidate.session.get()}}, part, host_).front();
  candidate.verdict = quality::judge(options_.budget, candidate.losses);
}

void Race::measure_all() {
  const std::vector<Candidate*> all = running();
  {
    const auto reference = compile_reference();
    for (Candidate* candidate : all) {
      judge(*candidate, *reference, subject_.split.search);
    }
  }
  time_in_turns(original(), worth_timing(all), engine_, subject_, samples(), timing_options(0.4), host_);
  chosen_ = choose(candidates_);
}

// Beside the original: those within the budget and not far behind the fastest of them by the rough times; the others
// keep those.
std::vector<Candidate*> Race::worth_timing(const std::vector<Candidate*>& running) const {
  double best = latency_of(*running.front());
  for (const Candidate* candidate : running) {
    if (candidate->verdict.within) {
      best = std::min(best, latency_of(*candidate));
    }
  }
  std::vector<Candidate*> kept;
  std::copy_if(running.begin() + 1, running.end(), std::back_inserter(kept), [&](const Candidate* candidate) {
    return candidate->verdict.within && latency_of(*candidate) < kHopeless * best;
  });
  return kept;
}

void Race::measure_again(std::size_t which) {
  judge(candidates_[which], *compile_reference(), subject_.split.search);
  std::vector<Candidate*> timed = {&candidates_[which]};
  if (chosen_ != 0 && chosen_ != which) {
    timed.push_back(&chosen());
  }
  time_in_turns(original(), timed, engine_, subject_, samples(), timing_options(0.2), host_);
  chosen_ = choose(candidates_);
}

// All are open at once: next to the original the quantised ones weigh little, and its runs, the longest, then count for all
// of them.
void Race::choose_among(std::vector<Candidate> found) {
  if (found.empty()) {
    return;
  }
  const std::size_t first = candidates_.size();
  std::move(found.begin(), found.end(), std::back_inserter(candidates_));
  std::vector<Candidate*> timed = {&original()};
  if (chosen_ != 0) {
    timed.push_back(&chosen());
  }
  for (std::size_t i = first; i < candidates_.size(); ++i) {
    timed.push_back(&candidates_[i]);
  }
  std::list<Opened> open;
  for (Candidate* candidate : timed) {
    open.emplace_back(*candidate, engine_);
  }
  time_candidates(timed, subject_, samples(), timing_options(0.4), host_);
  chosen_ = choose(candidates_);
}

void Race::drop_chosen(std::string why) {
  chosen().dropped = std::move(why);
  chosen_ = choose(candidates_);
}

const std::vector<data::Sample>& Race::samples() {
  if (samples_.empty()) {
    samples_ = load_samples(subject_, subject_.split.search, kTimedSamples);
  }
  return samples_;
}

engine::TimingOptions Race::timing_options(double share) const {
  engine::TimingOptions timing;
  timing.pairs = options_.pairs;
  timing.max_seconds = std::min(options_.max_seconds, options_.total_seconds / 3.0) * share;
  return timing;
}

engine::TimingOptions Race::rough_timing() const {
  engine::TimingOptions rough = timing_options(0.02);
  rough.pairs = std::min<std::int64_t>(rough.pairs, 5);
  rough.warmup = 1;
  return rough;
}

}  // namespace tempera::optimize
