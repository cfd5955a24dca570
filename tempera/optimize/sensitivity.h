#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "tempera/base/host.h"
#include "tempera/compress/calibrate/calibrate.h"
#include "tempera/compress/quantize/quantize.h"
#include "tempera/engine/engine.h"
#include "tempera/optimize/subject.h"
#include "tempera/report/sensitivity_report.h"

namespace tempera::optimize {

struct SensitivityOptions {
  SubjectOptions subject;
  std::vector<std::string> formats = {"int8", "int4-weights"};  ///< see layer_format_from_string()
  std::size_t samples = 64;      ///< of the search part at most
  std::string engine = "openvino";
  engine::CompileOptions compile;  ///< precision of all that stays in float
  compress::QuantizeOptions quantize;
  compress::RangeMethod range_method = compress::RangeMethod::kAuto;
  std::filesystem::path cache_dir;
  std::string command;
};

/// "int8": weights and activations; "int8-weights", "int4-weights", "ternary-weights" and so on: weights alone, by the names
/// of compress::WeightFormat. \throws Error{kInvalidArgument} with the nearest names
[[nodiscard]] compress::LayerFormat layer_format_from_string(const std::string& name);

/// What each layer alone costs in each format: the loss of the model's worst output, on the search part of the data, in
/// the engine, against the model in f32. A layer that cannot take a format has no loss and a reason.
///
/// \throws Error of any kind
[[nodiscard]] report::SensitivityReport measure_sensitivity(const SensitivityOptions& options, const Host& host);

}  // namespace tempera::optimize
