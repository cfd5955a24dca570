#pragma once

#include <cstdint>

#include "tempera/base/host.h"
#include "tempera/compress/prune/channels.h"
#include "tempera/compress/prune/sparsify.h"
#include "tempera/optimize/optimize.h"
#include "tempera/report/report.h"

namespace tempera::optimize {

struct PruneOptions {
  /// Model, data, engine, budget and timing mean what they mean for optimize(); nothing is rewritten, so what
  /// is said of passes there is not looked at.
  OptimizeOptions common;
  bool structured = false;  ///< whole channels, by `channels`; else zeros, by `zeros`
  compress::ChannelOptions channels;
  bool repair = false;  ///< fit the layers that lost inputs anew, on the calibration part
  std::size_t repair_samples = 16;
  compress::SparsifyOptions zeros;
  bool enforce_budget = false;  ///< an explicit budget: when it is missed, nothing is written
};

/// Prunes a model as asked and measures what that cost: size, parameters, operations, latency and loss, old
/// beside new, of the written file loaded afresh, on data held out. Writes OUT/model.onnx,
/// OUT/model.recipe.toml, report.json and report.html as one set.
///
/// \throws Error{kLossBudget} when an enforced budget is missed; Error of any other kind; OUT is then as it
/// was before
[[nodiscard]] report::Report prune(const PruneOptions& options, const Host& host);

}  // namespace tempera::optimize
