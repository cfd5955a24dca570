#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "tempera/compress/calibrate/calibrate.h"
#include "tempera/compress/quantize/quantize.h"
#include "tempera/optimize/answers.h"
#include "tempera/optimize/best_so_far.h"
#include "tempera/optimize/candidate.h"
#include "tempera/optimize/losses.h"
#include "tempera/quality/loss_budget.h"
#include "tempera/report/report.h"

namespace tempera::optimize {

struct FormatSearchOptions {
  quality::LossBudget budget;
  compress::QuantizeOptions quantize;
  compress::CalibrateOptions calibrate;
  const Candidate* original = nullptr;  ///< what the speed-ups of the bases are over
  std::int64_t pairs = 30;              ///< of interleaved timing to call something faster
  double max_seconds = 300.0;           ///< the search stops asking questions after this and keeps what it has
  BestSoFar* best = nullptr;            ///< mixes within the budget are offered to it; null: not
  Answers* answers = nullptr;           ///< losses are looked up and kept here; null: not
};

/// On samples of the search part: enough to rank layers, fewer where the time is short.
///
/// \param run_seconds  what one run of the original takes
/// \param max_seconds  for the whole search
[[nodiscard]] std::unique_ptr<const LossMeter> meter_of_search(engine::Session& reference, const Subject& subject,
                                                               double run_seconds, double max_seconds, const Host& host);

/// What the search found.
struct FormatSearchResult {
  std::vector<Candidate> candidates;  ///< within the budget, most promising first; not yet timed against the original
  std::vector<report::Trial> trials;  ///< every mix that was measured
  std::vector<report::LayerRecord> layers;  ///< of the first candidate, or of the best mix when none is within the budget
  std::vector<std::string> notes;
};

/// Looks for the mix of int8 and float layers that is fastest within the loss budget. Starts from the float candidate
/// that is fastest with int8 wherever it can be, since a rewrite that helps in float may stand in the way of int8:
///
///   1. calibrate on the calibration part;
///   2. every layer in int8 that the target computes in int8; then activations without zero points, then Concats that join
///      codes, each kept where the model is faster so and within the budget if it was;
///   3. for each kind of layer (operator, kernel size, depthwise or not): back to float where the model is faster so,
///      timed in place; then all but the kind that does most of the work;
///   4. while the loss is over the budget: refinements (compress/quantize/refine.h), then layers back to float, the most
///      sensitive first. Sensitivity is the measured loss of the output with one layer changed alone; the errors of
///      layers are taken to add as squares, and every mix that comes out is measured;
///   5. the weights of layers left in float stored in int8 where that costs neither time nor loss: a smaller file.
///
/// Losses are those of the worst output on samples of the search part, against the reference.
///
/// \param bases  float candidates to start from; each is open for as long as it is asked
/// \param meter  meter_of_search()
/// \throws Error{kCancelled} and what calibrating throws; a mix that does not compile is noted and passed over
[[nodiscard]] FormatSearchResult search_formats(const std::vector<Candidate*>& bases, const LossMeter& meter,
                                                const Subject& subject, const engine::Engine& engine,
                                                const FormatSearchOptions& options, const Host& host);

}  // namespace tempera::optimize
