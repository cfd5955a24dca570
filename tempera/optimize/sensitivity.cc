#include "tempera/optimize/sensitivity.h"

#include <algorithm>
#include <memory>
#include <optional>

#include <fmt/format.h>

#include "tempera/base/error.h"
#include "tempera/base/hash.h"
#include "tempera/compress/quantize/layers.h"
#include "tempera/engine/engines.h"
#include "tempera/optimize/candidate.h"
#include "tempera/optimize/fill_report.h"
#include "tempera/optimize/losses.h"
#include "tempera/optimize/reference.h"
#include "tempera/optimize/subject.h"

namespace tempera::optimize {
namespace {

using compress::ActivationFormat;
using compress::Layer;
using compress::LayerFormat;
using compress::QuantizationPlan;
using compress::WeightFormat;

constexpr std::string_view kWeightsSuffix = "-weights";

constexpr WeightFormat kStored[] = {WeightFormat::kFloat16, WeightFormat::kBfloat16, WeightFormat::kFloat8E4M3FN,
                                    WeightFormat::kFloat8E5M2, WeightFormat::kInt8, WeightFormat::kInt4,
                                    WeightFormat::kInt2, WeightFormat::kTernary, WeightFormat::kBinary};

// Measures one layer in one format after another.
class Meter {
 public:
  Meter(const SensitivityOptions& options, const Host& host) : options_(options), host_(host) {
    subject_ = load_subject(options.subject, host);
    engine_ = engine::make_engine(options.engine);
    compile_ = options.compile;
    compile_.input_shapes = subject_.input_shapes;
  }

  report::SensitivityReport run() {
    const std::vector<Layer> layers = compress::find_layers(subject_.model.graph);
    if (layers.empty()) {
      throw Error(ErrorCode::kInvalidArgument, "the model has no layer with weights to change");
    }
    open_reference();
    calibrate(layers);
    fill_header();
    host_.progress.begin("measuring each layer alone", static_cast<std::int64_t>(layers.size() * options_.formats.size()));
    for (const Layer& layer : layers) {
      report::SensitivityRow row{layer.name, layer.op_type, layer.multiplications, 0, {}};
      if (const auto weight = layer.has_weight() ? subject_.model.graph.constant(layer.weight) : std::nullopt) {
        row.weight_bytes = static_cast<std::int64_t>(weight->bytes().size());
      }
      for (const std::string& format : options_.formats) {
        row.cells.push_back(measure(layer, layer_format_from_string(format)));
        host_.progress.advance();
      }
      report_.rows.push_back(std::move(row));
    }
    host_.progress.end();
    return std::move(report_);
  }

 private:
  void open_reference() {
    engine::CompileOptions exact = compile_;
    exact.precision = engine::Precision::kFloat32;
    exact.exact = true;
    reference_ = optimize::open_reference(subject_, *engine_, options_.engine, exact, host_);
    for (const std::string& note : reference_.notes) {
      host_.log.warning(note);
    }
    std::vector<std::size_t> indices = subject_.split.search;
    indices.resize(std::min(indices.size(), options_.samples));
    losses_.emplace(subject_, *reference_.session, indices, kHeldBytes, host_);
  }

  // Ranges for every layer alone, which is how they are measured.
  void calibrate(const std::vector<Layer>& layers) {
    QuantizationPlan plan;
    for (const std::string& name : options_.formats) {
      const LayerFormat format = layer_format_from_string(name);
      if (format.activations != ActivationFormat::kFloat) {
        for (const Layer& layer : layers) {
          plan[layer.name] = format;
        }
      }
    }
    if (plan.empty()) {
      return;
    }
    compress::CalibrateOptions calibrate;
    calibrate.method = options_.range_method;
    calibrate.workers = subject_.workers;
    calibrate.cache_dir = options_.cache_dir;
    calibrate.compile = compile_;
    calibrate.compile.precision = engine::Precision::kFloat32;
    calibration_ = compress::calibrate(subject_.model,
                                       compress::activation_tensors_whole_and_alone(subject_.model, plan, options_.quantize),
                                       *subject_.dataset, subject_.split.calibrate, *engine_, calibrate, host_);
  }

  void fill_header() {
    report_.command = options_.command;
    report_.created = now_utc();
    report_.model = fingerprint(options_.subject.model);
    report_.data.sha256 = to_hex(subject_.dataset->hash());
    for (const std::filesystem::path& path : options_.subject.data) {
      report_.data.path += (report_.data.path.empty() ? "" : " ") + path.string();
    }
    report_.random_data = subject_.random_data;
    report_.samples = static_cast<std::int64_t>(losses_->samples());
    report_.engine = options_.engine;
    report_.precision = std::string(engine::to_string(compile_.precision));
    report_.formats = options_.formats;
    const auto session = engine_->compile(subject_.model, compile_);
    report_.float_loss = worst_relative_l2(losses_->measure(*session, losses_->samples(), host_));
  }

  report::SensitivityCell measure(const Layer& layer, const LayerFormat& format) {
    host_.cancel.throw_if_cancelled();
    if (!layer.has_weight() && format.activations == ActivationFormat::kFloat) {
      return {std::nullopt, "it has no weights"};
    }
    const compress::Quantized quantized =
        compress::quantize(subject_.model, {{layer.name, format}}, &calibration_, options_.quantize);
    const auto record = std::find_if(quantized.layers.begin(), quantized.layers.end(),
                                     [&](const compress::LayerRecord& r) { return r.layer == layer.name; });
    if (record != quantized.layers.end() && !record->why.empty()) {
      return {std::nullopt, record->why};
    }
    try {
      const auto session = engine_->compile(quantized.model, compile_);
      return {worst_relative_l2(losses_->measure(*session, losses_->samples(), host_)), ""};
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kCancelled || error.code() == ErrorCode::kInternal) {
        throw;
      }
      return {std::nullopt, error.what()};
    }
  }

  const SensitivityOptions& options_;
  const Host& host_;
  Subject subject_;
  std::unique_ptr<engine::Engine> engine_;
  engine::CompileOptions compile_;
  Reference reference_;
  std::optional<LossMeter> losses_;
  compress::Calibration calibration_;
  report::SensitivityReport report_;
};

}  // namespace

LayerFormat layer_format_from_string(const std::string& name) {
  std::vector<std::string> known = {"int8"};
  for (const WeightFormat format : kStored) {
    known.push_back(std::string(compress::to_string(format)) + std::string(kWeightsSuffix));
  }
  if (name == "int8") {
    return {WeightFormat::kInt8, {}, ActivationFormat::kInt8};
  }
  if (name.ends_with(kWeightsSuffix)) {
    const std::string stem = name.substr(0, name.size() - kWeightsSuffix.size());
    const std::optional<WeightFormat> format = compress::weight_format_from_string(stem);
    if (format.has_value() && *format != WeightFormat::kFloat) {
      return {*format, {}, ActivationFormat::kFloat};
    }
  }
  throw Error(ErrorCode::kInvalidArgument, unknown_name("format", name, known));
}

report::SensitivityReport measure_sensitivity(const SensitivityOptions& options, const Host& host) {
  for (const std::string& format : options.formats) {
    (void)layer_format_from_string(format);
  }
  try {
    return Meter(options, host).run();
  } catch (Error& error) {
    error.in(fmt::format("model {}", options.subject.model.string()));
    throw;
  }
}

}  // namespace tempera::optimize
