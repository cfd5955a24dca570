#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tempera/base/host.h"
#include "tempera/engine/engine.h"
#include "tempera/engine/measure/latency.h"
#include "tempera/graph/model.h"
#include "tempera/optimize/candidate.h"
#include "tempera/optimize/optimize.h"
#include "tempera/optimize/subject.h"

namespace tempera::optimize {

/// The candidates of one run of optimize(), the original first, and what its steps ask about them: who runs, how much each
/// loses, how fast each is beside the original, who is ahead. A model is compiled only for as long as it is asked, with few
/// others: it holds its own copy of the weights.
class Race {
 public:
  /// All must outlive it. The parts of the subject's data may still be thinned out.
  Race(const OptimizeOptions& options, const Subject& subject, const engine::Engine& engine, const Host& host);

  // -- what models are compiled with -----------------------------------------------------------------------------------

  [[nodiscard]] engine::CompileOptions compile_options(engine::Precision precision) const;
  [[nodiscard]] engine::CompileOptions exact_options() const;  ///< of the reference
  /// What losses are measured against, opened once more. \see reference.h
  [[nodiscard]] std::unique_ptr<engine::Session> compile_reference() const;
  /// About the original at f32: anything right may then replace it, however slow.
  void set_engine_is_wrong(bool wrong) { engine_is_wrong_ = wrong; }

  // -- candidates ------------------------------------------------------------------------------------------------------

  [[nodiscard]] std::vector<Candidate>& candidates() { return candidates_; }
  [[nodiscard]] Candidate& original() { return candidates_.front(); }
  [[nodiscard]] Candidate& chosen() { return candidates_[chosen_]; }
  [[nodiscard]] std::size_t chosen_index() const { return chosen_; }

  /// Compiled, open and run once; not in the race yet. What does not run says so in `failure`.
  /// \throws Error{kEngineFailed} for that when the options are strict
  [[nodiscard]] Candidate compiled(bool rewritten, engine::Precision precision, std::shared_ptr<const graph::Model> model);
  /// A few rounds beside the original, which is open: what is clearly slower drops out before its quality is measured, which
  /// may take far longer.
  void time_roughly(Candidate& candidate);
  void add(Candidate candidate) { candidates_.push_back(std::move(candidate)); }

  /// The original, and what runs and was not dropped.
  [[nodiscard]] std::vector<Candidate*> running();
  [[nodiscard]] std::optional<std::size_t> fastest_rewritten() const;
  /// Where to look for number formats: the fastest float candidate and the others in its precision, fastest first; then, for
  /// when rounding in that precision leaves no room in the budget, those in f32.
  [[nodiscard]] std::vector<std::vector<Candidate*>> bases_of_search();

  // -- measuring -------------------------------------------------------------------------------------------------------

  /// Losses on a part of the data, and what the budget says of them. \param reference  compile_reference()
  void judge(Candidate& candidate, engine::Session& reference, const std::vector<std::size_t>& part) const;
  /// Quality of all that run on the search part; then latency in full of those that could still win, and the choice.
  void measure_all();
  /// Quality and latency of a candidate whose model changed, and the choice anew.
  void measure_again(std::size_t which);
  /// Takes new ones in, times them in full beside the original and the best so far, and chooses anew.
  void choose_among(std::vector<Candidate> found);
  /// The chosen one is out: the choice anew.
  void drop_chosen(std::string why);

  /// Latency as it would have been when the original was timed.
  [[nodiscard]] double latency_of(const Candidate& candidate) const { return comparable_ms(candidate, candidates_.front()); }
  /// Those of the search part that timing cycles through.
  [[nodiscard]] const std::vector<data::Sample>& samples();
  /// \param share  of the time for measuring
  [[nodiscard]] engine::TimingOptions timing_options(double share) const;
  [[nodiscard]] engine::TimingOptions rough_timing() const;

 private:
  [[nodiscard]] std::vector<Candidate*> worth_timing(const std::vector<Candidate*>& running) const;
  [[nodiscard]] std::vector<Candidate*> in_precision(engine::Precision precision);

  const OptimizeOptions& options_;
  const Subject& subject_;
  const engine::Engine& engine_;
  const Host& host_;
  std::vector<Candidate> candidates_;
  std::vector<data::Sample> samples_;
  bool engine_is_wrong_ = false;
  std::size_t chosen_ = 0;
};

}  // namespace tempera::optimize
