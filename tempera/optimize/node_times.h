#pragma once

#include <vector>

#include "tempera/engine/engine.h"
#include "tempera/optimize/candidate.h"
#include "tempera/optimize/subject.h"

namespace tempera::optimize {

/// Times per node of the candidate on the first search sample: those of the run with the median total among five profiled
/// ones. Compiles the candidate anew, with profiling.
[[nodiscard]] std::vector<engine::NodeTime> node_times(const engine::Engine& engine, const Subject& subject,
                                                       const Candidate& candidate);

}  // namespace tempera::optimize
