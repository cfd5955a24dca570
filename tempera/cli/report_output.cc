#include "tempera/cli/report_output.h"

#include <cstdio>

namespace tempera::cli {

void print_report(const report::Report& report, const SharedOptions& shared, const std::string& out) {
  const std::string text = shared.json ? report::to_json(report) : report::to_table(report, color_on_stdout());
  std::fputs(text.c_str(), stdout);
  if (!shared.json) {
    std::printf("wrote %s: model.onnx, model.recipe.toml, report.json, report.html\n", out.c_str());
  }
}

}  // namespace tempera::cli
