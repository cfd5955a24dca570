#include "tempera/optimize/optimize.h"

#include <cmath>
#include <cstdio>
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "tempera/base/error.h"
#include "tempera/cli/command.h"
#include "tempera/cli/probe.h"
#include "tempera/cli/report_output.h"
#include "tempera/cli/shared_options.h"
#include "tempera/cli/subject_arguments.h"
#include "tempera/cli/versions.h"

namespace tempera::cli {
namespace {

struct OptimizeArguments {
  std::shared_ptr<SharedOptions> shared;
  SubjectArguments subject;
  std::string out;
  bool force = false;
  bool allow_non_finite = false;
  std::string max_loss = "5%";
  std::string min;
  std::vector<std::string> skip_passes;
  std::string dump_after;
  std::string dump_folder;
  std::int64_t pairs = 30;
  double seconds = 200;
  bool keep_all_passes = false;
  bool float_only = false;
  std::string time = "10m";
};

// "90", "90s", "30m", "2h" in seconds.
double parse_seconds(const std::string& text) {
  std::size_t used = 0;
  double value = 0.0;
  try {
    value = std::stod(text, &used);
  } catch (const std::exception&) {
    used = 0;
  }
  const std::string unit = text.substr(used);
  const double factor = unit.empty() || unit == "s" ? 1.0 : unit == "m" ? 60.0 : unit == "h" ? 3600.0 : 0.0;
  if (used == 0 || factor == 0.0 || !(value > 0.0) || !std::isfinite(value)) {
    throw Error(ErrorCode::kInvalidArgument, fmt::format("'{}' is no time; expected a number with s, m or h, as '30m'", text));
  }
  return value * factor;
}

void run_optimize(const OptimizeArguments& arguments) {
  optimize::OptimizeOptions options;
  options.subject = subject_options(arguments.subject, *arguments.shared);
  options.out = arguments.out;
  options.force = arguments.force;
  options.engine = arguments.shared->engine;
  options.device = arguments.shared->device;
  if (!arguments.shared->precision.empty()) {
    options.precision = compile_options(*arguments.shared).precision;
  }
  options.threads = arguments.shared->threads;
  options.budget = arguments.min.empty() ? quality::LossBudget::parse_max_loss(arguments.max_loss)
                                         : quality::LossBudget::parse_min(arguments.min);
  options.skip_passes = arguments.skip_passes;
  options.dump_after = arguments.dump_after;
  options.dump_folder = arguments.dump_folder;
  options.pairs = arguments.pairs;
  options.max_seconds = arguments.seconds;
  options.search_formats = !arguments.float_only;
  options.total_seconds = parse_seconds(arguments.time);
  options.try_reverting = !arguments.keep_all_passes;
  options.strict = arguments.shared->strict;
  options.allow_non_finite = arguments.allow_non_finite;
  options.cache_dir = arguments.shared->cache_dir;
  options.command = typed_command();
  options.versions = versions();
  options.probe_memory = [&](const std::filesystem::path& model, const engine::CompileOptions& compile) {
    return probe(model, arguments.shared->engine, compile).peak_bytes;
  };
  Terminal terminal(*arguments.shared);
  const Host host = terminal.host();
  const report::Report report = optimize::optimize(options, host);
  print_report(report, *arguments.shared, arguments.out);
}

}  // namespace

void add_optimize(CLI::App& app) {
  const auto arguments = std::make_shared<OptimizeArguments>();
  add_subject_arguments(app, arguments->subject,
                        "files and folders of real inputs (pictures, .npy, .npz), or 'random'; without it only "
                 "lossless rewrites are tried");
  add_allow_command(app, arguments->subject);
  app.add_option("-o,--out", arguments->out,
                 "folder for the result: model.onnx, model.recipe.toml, report.json, report.html")
      ->required();
  app.add_option("--max-loss", arguments->max_loss,
                 "loss allowed: '5%' relative, or in the metric's own unit as '0.2dB'")
      ->capture_default_str();
  app.add_option("--min", arguments->min, "instead: the least the metric or fidelity must reach, as '35dB'");
  app.add_option("--skip-pass", arguments->skip_passes,
                 "leave out this rewrite; may be repeated (tempera inspect --list-passes)")
      ->take_all();
  app.add_option("--dump-after", arguments->dump_after,
                 "write the graph as text after each time this pass fired");
  app.add_option("--dump-folder", arguments->dump_folder, "where to write it (default: OUT/.work/dump)");
  app.add_flag("--keep-all-passes", arguments->keep_all_passes, "do not time the result without each pass");
  app.add_flag("--float-only", arguments->float_only, "do not search number formats below the floats'");
  app.add_option("--time", arguments->time, "time for everything, as '90s', '30m' or '2h'; the result is verified within it")
      ->capture_default_str();
  app.add_option("--pairs", arguments->pairs,
                 "interleaved pairs of timing; with fewer than 30 only gains above 1.5 times count")
      ->check(CLI::Range(5, 100000))
      ->capture_default_str();
  app.add_option("--seconds", arguments->seconds, "most time spent on measuring latency")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_flag("--allow-non-finite", arguments->allow_non_finite,
               "go on where outputs of the original hold NaN or infinity, which is else an error that names the node");
  app.add_flag("--force", arguments->force, "write into a folder that holds other files");
  arguments->shared = add_shared_options(app, kEngineOptions | kSeedOption | kCacheOption);
  app.footer("Example: tempera optimize esrgan_medium_x4.onnx --data photos/ -o fast");
  app.callback([arguments] { run_optimize(*arguments); });
}

}  // namespace tempera::cli
