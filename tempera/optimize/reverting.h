#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tempera/engine/measure/latency.h"
#include "tempera/optimize/candidate.h"
#include "tempera/optimize/rewrite.h"
#include "tempera/optimize/subject.h"
#include "tempera/report/report.h"

namespace tempera::optimize {

/// What a model without a pass is made and timed with.
struct PassTrial {
  const Subject& subject;
  const engine::Engine& engine;
  const std::vector<data::Sample>& samples;
  engine::TimingOptions timing;  ///< max_seconds is for all passes together
  std::function<Rewritten(const std::vector<std::string>& skipped)> rewrite;
};

/// Leaves out, one after another, each pass without which the model is faster beyond chance, and notes for every pass that
/// fired how much it helps.
///
/// \param kept     rewritten by all of `passes`, with a session; takes the model that stays
/// \param skipped  passes left out already
/// \return whether one was left out
bool revert_passes(Candidate& kept, std::vector<report::PassRecord>& passes, std::vector<std::string> skipped,
                   const PassTrial& trial, const Host& host);

}  // namespace tempera::optimize
