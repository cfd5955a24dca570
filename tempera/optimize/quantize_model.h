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
#include "tempera/compress/quantize/quantize.h"
#include "tempera/engine/engine.h"
#include "tempera/optimize/subject.h"
#include "tempera/quality/loss_budget.h"
#include "tempera/report/report.h"

namespace tempera::optimize {

/// Resident bytes of a fresh process that loads a model and runs it once: at its highest, and when it is done.
struct MemoryUse {
  std::int64_t peak_bytes = 0;
  std::int64_t loaded_bytes = 0;
};

/// Samples of the search part on which quantize_model() judges a model.
inline constexpr std::size_t kLossSamples = 64;
/// Samples of the calibration part whose second moments GPTQ takes.
inline constexpr std::size_t kHessianSamples = 64;

/// How codes are chosen once the scales are.
enum class Rounding : std::uint8_t {
  kAuto,     ///< with data both ways, and the one with the smaller loss on the search part is kept
  kNearest,  ///< each weight by itself
  kGptq,     ///< by the layer's outputs on the calibration part
};

struct QuantizeModelOptions {
  SubjectOptions subject;  ///< without data, losses are measured on made-up inputs and marked UNVERIFIED
  std::filesystem::path out;
  bool force = false;
  std::string engine = "openvino";
  std::string device = "cpu";
  std::optional<engine::Precision> precision;  ///< of both models when measured; absent: the recipe's, else f32
  int threads = 0;
  compress::LayerFormat format;           ///< of every layer with weights
  /// Of schemes for weights: `format` where the budget (absent: 5 %) allows, int8 or float for the layers that lose most
  /// (weight_mix.h).
  bool mixed = false;
  std::vector<std::string> float_layers;  ///< these stay as they are
  bool every_layer = false;               ///< of weights alone: the smallest layers too (quantize_plan.h)
  compress::QuantizeOptions quantize;
  compress::RangeMethod calibrate = compress::RangeMethod::kAuto;  ///< ranges of activations, when `format` has them
  Rounding rounding = Rounding::kAuto;
  std::optional<quality::LossBudget> budget;  ///< absent: any loss is accepted
  std::filesystem::path cache_dir;  ///< of calibrations, finished or interrupted; empty: in OUT/.work until the result is there
  std::int64_t pairs = 30;      ///< of interleaved timing
  double max_seconds = 120.0;   ///< of timing
  /// Absent: memory is not measured.
  std::function<MemoryUse(const std::filesystem::path& model, const engine::CompileOptions&)> probe_memory;
  std::string command;  ///< as typed, for the report
  std::map<std::string, std::string> versions;
};

/// What both models are measured with.
[[nodiscard]] engine::CompileOptions compile_options_of(const QuantizeModelOptions& options, const Subject& subject);

/// Stores the weights of every layer in one format, and measures what that cost: the written file, loaded afresh, beside
/// the original on data set apart for it. Writes OUT/model.onnx, OUT/model.recipe.toml, report.json and report.html as one
/// set.
///
/// \throws Error{kLossBudget} when the loss is above the budget; Error of any kind; OUT is then as it was before
[[nodiscard]] report::Report quantize_model(const QuantizeModelOptions& options, const Host& host);

/// What quantize_model() would do with one layer.
struct QuantizeForecast {
  std::vector<report::LayerRecord> layers;  ///< without weight errors
  std::int64_t bytes_before = 0;  ///< of all weights and other constants
  std::int64_t bytes_after = 0;
  std::int64_t opset = 0;       ///< of the written model
  double encode_seconds = 0.0;  ///< extrapolated from a part of the weights
  /// Of all: calibrating and refining on the data, encoding, measuring the result. From the time that one run of the original
  /// takes here; a mix (`mixed`) takes longer by as many trials as it needs.
  double total_seconds = 0.0;
  std::int64_t peak_memory_bytes = 0;  ///< of this process; 0 without probe_memory
};

/// Sizes, time and memory without writing anything: reads model and data, runs the original a few times and encodes a part
/// of its largest weight.
[[nodiscard]] QuantizeForecast forecast_quantize(const QuantizeModelOptions& options, const Host& host);

}  // namespace tempera::optimize
