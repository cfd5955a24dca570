#include <cstdio>
#include <memory>
#include <optional>
#include <string_view>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "tempera/base/error.h"
#include "tempera/cli/command.h"
#include "tempera/cli/probe.h"
#include "tempera/cli/report_output.h"
#include "tempera/cli/shared_options.h"
#include "tempera/cli/subject_arguments.h"
#include "tempera/cli/versions.h"
#include "tempera/optimize/prune_flow.h"

namespace tempera::cli {
namespace {

using Pattern = compress::SparsifyOptions::Pattern;

struct PruneArguments {
  std::shared_ptr<SharedOptions> shared;
  SubjectArguments subject;
  std::string out;
  bool force = false;
  std::string method;
  std::optional<double> sparsity;
  std::optional<double> pruning_ratio;
  bool global = false;
  std::string norm = "l1";
  std::int64_t align = 1;
  bool repair = false;
  std::vector<std::string> ignore;
  std::string max_loss;
  std::string min;
  std::int64_t pairs = 30;
  double seconds = 120;
};

// "2:4" as n and m.
std::optional<std::pair<int, int>> n_of_m(std::string_view text) {
  int n = 0;
  int m = 0;
  int length = 0;
  const std::string copy(text);
  const bool read = std::sscanf(copy.c_str(), "%3d:%3d%n", &n, &m, &length) == 2;
  return read && length == static_cast<int>(copy.size()) ? std::optional(std::pair(n, m)) : std::nullopt;
}

void set_method(const PruneArguments& arguments, optimize::PruneOptions& options) {
  const auto only = [&](bool given, std::string_view option, std::string_view methods) {
    if (given) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("{} means nothing with --method {}", option, arguments.method),
                  fmt::format("it goes with --method {}", methods));
    }
  };
  const auto pair = n_of_m(arguments.method);
  options.structured = arguments.method == "channels";
  if (options.structured) {
    only(arguments.sparsity.has_value(), "--sparsity",
         "l1-global or l1-layer; --pruning-ratio with channels");
    options.channels.pruning_ratio = arguments.pruning_ratio.value_or(options.channels.pruning_ratio);
    options.channels.global = arguments.global;
    options.channels.norm = arguments.norm == "l2" ? compress::WeightNorm::kL2 : compress::WeightNorm::kL1;
    options.channels.align = arguments.align;
    options.repair = arguments.repair;
    options.channels.ignore = arguments.ignore;
    return;
  }
  only(arguments.pruning_ratio.has_value(), "--pruning-ratio", "channels");
  only(arguments.global, "--global", "channels");
  only(arguments.align != 1, "--align", "channels");
  only(arguments.repair, "--repair", "channels");
  if (pair) {
    only(arguments.sparsity.has_value(), "--sparsity", "l1-global or l1-layer");
    options.zeros.pattern = Pattern::kNOfM;
    options.zeros.n = pair->first;
    options.zeros.m = pair->second;
  } else if (arguments.method == "l1-global" || arguments.method == "l1-layer") {
    options.zeros.pattern = arguments.method == "l1-global" ? Pattern::kGlobal : Pattern::kPerLayer;
    options.zeros.sparsity = arguments.sparsity.value_or(options.zeros.sparsity);
  } else {
    throw Error(ErrorCode::kInvalidArgument,
                unknown_name("method", arguments.method, {"l1-global", "l1-layer", "2:4", "channels"}));
  }
  options.zeros.ignore = arguments.ignore;
}

void run_prune(const PruneArguments& arguments) {
  optimize::PruneOptions options;
  optimize::OptimizeOptions& common = options.common;
  set_method(arguments, options);
  common.subject = subject_options(arguments.subject, *arguments.shared);
  common.out = arguments.out;
  common.force = arguments.force;
  common.engine = arguments.shared->engine;
  common.device = arguments.shared->device;
  common.precision = compile_options(*arguments.shared).precision;
  common.threads = arguments.shared->threads;
  options.enforce_budget = !arguments.max_loss.empty() || !arguments.min.empty();
  common.budget =
      arguments.min.empty()
          ? quality::LossBudget::parse_max_loss(arguments.max_loss.empty() ? "5%" : arguments.max_loss)
          : quality::LossBudget::parse_min(arguments.min);
  common.pairs = arguments.pairs;
  common.max_seconds = arguments.seconds;
  common.strict = arguments.shared->strict;
  common.cache_dir = arguments.shared->cache_dir;
  common.command = typed_command();
  common.versions = versions();
  common.probe_memory = [&](const std::filesystem::path& model, const engine::CompileOptions& compile) {
    return probe(model, arguments.shared->engine, compile).peak_bytes;
  };
  Terminal terminal(*arguments.shared);
  const Host host = terminal.host();
  const report::Report report = optimize::prune(options, host);
  print_report(report, *arguments.shared, arguments.out);
}

}  // namespace

void add_prune(CLI::App& app) {
  const auto arguments = std::make_shared<PruneArguments>();
  add_subject_arguments(app, arguments->subject,
                        "files and folders of real inputs (pictures, .npy, .npz) to measure the loss on, or 'random'");
  add_allow_command(app, arguments->subject);
  app.add_option("-o,--out", arguments->out,
                 "folder for the result: model.onnx, model.recipe.toml, report.json, report.html")
      ->required();
  app.add_option(
         "--method", arguments->method,
         "l1-global: the smallest weights become zero; l1-layer: in each layer; 2:4 (or N:M): of every 4 "
         "neighbours 2 stay; channels: whole channels go, the model becomes smaller and faster")
      ->required();
  app.add_option("--sparsity", arguments->sparsity,
                 "l1-global, l1-layer: share of the weights that is zero afterwards (default 0.2)");
  app.add_option("--pruning-ratio", arguments->pruning_ratio,
                 "channels: share of the channels that goes (default 0.3)");
  app.add_flag("--global", arguments->global, "channels: rank all channels together, not within each group");
  app.add_option("--norm", arguments->norm, "channels: norm of the weights that ranks them")
      ->check(CLI::IsMember({"l1", "l2"}))
      ->capture_default_str();
  app.add_flag(
      "--repair", arguments->repair,
      "channels: fit the layers that lost inputs anew by least squares, on the calibration part of the data");
  app.add_option("--align", arguments->align, "channels: keep multiples of this, as 8, 16 or 32")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{4096}))
      ->capture_default_str();
  app.add_option("--ignore", arguments->ignore,
                 "a layer that keeps its weights, by its node's name; may be repeated")
      ->take_all();
  app.add_option("--max-loss", arguments->max_loss,
                 "fail with exit code 5, writing nothing, when more is lost: '5%' relative, or '0.2dB'");
  app.add_option("--min", arguments->min, "instead: the least the metric or fidelity must reach, as '35dB'");
  app.add_option("--pairs", arguments->pairs,
                 "interleaved pairs of timing; with fewer than 30 only gains above 1.5 times count")
      ->check(CLI::Range(5, 100000))
      ->capture_default_str();
  app.add_option("--seconds", arguments->seconds, "most time spent on measuring latency")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_flag("--force", arguments->force, "write into a folder that holds other files");
  arguments->shared = add_shared_options(app, kEngineOptions | kSeedOption | kCacheOption);
  app.footer(
      "Example: tempera prune esrgan_medium_x4.onnx --data photos/ --method channels --pruning-ratio 0.3 -o "
      "small");
  app.callback([arguments] { run_prune(*arguments); });
}

}  // namespace tempera::cli
