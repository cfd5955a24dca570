#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "tempera/base/host.h"
#include "tempera/engine/engine.h"

namespace CLI {
class App;
}

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

/// Progress and messages on stderr; a bar with rate and remaining time on a terminal, a line every few seconds
/// elsewhere. Catches SIGINT and SIGTERM while it lives: the first asks the work to stop, the second ends the process.
class TerminalHost : public Host {
 public:
  explicit TerminalHost(const SharedOptions& options);
  ~TerminalHost() override;
  TerminalHost(const TerminalHost&) = delete;
  TerminalHost& operator=(const TerminalHost&) = delete;

  void info(const std::string& message) override;
  void warn(const std::string& message) override;
  void progress(std::string_view stage, double done, double total) override;
  [[nodiscard]] bool cancelled() const override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Whether stdout may carry colours: a terminal, and NO_COLOR unset or empty.
[[nodiscard]] bool color_on_stdout();

}  // namespace tempera::cli
