#include "tempera/optimize/reverting.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace tempera::optimize {
namespace {

// Replaces `kept` by the model without `skipped`, the last of which is `pass`, when that is faster.
bool revert(Candidate& kept, report::PassRecord& pass, const std::vector<std::string>& skipped,
            const engine::TimingOptions& timing, const PassTrial& trial, const Host& host) {
  Candidate without;
  without.name = "without " + pass.name;
  Rewritten other = trial.rewrite(skipped);
  without.model = other.model;
  without.options = kept.options;
  without.rewritten = other.changed;
  host.progress.begin("timing the model " + without.name, 0);
  prepare(without, trial.engine, trial.subject, trial.samples);
  if (without.session == nullptr) {
    return false;
  }
  time_against(kept, without, trial.subject, trial.samples, timing, host);
  pass.effect = 1.0 / without.timing.speedup.median;
  if (!without.timing.speedup.faster()) {
    return false;
  }
  pass.reverted = fmt::format("the model is {:.3f} times as fast without it", without.timing.speedup.median);
  kept.model = without.model;
  kept.session = std::move(without.session);
  kept.rewritten = without.rewritten;
  kept.weight_bytes = without.weight_bytes;
  return true;
}

}  // namespace

bool revert_passes(Candidate& kept, std::vector<report::PassRecord>& passes, std::vector<std::string> skipped,
                   const PassTrial& trial, const Host& host) {
  const auto fired = std::count_if(passes.begin(), passes.end(),
                                   [](const report::PassRecord& pass) { return !pass.rewrites.empty(); });
  engine::TimingOptions timing = trial.timing;
  timing.max_seconds /= static_cast<double>(std::max<std::ptrdiff_t>(fired, 1));
  timing.stop_when_slower = true;
  bool any = false;
  for (report::PassRecord& pass : passes) {
    if (pass.rewrites.empty()) {
      continue;
    }
    skipped.push_back(pass.name);
    if (revert(kept, pass, skipped, timing, trial, host)) {
      any = true;
    } else {
      skipped.pop_back();
    }
  }
  return any;
}

}  // namespace tempera::optimize
