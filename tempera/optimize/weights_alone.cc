#include "tempera/optimize/weights_alone.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <memory>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "tempera/compress/quantize/bias_correction.h"
#include "tempera/compress/quantize/encode.h"
#include "tempera/compress/quantize/hessians.h"
#include "tempera/engine/torch/torch_engine.h"
#include "tempera/optimize/candidate.h"
#include "tempera/optimize/losses.h"
#include "tempera/optimize/weight_mix.h"

namespace tempera::optimize {
namespace {

// 16,384 vectors: eight times the largest factorised block; from few samples codes fit those alone.
constexpr std::int64_t kVectorsASample = 256;

class WeightStorer {
 public:
  WeightStorer(const Subject& subject, const engine::Engine& engine, const engine::CompileOptions& compile,
               const LossMeter& meter, const std::vector<compress::Layer>& layers, const compress::QuantizationPlan& plan,
               const QuantizeModelOptions& options, const Host& host)
      : subject_(subject), engine_(engine), compile_(compile), plan_(plan), options_(options), host_(host),
        meter_(meter) {
    std::copy_if(layers.begin(), layers.end(), std::back_inserter(planned_),
                 [&](const compress::Layer& layer) { return plan.find(layer.name) != plan.end(); });
    exact_ = compile;
    exact_.device = "cpu";
    exact_.precision = engine::Precision::kFloat32;
    exact_.exact = true;
  }

  StoredWeights run() {
    result_.quantized = options_.mixed ? by_sensitivity() : all_alike();
    return std::move(result_);
  }

 private:
  // Made-up inputs say nothing about what a layer meets.
  [[nodiscard]] bool may_learn_from_data() const {
    return !subject_.random_data && compress::has_scales(options_.format.weights);
  }

  [[nodiscard]] compress::Quantized quantize(const compress::QuantizationPlan& plan, const compress::Hessians* hessians) const {
    compress::QuantizeOptions settings = options_.quantize;
    settings.hessians = hessians;
    return compress::quantize(subject_.model, plan, nullptr, settings);
  }

  [[nodiscard]] std::vector<quality::OutputLoss> losses(const graph::Model& model, std::size_t most) const {
    return meter_.measure(*engine_.compile(model, compile_), most, host_);
  }
  [[nodiscard]] double loss(const graph::Model& model) const { return worst_relative_l2(losses(model, meter_.samples())); }

  compress::Quantized all_alike() {
    host_.progress.begin("quantising", 0);
    if (!may_learn_from_data() && options_.rounding != Rounding::kGptq) {
      return quantize(plan_, nullptr);
    }
    struct Trial {
      const char* name;
      compress::Quantized quantized;
    };
    compress::Hessians hessians;
    std::vector<Trial> trials;
    if (options_.rounding != Rounding::kGptq) {
      trials.push_back({"rounding", quantize(plan_, nullptr)});
    }
    if (options_.rounding != Rounding::kNearest) {
      hessians = collect_hessians();
      trials.push_back({"GPTQ", quantize(plan_, &hessians)});
    }
    Trial* best = nullptr;
    double least = 0.0;
    std::string text;
    for (Trial& trial : trials) {
      const double found = loss(trial.quantized.model);
      text += fmt::format("{}{} {:.3g}", text.empty() ? "" : ", ", trial.name, found);
      if (best == nullptr || found < least) {
        best = &trial;
        least = found;
      }
    }
    if (may_learn_from_data()) {
      graph::Model corrected = best->quantized.model;
      if (correct_means(corrected)) {
        const double found = loss(corrected);
        text += fmt::format(", then bias correction {:.3g}{}", found, found < least ? "" : " (taken back)");
        if (found < least) {
          best->quantized.model = std::move(corrected);
        }
      }
    }
    result_.notes.push_back(fmt::format("codes chosen by {}; relative L2 of the worst output on the search part: {}", best->name, text));
    return std::move(best->quantized);
  }

  // The planned format where the budget allows, 8 bits or float for the layers that need it.
  compress::Quantized by_sensitivity() {
    quality::LossBudget budget = options_.budget.value_or(quality::LossBudget::parse_max_loss("5%"));
    if (budget.kind == quality::LossBudget::Kind::kRelative) {
      budget.limit *= kRoomToVerify;
    }
    WeightMixOptions settings;
    settings.narrow = options_.format;
    settings.wide = {compress::WeightFormat::kInt8, {}, compress::ActivationFormat::kFloat};
    settings.quantize = options_.quantize;
    settings.rough_loss = [&](const graph::Model& model) { return worst_relative_l2(losses(model, kSamplesToRank)); };
    settings.loss = [&](const graph::Model& model) {
      const auto measured = losses(corrected(model), meter_.samples());
      return std::pair{worst_relative_l2(measured), quality::judge(budget, measured).within};
    };
    compress::Hessians hessians;
    if (options_.rounding != Rounding::kNearest && may_learn_from_data()) {
      hessians = collect_hessians();
      settings.hessians = &hessians;
    }
    WeightMix mix = mix_weights(subject_.model, planned_, settings, host_);
    result_.alone = std::move(mix.alone);
    const auto count = [&](compress::WeightFormat format) {
      return std::count_if(mix.plan.begin(), mix.plan.end(), [&](const auto& entry) { return entry.second.weights == format; });
    };
    result_.notes.push_back(fmt::format(
        "{} layers in {}, {} in int8 ({} of both by GPTQ), {} in float: relative L2 of the worst output on the search part {:.3g}{}",
        count(options_.format.weights), options_.format.to_string(), count(compress::WeightFormat::kInt8), mix.hessians.size(),
        planned_.size() - mix.plan.size(), mix.loss, mix.within ? "" : ", over the budget"));
    compress::Quantized stored = quantize(mix.plan, &mix.hessians);
    stored.model = corrected(std::move(stored.model));
    return stored;
  }

  // With what each layer's output lacks on average added to its bias, where there are data to tell.
  [[nodiscard]] graph::Model corrected(graph::Model model) const {
    if (may_learn_from_data()) {
      (void)correct_means(model);
    }
    return model;
  }

  // \return whether any bias changed
  [[nodiscard]] bool correct_means(graph::Model& quantized) const {
    return compress::correct_biases(quantized, compress::measure_bias_errors(subject_.model, quantized, *subject_.dataset,
                                                                             subject_.split.calibrate, engine_, exact_, host_)) > 0;
  }

  // Second moments of the layers' inputs, from the interpreter, which shows inner values as they are made.
  [[nodiscard]] compress::Hessians collect_hessians() const {
    compress::HessianCollector collector(subject_.model.graph, planned_, kVectorsASample, options_.subject.seed);
    const std::unique_ptr<engine::TorchSession> session = engine::make_torch_engine()->compile_torch(subject_.model, exact_);
    session->set_observer([&](std::string_view name, const graph::Tensor& tensor) { collector.add(name, tensor); });
    const std::vector<data::Sample> samples = load_samples(subject_, subject_.split.calibrate, kHessianSamples);
    host_.progress.begin("collecting second moments", static_cast<std::int64_t>(samples.size()));
    for (const std::vector<graph::Tensor>& inputs : input_sets(subject_, samples, *session)) {
      host_.cancel.throw_if_cancelled();
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        collector.add(session->inputs()[i].name, inputs[i]);
      }
      (void)session->run(inputs);
      host_.progress.advance();
    }
    host_.progress.end();
    return collector.take();
  }

  const Subject& subject_;
  const engine::Engine& engine_;
  const engine::CompileOptions& compile_;
  const compress::QuantizationPlan& plan_;
  const QuantizeModelOptions& options_;
  const Host& host_;
  const LossMeter& meter_;
  engine::CompileOptions exact_;  ///< f32 on the CPU, for the interpreter and for means
  std::vector<compress::Layer> planned_;
  StoredWeights result_;
};

}  // namespace

StoredWeights store_weights(const Subject& subject, const engine::Engine& engine, const engine::CompileOptions& compile,
                            const LossMeter& meter, const std::vector<compress::Layer>& layers,
                            const compress::QuantizationPlan& plan, const QuantizeModelOptions& options, const Host& host) {
  return WeightStorer(subject, engine, compile, meter, layers, plan, options, host).run();
}

}  // namespace tempera::optimize
