#include "tempera/optimize/sensitivity.h"

#include <cstdio>
#include <filesystem>
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "tempera/base/file.h"
#include "tempera/base/output_folder.h"
#include "tempera/cli/command.h"
#include "tempera/cli/shared_options.h"
#include "tempera/cli/subject_arguments.h"

namespace tempera::cli {
namespace {

struct SensitivityArguments {
  std::shared_ptr<SharedOptions> shared;
  SubjectArguments subject;
  std::string out;
  bool force = false;
  std::vector<std::string> formats = {"int8", "int4-weights"};
  std::size_t samples = 64;
};

void run_sensitivity(const SensitivityArguments& arguments) {
  optimize::SensitivityOptions options;
  options.subject = subject_options(arguments.subject, *arguments.shared);
  options.formats = arguments.formats;
  options.samples = arguments.samples;
  options.engine = arguments.shared->engine;
  options.compile = compile_options(*arguments.shared);
  options.cache_dir = arguments.shared->cache_dir;
  options.command = typed_command();
  std::unique_ptr<OutputFolder> out;
  if (!arguments.out.empty()) {
    out = std::make_unique<OutputFolder>(arguments.out, arguments.force);
    out->refuse_input(arguments.subject.model);
  }
  Terminal terminal(*arguments.shared);
  const report::SensitivityReport report = optimize::measure_sensitivity(options, terminal.host());
  if (out != nullptr) {
    out->restart();
    write_text_file(out->staging() / "sensitivity.json", report::to_json(report));
    write_text_file(out->staging() / "sensitivity.html", report::to_html(report));
    out->commit();
  }
  std::fputs((arguments.shared->json ? report::to_json(report) : report::to_table(report)).c_str(), stdout);
  if (out != nullptr && !arguments.shared->json) {
    std::printf("wrote %s: sensitivity.json, sensitivity.html\n", arguments.out.c_str());
  }
}

}  // namespace

void add_sensitivity(CLI::App& app) {
  const auto arguments = std::make_shared<SensitivityArguments>();
  add_subject_arguments(app, arguments->subject,
                        "files and folders of real inputs (pictures, .npy, .npz), or 'random'")->required();
  app.add_option("-o,--out", arguments->out, "folder for sensitivity.json and sensitivity.html");
  app.add_option("--formats", arguments->formats,
                 "formats to try: int8 (weights and activations), or weights alone: int8-weights, int4-weights, "
                 "ternary-weights, ...")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--samples", arguments->samples, "most samples each loss is measured on")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  app.add_flag("--force", arguments->force, "write into a folder that holds other files");
  arguments->shared = add_shared_options(app, kEngineOptions | kSeedOption | kCacheOption);
  app.footer("Example: tempera sensitivity esrgan_medium_x4.onnx --data photos/ --formats int8,int4-weights -o sensitivity");
  app.callback([arguments] { run_sensitivity(*arguments); });
}

}  // namespace tempera::cli
