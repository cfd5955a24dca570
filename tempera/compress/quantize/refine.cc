#include "tempera/compress/quantize/refine.h"

#include <utility>

#include <fmt/format.h>

#include "tempera/compress/quantize/bias_correction.h"
#include "tempera/compress/quantize/equalize.h"
#include "tempera/compress/quantize/smooth_quant.h"
#include "tempera/onnx/infer.h"

namespace tempera::compress {
namespace {

constexpr double kPowersOfSmoothing[] = {1.0, 0.6};  // where activations and weights both have outliers, half the way is better

class Refiner {
 public:
  Refiner(const QuantizationPlan& plan, const QuantizeOptions& options, const data::Dataset& dataset,
          const std::vector<std::size_t>& samples, const engine::Engine& engine,
          const RefineOptions& settings, const std::function<double(const graph::Model&)>& loss,
          const Host& host)
      : plan_(plan),
        options_(options),
        dataset_(dataset),
        samples_(samples),
        engine_(engine),
        settings_(settings),
        calibrate_(settings.calibrate),
        loss_(loss),
        host_(host) {}

  Refined run(const graph::Model& model) {
    best_ = quantize_float(model);
    loss_of_best_ = loss_(best_.quantized.model);
    refinements_.push_back({"none", loss_of_best_, true});
    if (settings_.correct_bias) {
      Candidate corrected = best_;
      if (correct(corrected)) {
        correct_bias_ = try_candidate("bias correction", std::move(corrected));
      }
    }
    if (settings_.other_ranges && settings_.calibrate.method == RangeMethod::kAuto) {
      for (const RangeMethod method : {RangeMethod::kMinMax, RangeMethod::kMse}) {
        try_ranges(method);
      }
    }
    if (settings_.equalize) {
      graph::Model changed = best_.float_model;
      if (!equalize(changed).layers.empty()) {
        try_float("cross-layer equalisation", changed);
      }
    }
    if (settings_.smooth) {
      const graph::Model before = best_.float_model;
      for (const double power : kPowersOfSmoothing) {
        graph::Model changed = before;
        if (!smooth(changed, layer_names(), dataset_, samples_, engine_, calibrate_.compile, host_, {.power = power}).empty()) {
          try_float(power == 1.0 ? "SmoothQuant" : fmt::format("SmoothQuant to the power {}", power), changed);
        }
      }
    }
    return {std::move(best_.quantized), std::move(best_.calibration), std::move(refinements_)};
  }

 private:
  struct Candidate {
    graph::Model float_model;
    Quantized quantized;
    Calibration calibration;
  };

  Candidate quantize_float(const graph::Model& model) {
    Candidate candidate;
    candidate.float_model = model;
    onnx::infer_types(candidate.float_model, calibrate_.compile.input_shapes);
    candidate.calibration = calibrate(model, activation_tensors(candidate.float_model, plan_, options_),
                                      dataset_, samples_, engine_, calibrate_, host_);
    candidate.quantized = quantize(model, plan_, &candidate.calibration, options_);
    return candidate;
  }

  bool correct(Candidate& candidate) {
    return correct_biases(candidate.quantized.model,
                          measure_bias_errors(candidate.float_model, candidate.quantized.model, dataset_,
                                              samples_, engine_, calibrate_.compile, host_)) > 0;
  }

  void try_ranges(RangeMethod method) {
    const RangeMethod before = std::exchange(calibrate_.method, method);
    if (!try_float(fmt::format("{} ranges", to_string(method)), best_.float_model)) {
      calibrate_.method = before;
    }
  }

  bool try_float(const std::string& name, const graph::Model& model) {
    Candidate candidate = quantize_float(model);
    if (correct_bias_) {
      correct(candidate);
    }
    return try_candidate(name, std::move(candidate));
  }

  bool try_candidate(const std::string& name, Candidate candidate) {
    const double loss = loss_(candidate.quantized.model);
    const bool better = loss < loss_of_best_;
    refinements_.push_back({name, loss, better});
    if (better) {
      best_ = std::move(candidate);
      loss_of_best_ = loss;
    }
    return better;
  }

  [[nodiscard]] std::vector<std::string> layer_names() const {
    std::vector<std::string> names;
    for (const auto& [name, format] : plan_) {
      if (format.activations != ActivationFormat::kFloat) {
        names.push_back(name);
      }
    }
    return names;
  }

  const QuantizationPlan& plan_;
  const QuantizeOptions& options_;
  const data::Dataset& dataset_;
  const std::vector<std::size_t>& samples_;
  const engine::Engine& engine_;
  const RefineOptions& settings_;
  CalibrateOptions calibrate_;
  const std::function<double(const graph::Model&)>& loss_;
  const Host& host_;
  Candidate best_;
  double loss_of_best_ = 0.0;
  bool correct_bias_ = false;
  std::vector<Refinement> refinements_;
};

}  // namespace

Refined quantize_refined(const graph::Model& model, const QuantizationPlan& plan,
                         const QuantizeOptions& options, const data::Dataset& dataset,
                         const std::vector<std::size_t>& samples, const engine::Engine& engine,
                         const RefineOptions& settings,
                         const std::function<double(const graph::Model&)>& loss, const Host& host) {
  return Refiner(plan, options, dataset, samples, engine, settings, loss, host).run(model);
}

}  // namespace tempera::compress
