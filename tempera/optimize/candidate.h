#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tempera/engine/engine.h"
#include "tempera/engine/measure/latency.h"
#include "tempera/graph/model.h"
#include "tempera/optimize/subject.h"
#include "tempera/quality/loss_budget.h"

namespace tempera::optimize {

/// A model with the settings it would ship under, and what was measured of it so far.
struct Candidate {
  std::string name;  ///< "original f32", "rewritten bf16"
  std::shared_ptr<const graph::Model> model;
  engine::CompileOptions options;
  bool rewritten = false;        ///< differs from the original file
  std::vector<std::string> history;  ///< of the shipped one: the steps that its file tells (history.h)
  std::int64_t weight_bytes = 0; ///< of all initialisers, as stored
  std::unique_ptr<engine::Session> session;  ///< while it is open; a compiled model holds weights of its own
  double load_ms = 0.0;  ///< to compile and run once
  std::string failure;   ///< why it cannot run; empty: it ran
  std::string dropped;   ///< why it left the race before everything of it was measured
  engine::Timing timing;
  std::vector<quality::OutputLoss> losses;
  quality::LossVerdict verdict;
};

/// Compiles the candidate and runs it once on the first sample. What fails is noted in `failure`, except
/// cancelling and a fault of ours.
void prepare(Candidate& candidate, const engine::Engine& engine, const Subject& subject,
             const std::vector<data::Sample>& samples);

/// Gives up the session, if any, and returns its memory to the system.
void close(Candidate& candidate);

/// Keeps a candidate that ran before open: compiles it unless it is open already, and closes it at the end if it did.
class Opened {
 public:
  Opened(Candidate& candidate, const engine::Engine& engine);
  ~Opened();
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;

 private:
  Candidate* ours_ = nullptr;
};

/// What models of the subject are compiled with: its shapes, and its recipe's properties.
/// \param threads  0: the recipe's
[[nodiscard]] engine::CompileOptions compile_options_for(const Subject& subject, engine::Precision precision,
                                                         const std::string& device, int threads);

/// The recipe of a model that runs in this engine with these options.
[[nodiscard]] data::Recipe deploy_recipe(data::Recipe recipe, const std::string& engine, const engine::CompileOptions& options);

/// The first `most` samples of a part as input sets for the session's ports. \param part  indices, not empty
[[nodiscard]] std::vector<data::Sample> load_samples(const Subject& subject,
                                                     const std::vector<std::size_t>& part, std::size_t most);
[[nodiscard]] std::vector<std::vector<graph::Tensor>> input_sets(const Subject& subject,
                                                                 const std::vector<data::Sample>& samples,
                                                                 const engine::Session& session);

/// Input sets that timing cycles through: more than one, and all in memory.
inline constexpr std::size_t kTimedSamples = 4;

/// Times all candidates that are open, interleaved, and fills in their `timing` against the first.
void time_candidates(const std::vector<Candidate*>& candidates, const Subject& subject,
                     const std::vector<data::Sample>& samples, const engine::TimingOptions& options,
                     const Host& host);

/// Times `contender` against `baseline` and fills in the contender's timing alone.
void time_against(Candidate& baseline, Candidate& contender, const Subject& subject,
                  const std::vector<data::Sample>& samples, const engine::TimingOptions& options,
                  const Host& host);

/// Times each contender beside the baseline, one after another, so that no more than two are open at a time unless they
/// were before; fills in the timing of all, the baseline's from the first pair. All share the seconds.
void time_in_turns(Candidate& baseline, const std::vector<Candidate*>& contenders, const engine::Engine& engine,
                   const Subject& subject, const std::vector<data::Sample>& samples, engine::TimingOptions options,
                   const Host& host);

/// Latency as it would have been when the baseline was timed: candidates were timed beside it in different minutes, when
/// the machine was faster or slower, so only their speed-ups over it compare.
[[nodiscard]] double comparable_ms(const Candidate& candidate, const Candidate& baseline);

/// The candidate to keep among those that run, were measured in full, are within the budget and are faster than the first
/// beyond chance: the fastest by its speed-up over the first; of those within 3 % of it, the one with the least bytes of
/// weights. The first when there is none. When the first is itself over the budget (its engine computes it wrongly),
/// being faster is not asked for.
[[nodiscard]] std::size_t choose(const std::vector<Candidate>& candidates);

}  // namespace tempera::optimize
