#include "tempera/cli/shared_options.h"

#include <csignal>
#include <cstdlib>
#include <unistd.h>

#include <CLI/CLI.hpp>

#include "tempera/base/error.h"

namespace tempera::cli {
namespace {

// A signal handler reaches only what is global; set while a Terminal lives.
const CancelToken* active_token = nullptr;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

extern "C" void on_interrupt(int signal) {
  if (active_token == nullptr || active_token->cancelled()) {
    std::signal(signal, SIG_DFL);
    std::raise(signal);
    return;
  }
  active_token->cancel();
}

}  // namespace

std::shared_ptr<SharedOptions> add_shared_options(CLI::App& app, unsigned set) {
  auto options = std::make_shared<SharedOptions>();
  const char* group = "Shared options";
  if ((set & kEngineOptions) != 0) {
    app.add_option("--engine", options->engine, "engine that runs the model: openvino or torch")
        ->capture_default_str()
        ->group(group);
    app.add_option("--device", options->device, "cpu, or cuda:N for the torch engine")
        ->capture_default_str()
        ->group(group);
    app.add_option("--precision", options->precision, "f32, bf16 or f16 (default: the recipe's, else f32)")
        ->group(group);
    app.add_option("--threads", options->threads, "threads of the engine (default: one for each core)")
        ->check(CLI::Range(0, 4096))
        ->group(group);
  }
  if ((set & kSeedOption) != 0) {
    app.add_option("--seed", options->seed, "seed of everything random")->capture_default_str()->group(group);
  }
  if ((set & kTargetOption) != 0) {
    app.add_option("--target", options->target,
                   "what the file must run on: portable, openvino, onnxruntime, tensorrt")
        ->check(CLI::IsMember({"portable", "openvino", "onnxruntime", "tensorrt"}))
        ->capture_default_str()
        ->group(group);
  }
  if ((set & kCacheOption) != 0) {
    app.add_option("--cache-dir", options->cache_dir, "folder for compiled models and calibrations (default: none)")
        ->group(group);
  }
  app.add_flag("--strict", options->strict, "treat every fallback and skipped part as an error")
      ->group(group);
  app.add_flag("--json", options->json, "results as JSON on stdout")->group(group);
  app.add_flag("-q,--quiet", options->quiet, "no progress on stderr")->group(group);
  app.add_flag("-v,--verbose", options->verbosity, "more detail on stderr; twice for all")->group(group);
  return options;
}

engine::CompileOptions compile_options(const SharedOptions& options) {
  engine::CompileOptions compile;
  compile.device = options.device;
  compile.threads = options.threads;
  compile.cache_dir = options.cache_dir;
  if (!options.precision.empty()) {
    const auto precision = engine::precision_from_string(options.precision);
    if (!precision.has_value()) {
      throw Error(ErrorCode::kInvalidArgument,
                  unknown_name("precision", options.precision, {"f32", "bf16", "f16"}));
    }
    compile.precision = *precision;
  }
  return compile;
}

bool color_on_stdout() {
  const char* no_color = std::getenv("NO_COLOR");
  return ::isatty(STDOUT_FILENO) != 0 && (no_color == nullptr || no_color[0] == '\0');
}

Terminal::Terminal(const SharedOptions& options) {
  const bool terminal = ::isatty(STDERR_FILENO) != 0;
  const char* no_color = std::getenv("NO_COLOR");
  const bool color = terminal && (no_color == nullptr || no_color[0] == '\0');
  const LogLevel level = options.verbosity > 1   ? LogLevel::kDebug
                         : options.verbosity > 0 ? LogLevel::kInfo
                                                 : LogLevel::kWarning;
  log_ = make_stderr_logger(level, color);
  progress_ = options.quiet ? make_null_progress() : make_stderr_progress(terminal);
  active_token = &cancel_;
  std::signal(SIGINT, on_interrupt);
  std::signal(SIGTERM, on_interrupt);
}

Terminal::~Terminal() {
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
  active_token = nullptr;
}

}  // namespace tempera::cli
