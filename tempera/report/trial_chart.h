#pragma once

#include <cstdint>
#include <string>

#include "tempera/report/report.h"

namespace tempera::report {

/// What a chart of the trials has along x; y is always the loss.
enum class TrialAxis : std::uint8_t { kLatency, kSize };

/// An <svg> element: loss (logarithmic) over median latency or file size (linear), the budget as a dashed line, the points
/// that no other beats in both as a stepped line, the chosen one in the accent colour. Empty without trials.
[[nodiscard]] std::string trial_chart(const Report& report, TrialAxis axis);

}  // namespace tempera::report
