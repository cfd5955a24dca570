#include "tempera/optimize/rewrite.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>

#include "tempera/base/error.h"
#include "tempera/base/file.h"
#include "tempera/onnx/opset.h"
#include "tempera/onnx/text.h"
#include "tempera/pass/pipeline.h"
#include "tempera/pass/runner.h"

namespace tempera::optimize {
namespace {

report::PassRecord record_of(const pass::PassReport& report) {
  report::PassRecord record;
  record.name = report.name;
  record.time_ms = report.time_ms;
  for (const pass::Rewrite& rewrite : report.rewrites) {
    record.rewrites.push_back({rewrite.site, rewrite.what});
  }
  for (const pass::Skip& skip : report.skipped) {
    record.skipped.push_back({skip.site, skip.reason});
  }
  return record;
}

void prepare_dump(const RewriteOptions& options) {
  const std::vector<std::string> known = pass::pass_names();
  if (std::find(known.begin(), known.end(), options.dump_after) == known.end()) {
    throw Error(ErrorCode::kInvalidArgument, unknown_name("pass", options.dump_after, known),
                "tempera inspect --list-passes");
  }
  std::error_code error;
  std::filesystem::create_directories(options.dump_folder, error);
  if (error) {
    throw Error(ErrorCode::kIo, fmt::format("cannot make the folder '{}': {}", options.dump_folder.string(), error.message()),
                "choose another with --dump-folder");
  }
}

}  // namespace

Rewritten rewrite(const Subject& subject, const engine::Evaluator& evaluator, const RewriteOptions& options,
                  const Host& host) {
  auto model = std::make_shared<graph::Model>(onnx::inline_functions(subject.model));
  pass::RunOptions run;
  run.context.evaluator = &evaluator;
  run.context.target_engine = options.engine;
  run.skip = options.skip_passes;
  run.input_shapes = subject.recipe.deploy.shapes;
  if (!options.dump_after.empty()) {
    prepare_dump(options);
  }
  int dumped = 0;
  run.after_pass = [&](std::string_view pass, const graph::Model& now) {
    host.cancel.throw_if_cancelled();
    if (pass == options.dump_after) {
      write_text_file(options.dump_folder / fmt::format("{}-{}.txt", pass, ++dumped), onnx::print_text(now));
    }
  };
  Rewritten result;
  for (const pass::PassReport& report : pass::run_passes(*model, run).passes) {
    result.changed = result.changed || !report.rewrites.empty();
    result.passes.push_back(record_of(report));
  }
  result.model = std::move(model);
  return result;
}

}  // namespace tempera::optimize
