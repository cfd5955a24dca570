#pragma once

#include <string>

#include "tempera/report/report.h"

namespace tempera::report {

/// An <svg> element: values of the new model over those of the original, on equal axes, with the diagonal on which both
/// agree. At most 2,000 points are drawn, evenly chosen; those that are not finite are left out.
[[nodiscard]] std::string scatter_chart(const Scatter& scatter);

}  // namespace tempera::report
