#include "tempera/optimize/candidate.h"

#include <algorithm>
#include <chrono>

#include "tempera/base/error.h"
#include "tempera/engine/measure/memory.h"

namespace tempera::optimize {
namespace {

using Clock = std::chrono::steady_clock;

std::vector<std::string> input_names(const engine::Session& session) {
  std::vector<std::string> names;
  for (const engine::Port& port : session.inputs()) {
    names.push_back(port.name);
  }
  return names;
}

}  // namespace

std::vector<data::Sample> load_samples(const Subject& subject, const std::vector<std::size_t>& part,
                                       std::size_t most) {
  std::vector<data::Sample> samples;
  for (std::size_t i = 0; i < part.size() && i < most; ++i) {
    samples.push_back(subject.dataset->load(part[i]));
  }
  return samples;
}

std::vector<std::vector<graph::Tensor>> input_sets(const Subject& subject,
                                                   const std::vector<data::Sample>& samples,
                                                   const engine::Session& session) {
  std::vector<std::vector<graph::Tensor>> sets;
  for (const data::Sample& sample : samples) {
    sets.push_back(arrange_inputs(sample, subject.model.graph, input_names(session)));
  }
  return sets;
}

engine::CompileOptions compile_options_for(const Subject& subject, engine::Precision precision, const std::string& device,
                                           int threads) {
  engine::CompileOptions compile;
  compile.device = device;
  compile.precision = precision;
  compile.threads = threads > 0 ? threads : subject.recipe.deploy.threads;
  compile.input_shapes = subject.input_shapes;
  compile.properties = subject.recipe.deploy.properties;
  return compile;
}

data::Recipe deploy_recipe(data::Recipe recipe, const std::string& engine, const engine::CompileOptions& options) {
  recipe.deploy.engine = engine;
  recipe.deploy.device = options.device;
  recipe.deploy.precision = std::string(engine::to_string(options.precision));
  recipe.deploy.threads = options.threads;
  return recipe;
}

void prepare(Candidate& candidate, const engine::Engine& engine, const Subject& subject,
             const std::vector<data::Sample>& samples) {
  const Clock::time_point start = Clock::now();
  candidate.weight_bytes = graph::weight_size(candidate.model->graph).bytes;
  try {
    candidate.session = engine.compile(*candidate.model, candidate.options);
    (void)candidate.session->run(input_sets(subject, {samples.at(0)}, *candidate.session).at(0));
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kCancelled || error.code() == ErrorCode::kInternal) {
      throw;
    }
    candidate.session.reset();
    candidate.failure = error.what();
  }
  engine::release_freed_memory();  // compiling takes more than the session keeps
  candidate.load_ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

void close(Candidate& candidate) {
  candidate.session.reset();
  engine::release_freed_memory();
}

Opened::Opened(Candidate& candidate, const engine::Engine& engine) {
  if (candidate.session == nullptr) {
    candidate.session = engine.compile(*candidate.model, candidate.options);
    engine::release_freed_memory();
    ours_ = &candidate;
  }
}

Opened::~Opened() {
  if (ours_ != nullptr) {
    close(*ours_);
  }
}

void time_candidates(const std::vector<Candidate*>& candidates, const Subject& subject,
                     const std::vector<data::Sample>& samples, const engine::TimingOptions& options,
                     const Host& host) {
  std::vector<Candidate*> running;
  std::copy_if(candidates.begin(), candidates.end(), std::back_inserter(running),
               [](const Candidate* candidate) { return candidate->session != nullptr; });
  std::vector<std::vector<std::vector<graph::Tensor>>> sets;
  std::vector<engine::Timed> timed;
  for (const Candidate* candidate : running) {
    sets.push_back(input_sets(subject, samples, *candidate->session));
  }
  for (std::size_t i = 0; i < running.size(); ++i) {
    timed.push_back({running[i]->session.get(), sets[i]});
  }
  const std::vector<engine::Timing> timings = engine::time_interleaved(timed, options, host);
  for (std::size_t i = 0; i < running.size(); ++i) {
    running[i]->timing = timings[i];
  }
}

void time_against(Candidate& baseline, Candidate& contender, const Subject& subject,
                  const std::vector<data::Sample>& samples, const engine::TimingOptions& options,
                  const Host& host) {
  const engine::Timing kept = baseline.timing;
  time_candidates({&baseline, &contender}, subject, samples, options, host);
  baseline.timing = kept;
}

void time_in_turns(Candidate& baseline, const std::vector<Candidate*>& contenders, const engine::Engine& engine,
                   const Subject& subject, const std::vector<data::Sample>& samples, engine::TimingOptions options,
                   const Host& host) {
  const Opened open_baseline(baseline, engine);
  if (contenders.empty()) {
    time_candidates({&baseline}, subject, samples, options, host);
    return;
  }
  options.max_seconds /= static_cast<double>(contenders.size());
  for (Candidate* contender : contenders) {
    const Opened open(*contender, engine);
    if (contender == contenders.front()) {
      time_candidates({&baseline, contender}, subject, samples, options, host);
    } else {
      time_against(baseline, *contender, subject, samples, options, host);
    }
  }
}

double comparable_ms(const Candidate& candidate, const Candidate& baseline) {
  const double baseline_ms = baseline.timing.latency.median_ms;
  return &candidate == &baseline ? baseline_ms : baseline_ms / candidate.timing.speedup.median;
}

std::size_t choose(const std::vector<Candidate>& candidates) {
  constexpr double kAsFast = 0.97;
  // An original that its engine computes wrongly is replaced by anything right, however fast.
  const bool wrong = !candidates.front().verdict.within;
  const auto eligible = [&](const Candidate& c) {
    return c.failure.empty() && c.dropped.empty() && c.verdict.within && (wrong || c.timing.speedup.faster());
  };
  double fastest = 0.0;
  for (std::size_t i = 1; i < candidates.size(); ++i) {
    if (eligible(candidates[i])) {
      fastest = std::max(fastest, candidates[i].timing.speedup.median);
    }
  }
  std::size_t best = 0;
  for (std::size_t i = 1; i < candidates.size(); ++i) {
    const Candidate& c = candidates[i];
    if (!eligible(c) || c.timing.speedup.median < kAsFast * fastest) {
      continue;
    }
    const Candidate& b = candidates[best];
    const bool smaller = c.weight_bytes < b.weight_bytes;
    const bool faster = c.weight_bytes == b.weight_bytes && c.timing.speedup.median > b.timing.speedup.median;
    if (best == 0 || smaller || faster) {
      best = i;
    }
  }
  return best;
}

}  // namespace tempera::optimize
