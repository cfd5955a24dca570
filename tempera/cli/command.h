#pragma once

#include <span>
#include <string>
#include <string_view>

namespace CLI {
class App;
}

namespace tempera::cli {

/// One subcommand: `add` declares its options on `app` and sets the callback that runs it.
///
/// A callback reports failure by throwing tempera::Error; results go to stdout, everything else to stderr.
struct Command {
  std::string_view name;
  std::string_view summary;
  void (*add)(CLI::App& app);
};

/// All subcommands in the order of the help text.
[[nodiscard]] std::span<const Command> commands();

void add_bench(CLI::App& app);
void add_calibrate(CLI::App& app);
void add_compare(CLI::App& app);
void add_completion(CLI::App& app);
void add_doctor(CLI::App& app);
void add_inspect(CLI::App& app);
void add_optimize(CLI::App& app);
void add_quantize(CLI::App& app);
void add_prune(CLI::App& app);
void add_run(CLI::App& app);
void add_sensitivity(CLI::App& app);

/// Parses the arguments, runs the command and returns the exit code. The only function that turns errors into
/// text.
[[nodiscard]] int run(int argc, const char* const* argv);

/// What run() was last given, quoted for a shell: reports say how to repeat them.
[[nodiscard]] const std::string& typed_command();

}  // namespace tempera::cli
