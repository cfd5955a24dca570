#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tempera/quality/metrics.h"

namespace tempera::quality {

/// What the user allows a change to cost.
///
///   --max-loss 5%        relative: task loss where a truth and a metric exist, else the relative L2 of the
///   worst output
///   --max-loss 0.2dB     the metric may get worse by this much in its own unit
///   --min 35dB           the metric, or the fidelity (SQNR) where no metric has that unit, must reach this
struct LossBudget {
  enum class Kind : std::uint8_t { kRelative, kWorseBy, kAtLeast };
  Kind kind = Kind::kRelative;
  double limit = 0.0;  ///< kRelative: 0.05 for 5%
  std::string unit;    ///< "dB", "hartree", ...; empty for kRelative

  /// \param text  "5%", "0.05" (the same), "0.2dB", "0.01 hartree"
  /// \throws Error{kInvalidArgument} when it is no number, negative, or not finite
  static LossBudget parse_max_loss(std::string_view text);
  static LossBudget parse_min(std::string_view text);
  [[nodiscard]] std::string to_string() const;
};

/// What was measured for one output.
struct OutputLoss {
  std::string output;
  double relative_l2 = 0.0;  ///< new against old, mean over samples
  double sqnr_db = 0.0;      ///< new against old, mean over samples of the dB values
  std::string worst_sample;  ///< by relative L2
  double worst_relative_l2 = 0.0;
  std::string metric;          ///< with a truth: name of the metric; else empty
  double metric_before = 0.0;  ///< old model against the truth
  double metric_after = 0.0;   ///< new model against the truth
};

/// The loss as the budget counts it, in the budget's unit.
struct LossVerdict {
  bool within = false;
  double loss = 0.0;     ///< for kAtLeast: the value reached
  std::string output;    ///< the one that decided
  std::string measured;  ///< "task loss (psnr_y)", "relative L2", "SQNR"
  std::string text;      ///< one sentence for report and log
};

/// The worst output decides. \throws Error{kInvalidArgument} when no output has a metric of the budget's unit
[[nodiscard]] LossVerdict judge(const LossBudget& budget, const std::vector<OutputLoss>& outputs);

}  // namespace tempera::quality
