#include "tempera/cli/shared_options.h"

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <mutex>

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace tempera::cli {
namespace {

using Clock = std::chrono::steady_clock;

// Signals reach only what is global and lock-free.
volatile std::sig_atomic_t interrupts = 0;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables): a signal handler's

extern "C" void on_interrupt(int signal) {
  interrupts = interrupts + 1;
  if (interrupts > 1) {
    std::signal(signal, SIG_DFL);
    std::raise(signal);
  }
}

std::string remaining_text(double seconds) {
  if (seconds >= 3600) {
    return fmt::format("{:.0f} h {:02.0f} min", seconds / 3600, static_cast<int>(seconds / 60) % 60);
  }
  return seconds >= 60 ? fmt::format("{:.0f} min {:02d} s", seconds / 60, static_cast<int>(seconds) % 60)
                       : fmt::format("{:.0f} s", seconds);
}

}  // namespace

std::shared_ptr<SharedOptions> add_shared_options(CLI::App& app, unsigned set) {
  auto options = std::make_shared<SharedOptions>();
  const char* group = "Shared options";
  if ((set & kEngineOptions) != 0) {
    app.add_option("--engine", options->engine, "engine that runs the model: openvino or torch")->capture_default_str()->group(group);
    app.add_option("--device", options->device, "cpu, or cuda:N for the torch engine")->capture_default_str()->group(group);
    app.add_option("--precision", options->precision, "f32, bf16 or f16 (default: the recipe's, else f32)")->group(group);
    app.add_option("--threads", options->threads, "threads of the engine (default: one for each core)")
        ->check(CLI::Range(0, 4096))
        ->group(group);
  }
  if ((set & kSeedOption) != 0) {
    app.add_option("--seed", options->seed, "seed of everything random")->capture_default_str()->group(group);
  }
  if ((set & kTargetOption) != 0) {
    app.add_option("--target", options->target, "what the file must run on: portable, openvino, onnxruntime, tensorrt")
        ->check(CLI::IsMember({"portable", "openvino", "onnxruntime", "tensorrt"}))
        ->capture_default_str()
        ->group(group);
  }
  if ((set & kCacheOption) != 0) {
    app.add_option("--cache-dir", options->cache_dir, "folder for compiled models (default: none)")->group(group);
  }
  app.add_flag("--strict", options->strict, "treat every fallback and skipped part as an error")->group(group);
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
      throw Error(ErrorCode::kInvalidArgument, unknown_name("precision", options.precision, {"f32", "bf16", "f16"}));
    }
    compile.precision = *precision;
  }
  return compile;
}

bool color_on_stdout() {
  const char* no_color = std::getenv("NO_COLOR");
  return ::isatty(STDOUT_FILENO) != 0 && (no_color == nullptr || no_color[0] == '\0');
}

struct TerminalHost::State {
  bool quiet = false;
  bool verbose = false;
  bool terminal = false;
  std::mutex mutex;
  std::string stage;
  Clock::time_point stage_start;
  Clock::time_point last_print;
  bool bar_shown = false;
  void (*old_interrupt)(int) = SIG_DFL;
  void (*old_terminate)(int) = SIG_DFL;

  void clear_bar() {
    if (bar_shown) {
      std::fputs("\r\x1b[K", stderr);
      bar_shown = false;
    }
  }
};

TerminalHost::TerminalHost(const SharedOptions& options) : state_(std::make_unique<State>()) {
  state_->quiet = options.quiet;
  state_->verbose = options.verbosity > 0;
  state_->terminal = ::isatty(STDERR_FILENO) != 0;
  interrupts = 0;
  state_->old_interrupt = std::signal(SIGINT, on_interrupt);
  state_->old_terminate = std::signal(SIGTERM, on_interrupt);
}

TerminalHost::~TerminalHost() {
  state_->clear_bar();
  std::signal(SIGINT, state_->old_interrupt);
  std::signal(SIGTERM, state_->old_terminate);
}

void TerminalHost::info(const std::string& message) {
  if (state_->verbose && !state_->quiet) {
    const std::scoped_lock lock(state_->mutex);
    state_->clear_bar();
    std::fputs((message + "\n").c_str(), stderr);
  }
}

void TerminalHost::warn(const std::string& message) {
  const std::scoped_lock lock(state_->mutex);
  state_->clear_bar();
  std::fputs(("warning: " + message + "\n").c_str(), stderr);
}

void TerminalHost::progress(std::string_view stage, double done, double total) {
  if (state_->quiet) {
    return;
  }
  const std::scoped_lock lock(state_->mutex);
  const Clock::time_point now = Clock::now();
  const bool new_stage = stage != state_->stage;
  if (new_stage) {
    state_->stage = stage;
    state_->stage_start = now;
    state_->last_print = {};
  }
  const double since = std::chrono::duration<double>(now - state_->last_print).count();
  const bool finished = total > 0 && done >= total;
  if (!new_stage && !(finished && state_->terminal) && since < (state_->terminal ? 0.1 : 5.0)) {
    return;
  }
  state_->last_print = now;
  const double elapsed = std::chrono::duration<double>(now - state_->stage_start).count();
  std::string line = fmt::format("{:<24}", stage);
  if (total > 0) {
    constexpr int kWidth = 24;
    const double fraction = std::min(1.0, done / total);
    if (state_->terminal) {
      const auto filled = static_cast<std::size_t>(fraction * kWidth);
      line += " [" + std::string(filled, '#') + std::string(kWidth - filled, '.') + "]";
    }
    line += fmt::format(" {:3.0f} %", 100 * fraction);
    if (done > 0 && elapsed > 1 && !finished) {
      line += fmt::format(", {} left", remaining_text(elapsed * (total - done) / done));
    }
  }
  if (state_->terminal) {
    std::fputs(("\r\x1b[K" + line).c_str(), stderr);
    std::fflush(stderr);
    state_->bar_shown = true;
  } else {
    std::fputs((line + "\n").c_str(), stderr);
  }
}

bool TerminalHost::cancelled() const { return interrupts > 0; }

}  // namespace tempera::cli
