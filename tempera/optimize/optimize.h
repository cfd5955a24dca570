#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tempera/base/host.h"
#include "tempera/compress/calibrate/calibrate.h"
#include "tempera/engine/engine.h"
#include "tempera/optimize/subject.h"
#include "tempera/quality/loss_budget.h"
#include "tempera/report/report.h"

namespace tempera::optimize {

struct OptimizeOptions {
  SubjectOptions subject;  ///< without data, and made-up ones not asked for: only lossless rewrites and timing
  std::filesystem::path out;
  bool force = false;  ///< write into a folder that holds other files
  std::string engine = "openvino";
  std::string device = "cpu";
  std::optional<engine::Precision>
      precision;  ///< only this one; absent: each that the engine computes natively
  int threads = 0;
  quality::LossBudget budget;  ///< default: 5 % relative
  std::vector<std::string> skip_passes;
  std::string dump_after;             ///< pass after each firing of which the graph is written as text
  std::filesystem::path dump_folder;  ///< where to; empty: OUT/.work/dump
  std::int64_t pairs = 30;     ///< of interleaved timing
  double max_seconds = 200.0;  ///< of all timing of float candidates and of the result together
  bool search_formats = true;  ///< also try int8, where the engine computes in it and data may decide
  compress::RangeMethod range_method = compress::RangeMethod::kAuto;  ///< of calibration
  double total_seconds = 600.0;  ///< of everything: the search for number formats ends early enough to verify
  bool try_reverting = true;   ///< time the result without each pass and drop those that slow it down
  bool strict = false;
  bool allow_non_finite = false;  ///< the original's outputs may hold NaN or infinity
  std::filesystem::path cache_dir;
  /// Peak resident bytes of a fresh process that loads this file, compiles it so and runs it once; absent:
  /// not measured.
  std::function<std::int64_t(const std::filesystem::path& model, const engine::CompileOptions&)> probe_memory;
  std::string command;  ///< as typed, for the report
  std::map<std::string, std::string> versions;
};

/// The main job: measures the original and every rewritten candidate side by side on held-out data in the
/// engine that will run them, keeps the fastest within the loss budget, verifies the written file loaded
/// afresh, and writes OUT/model.onnx, OUT/model.recipe.toml, report.json and report.html as one set. When
/// nothing is faster beyond chance the original is written, and the report says so.
///
/// \throws Error of any kind; OUT is then as it was before
[[nodiscard]] report::Report optimize(const OptimizeOptions& options, const Host& host);

}  // namespace tempera::optimize
