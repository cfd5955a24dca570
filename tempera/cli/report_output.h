#pragma once

#include <string>

#include "tempera/cli/shared_options.h"
#include "tempera/report/report.h"

namespace tempera::cli {

/// What a command that wrote a model leaves on stdout: the report as a table and where the set is, or with --json the
/// report as JSON alone.
void print_report(const report::Report& report, const SharedOptions& shared, const std::string& out);

}  // namespace tempera::cli
