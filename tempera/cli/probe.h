#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "tempera/engine/engine.h"

namespace CLI {
class App;
}

namespace tempera::cli {

/// What a fresh process needs for a model.
struct Probe {
  std::int64_t peak_bytes = 0;      ///< highest resident size: program, engine, model and one run
  std::int64_t baseline_bytes = 0;  ///< before the model was read
  std::int64_t loaded_bytes = 0;    ///< resident size after the run: what a server keeps
  double read_ms = 0.0;
  double compile_ms = 0.0;
  double first_run_ms = 0.0;
};

/// Starts this program anew with a hidden command that reads the model, compiles it and runs it once on
/// zeros, so that nothing of the calling process counts. \throws Error{kEngineFailed} with what the child
/// said
[[nodiscard]] Probe probe(const std::filesystem::path& model, const std::string& engine,
                          const engine::CompileOptions& options);

/// The hidden command.
void add_probe(CLI::App& app);

}  // namespace tempera::cli
