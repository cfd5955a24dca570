#pragma once

#include <vector>

#include "tempera/engine/engine.h"
#include "tempera/optimize/subject.h"
#include "tempera/report/report.h"

namespace tempera::optimize {

/// Rows of pictures for the page when the recipe says that an output is an image: input, output of the old
/// model, output of the new one, and their difference magnified so that the largest shows. Nothing for other
/// models.
///
/// The pictures are one sample from each of the first sources of the verification part.
[[nodiscard]] std::vector<report::Picture> make_pictures(const Subject& subject, engine::Session& before,
                                                         engine::Session& after);

}  // namespace tempera::optimize
