#include "tempera/optimize/mix.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "tempera/base/hash.h"
#include "tempera/compress/quantize/refine.h"
#include "tempera/onnx/infer.h"
#include "tempera/optimize/node_times.h"

namespace tempera::optimize {
namespace {

constexpr std::int64_t kRoughPairs = 8;  // of timing a mix against the base, for the curve

}  // namespace

MixBench::MixBench(const Candidate& base, const LossMeter& meter, const Subject& subject, const engine::Engine& engine,
                   const FormatSearchOptions& options, const Host& host)
    : base_(base),
      meter_(meter),
      subject_(subject),
      engine_(engine),
      options_(options),
      host_(host),
      style_(options.quantize),
      model_(*base.model),
      samples_(load_samples(subject, subject.split.search, 1)) {
  onnx::infer_types(model_, subject.input_shapes);
  layers_ = compress::find_layers(model_.graph);
}

void MixBench::rename_trial(const std::string& from, const std::string& to) {
  for (report::Trial& trial : trials_) {
    trial.name = trial.name == from ? to : trial.name;
  }
}

void MixBench::calibrate(const compress::QuantizationPlan& plan) {
  calibrate_tensors(compress::activation_tensors_whole_and_alone(model_, plan, style_));
}

void MixBench::calibrate_tensors(const std::vector<std::string>& tensors) {
  compress::Calibration found = compress::calibrate(model_, tensors, *subject_.dataset, subject_.split.calibrate, engine_,
                                                    options_.calibrate, host_);
  calibration_.ranges.merge(found.ranges);
  calibration_.samples = found.samples;
  calibration_.engine = found.engine;
}

void MixBench::calibrate_missing(const compress::QuantizationPlan& plan) {
  std::vector<std::string> missing = compress::activation_tensors(model_, plan, style_);
  std::erase_if(missing, [&](const std::string& name) { return calibration_.ranges.contains(name); });
  if (!missing.empty()) {
    calibrate_tensors(missing);
  }
}

std::optional<Mix> MixBench::compile(const std::string& name, const compress::QuantizationPlan& plan) {
  calibrate_missing(plan);
  return prepared(name, plan, compress::quantize(model_, plan, &calibration_, style_));
}

std::optional<Mix> MixBench::prepared(const std::string& name, const compress::QuantizationPlan& plan,
                                      compress::Quantized quantized) {
  Mix mix;
  mix.plan = plan;
  mix.records = std::move(quantized.layers);
  mix.bytes = graph::weight_size(quantized.model.graph).bytes;
  if (!style_.zero_points) {
    mix.refinements.emplace_back("no zero points");
  }
  if (style_.join_codes) {
    mix.refinements.emplace_back("joined codes");
  }
  mix.candidate.name = fmt::format("{}: {}", base_.name, name);
  mix.candidate.model = std::make_shared<const graph::Model>(std::move(quantized.model));
  mix.candidate.options = base_.options;
  mix.candidate.rewritten = true;
  prepare(mix.candidate, engine_, subject_, samples_);
  if (mix.candidate.session == nullptr) {
    notes_.push_back(fmt::format("{} does not run: {}", mix.candidate.name, mix.candidate.failure));
    return std::nullopt;
  }
  return mix;
}

std::optional<Mix> MixBench::measure(const std::string& name, const compress::QuantizationPlan& plan) {
  host_.cancel.throw_if_cancelled();
  std::optional<Mix> mix = compile(name, plan);
  if (mix.has_value()) {
    measure(*mix, question("losses", plan));
  }
  return mix;
}

std::optional<Mix> MixBench::measure_refined(const std::string& name, const compress::QuantizationPlan& plan) {
  compress::RefineOptions refine;
  refine.calibrate = options_.calibrate;
  int step = 0;
  const auto loss = [&](const graph::Model& model) {
    const auto session = engine_.compile(model, base_.options);
    return worst_relative_l2(losses_of(*session, question(fmt::format("losses at step {} of refining", step++), plan)));
  };
  compress::Refined refined = compress::quantize_refined(model_, plan, style_, *subject_.dataset,
                                                         subject_.split.calibrate, engine_, refine, loss, host_);
  std::optional<Mix> mix = prepared(name, plan, std::move(refined.quantized));
  if (mix.has_value()) {
    for (const compress::Refinement& refinement : refined.refinements) {
      if (refinement.kept && refinement.name != "none") {
        mix->refinements.push_back(refinement.name);
      }
    }
    measure(*mix, question("losses refined", plan));
  }
  return mix;
}

std::string MixBench::question(std::string_view what, const compress::QuantizationPlan& plan) const {
  std::string text;
  for (const auto& [layer, format] : plan) {
    text += fmt::format("{}={}\n", layer, format.to_string());
  }
  return fmt::format("{} of {}{}{} with plan {} on {} samples", what, base_.name, style_.zero_points ? "" : " without zero points",
                     style_.join_codes ? " with joined codes" : "", to_hex(sha256(text)), meter_.samples());
}

// An answer holds the numbers of each output in turn; names of outputs and metrics are those of the base.
std::vector<quality::OutputLoss> MixBench::losses_of(engine::Session& session, const std::string& question) {
  constexpr std::size_t kNumbers = 5;
  const std::optional<std::vector<double>> known = options_.answers != nullptr ? options_.answers->find(question) : std::nullopt;
  if (known.has_value() && known->size() == kNumbers * base_.losses.size()) {
    std::vector<quality::OutputLoss> losses = base_.losses;
    for (std::size_t i = 0; i < losses.size(); ++i) {
      const double* numbers = known->data() + kNumbers * i;
      losses[i].relative_l2 = numbers[0];
      losses[i].sqnr_db = numbers[1];
      losses[i].worst_relative_l2 = numbers[2];
      losses[i].metric_before = numbers[3];
      losses[i].metric_after = numbers[4];
      losses[i].worst_sample.clear();
    }
    return losses;
  }
  std::vector<quality::OutputLoss> losses = meter_.measure(session, meter_.samples(), host_);
  std::vector<double> numbers;
  for (const quality::OutputLoss& loss : losses) {
    numbers.insert(numbers.end(),
                   {loss.relative_l2, loss.sqnr_db, loss.worst_relative_l2, loss.metric_before, loss.metric_after});
  }
  if (options_.answers != nullptr && std::all_of(numbers.begin(), numbers.end(), [](double n) { return std::isfinite(n); })) {
    options_.answers->add(question, numbers);
  }
  return losses;
}

void MixBench::measure(Mix& mix, const std::string& question) {
  mix.candidate.losses = losses_of(*mix.candidate.session, question);
  mix.candidate.verdict = quality::judge(options_.budget, mix.candidate.losses);
  mix.loss = worst_relative_l2(mix.candidate.losses);
  engine::TimingOptions timing;
  timing.pairs = kRoughPairs;
  timing.warmup = 2;
  mix.latency_ms = comparable_ms(base_, *options_.original) / speedup(base_, mix.candidate, timing).median;
  trials_.push_back({mix.candidate.name, mix.loss, mix.latency_ms, mix.bytes, mix.candidate.verdict.within, false});
  if (options_.best != nullptr && mix.candidate.verdict.within) {
    options_.best->offer(mix.candidate, mix.latency_ms);
  }
  host_.log.info(fmt::format("{}: {:.2f} ms, loss {:.3g}, {:.1f} MB", mix.candidate.name, mix.latency_ms, mix.loss,
                             static_cast<double>(mix.bytes) / 1e6));
}

engine::PairedSpeedup MixBench::speedup(const Candidate& baseline, const Candidate& contender,
                                        const engine::TimingOptions& timing) const {
  const auto baseline_inputs = input_sets(subject_, samples_, *baseline.session);
  const auto contender_inputs = input_sets(subject_, samples_, *contender.session);
  const std::vector<engine::Timed> timed = {{baseline.session.get(), baseline_inputs},
                                            {contender.session.get(), contender_inputs}};
  return engine::time_interleaved(timed, timing, host_).back().speedup;
}

std::vector<engine::NodeTime> MixBench::node_times(const Candidate& candidate) const {
  return optimize::node_times(engine_, subject_, candidate);
}

}  // namespace tempera::optimize
