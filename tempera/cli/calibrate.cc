#include "tempera/compress/calibrate/calibrate.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <memory>
#include <numeric>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "tempera/base/error.h"
#include "tempera/base/file.h"
#include "tempera/cli/command.h"
#include "tempera/cli/shared_options.h"
#include "tempera/cli/subject_arguments.h"
#include "tempera/engine/engines.h"
#include "tempera/optimize/subject.h"

namespace tempera::cli {
namespace {

struct CalibrateArguments {
  std::shared_ptr<SharedOptions> shared;
  SubjectArguments subject;
  std::vector<std::string> tensors;
  std::string method = "auto";
  std::size_t samples = 0;
  std::string out;
  compress::CalibrateOptions options;
};

// As many samples as asked for, evenly spread over the data, or over the timesteps of a diffusion model; 0:
// all.
std::vector<std::size_t> chosen_samples(const CalibrateArguments& arguments, const optimize::Subject& subject,
                                        const Host& host) {
  const std::size_t count = subject.dataset->samples().size();
  const std::size_t taken = arguments.samples == 0 ? count : std::min(arguments.samples, count);
  std::vector<std::size_t> indices(count);
  std::iota(indices.begin(), indices.end(), std::size_t{0});
  const std::string& timestep = subject.recipe.calibrate.timestep;
  if (!timestep.empty()) {
    return compress::stratified_samples(*subject.dataset, subject.model.graph, indices, timestep, taken,
                                        arguments.shared->seed, host);
  }
  (void)optimize::thin_out(indices, taken);
  return indices;
}

void print_table(const compress::Calibration& calibration) {
  fmt::print("  {:<44} {:>11} {:>11} {:>11} {:>11} {:>8}  {}\n", "tensor", "min", "max", "lo", "hi",
             "SQNR dB", "method");
  std::map<std::string_view, int> methods;
  for (const auto& [name, range] : calibration.ranges) {
    const double sqnr = range.relative_mse > 0.0 ? -10.0 * std::log10(range.relative_mse) : INFINITY;
    fmt::print("  {:<44} {:>11.4g} {:>11.4g} {:>11.4g} {:>11.4g} {:>8.1f}  {}\n", name, range.min, range.max,
               range.lo, range.hi, sqnr, compress::to_string(range.method));
    ++methods[compress::to_string(range.method)];
  }
  fmt::print("\n{} tensors over {} samples, in {}:", calibration.ranges.size(), calibration.samples,
             calibration.engine);
  for (const auto& [method, count] : methods) {
    fmt::print(" {} {}", count, method);
  }
  fmt::print("\n");
}

void run_calibrate(const CalibrateArguments& arguments) {
  Terminal terminal(*arguments.shared);
  const Host host = terminal.host();
  optimize::SubjectOptions chosen = subject_options(arguments.subject, *arguments.shared);
  if (arguments.samples > 0) {
    chosen.random_samples = static_cast<std::int64_t>(arguments.samples);
  }
  const optimize::Subject subject = optimize::load_subject(chosen, host);
  const std::unique_ptr<engine::Engine> engine = engine::make_engine(arguments.shared->engine);
  compress::CalibrateOptions options = arguments.options;
  options.workers = arguments.subject.workers;
  options.method = *compress::range_method_from_string(arguments.method);
  options.compile = compile_options(*arguments.shared);
  options.compile.cache_dir
      .clear();  // a model with its inner tensors as outputs is compiled for this run alone
  options.compile.input_shapes = subject.input_shapes;
  options.cache_dir = arguments.shared->cache_dir;
  options.timestep_input = subject.recipe.calibrate.timestep;
  const std::vector<std::string> tensors =
      arguments.tensors.empty() ? compress::activation_names(subject.model.graph) : arguments.tensors;
  const compress::Calibration calibration =
      compress::calibrate(subject.model, tensors, *subject.dataset, chosen_samples(arguments, subject, host),
                          *engine, options, host);
  const std::string json = compress::to_json(calibration);
  if (!arguments.out.empty()) {
    write_text_file(arguments.out, json);
  }
  if (arguments.shared->json) {
    std::fputs(json.c_str(), stdout);
  } else {
    print_table(calibration);
  }
}

}  // namespace

void add_calibrate(CLI::App& app) {
  const auto arguments = std::make_shared<CalibrateArguments>();
  add_subject_arguments(app, arguments->subject, "files and folders of inputs, or 'random'")->required();
  app.add_option("--tensors", arguments->tensors,
                 "names, separated by commas (default: every float activation)")
      ->delimiter(',');
  app.add_option("--method", arguments->method, "how ranges are chosen")
      ->check(CLI::IsMember({"minmax", "moving_average", "percentile", "mse", "entropy", "auto"}))
      ->capture_default_str();
  app.add_option("--percentile", arguments->options.percentile,
                 "share of the values kept inside by 'percentile'")
      ->capture_default_str();
  app.add_option("--momentum", arguments->options.momentum, "weight of the past in 'moving_average'")
      ->capture_default_str();
  app.add_flag("--symmetric", arguments->options.symmetric, "ranges [-a, a] where a tensor takes both signs");
  app.add_option("--samples", arguments->samples,
                 "use so many samples, evenly spread over the data (default: all)")
      ->check(CLI::PositiveNumber);
  app.add_option("--batch", arguments->options.batch, "samples run together; changes nothing but speed")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("-o,--out", arguments->out, "file for the ranges, as JSON");
  arguments->shared = add_shared_options(app, kEngineOptions | kSeedOption | kCacheOption);
  app.footer(
      "Example: tempera calibrate models/efficientnet_lite0/efficientnet_lite0.onnx --data photos/ -o "
      "ranges.json");
  app.callback([arguments] { run_calibrate(*arguments); });
}

}  // namespace tempera::cli
