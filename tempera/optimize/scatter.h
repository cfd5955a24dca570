#pragma once

#include <vector>

#include "tempera/engine/engine.h"
#include "tempera/optimize/subject.h"
#include "tempera/report/report.h"

namespace tempera::optimize {

/// For each real output that is no image: its values in the original and in the new model, over at most 64 samples of the
/// verification part. What the user of a docking scorer or a force field looks at first: scores keep their order, forces
/// lie on the diagonal.
[[nodiscard]] std::vector<report::Scatter> make_scatters(const Subject& subject, engine::Session& before,
                                                         engine::Session& after);

}  // namespace tempera::optimize
