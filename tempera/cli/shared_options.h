#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "tempera/base/host.h"
#include "tempera/engine/engine.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace tempera::cli {

/// Options that mean the same in every command.
struct SharedOptions {
  std::string engine = "openvino";
  std::string device = "cpu";
  std::string precision;  ///< empty: the recipe's, else f32
  int threads = 0;        ///< 0: the recipe's, else one for each core
  std::uint64_t seed = 0;
  std::string target = "portable";
  std::filesystem::path cache_dir;
  bool strict = false;
  bool json = false;
  bool quiet = false;
  int verbosity = 0;
};

/// Which of the shared options a command takes.
enum SharedSet : unsigned { kEngineOptions = 1U, kSeedOption = 2U, kTargetOption = 4U, kCacheOption = 8U };

/// Declares the options on `app`; the result is filled while parsing.
[[nodiscard]] std::shared_ptr<SharedOptions> add_shared_options(CLI::App& app, unsigned set);

/// The options as the engine takes them. \throws Error{kInvalidArgument} for an unknown precision
[[nodiscard]] engine::CompileOptions compile_options(const SharedOptions& options);

/// Progress and messages on stderr as the options ask. SIGINT and SIGTERM ask the work to stop while it
/// lives; a second one ends the process.
class Terminal {
 public:
  explicit Terminal(const SharedOptions& options);
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  [[nodiscard]] Host host() { return {*log_, *progress_, cancel_}; }

 private:
  std::unique_ptr<Logger> log_;
  std::unique_ptr<Progress> progress_;
  CancelToken cancel_;
};

/// Whether stdout may carry colours: a terminal, and NO_COLOR unset or empty.
[[nodiscard]] bool color_on_stdout();

}  // namespace tempera::cli
