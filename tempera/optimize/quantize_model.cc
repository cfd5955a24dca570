#include "tempera/optimize/quantize_model.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "tempera/base/error.h"
#include "tempera/base/file.h"
#include "tempera/base/output_folder.h"
#include "tempera/compress/quantize/layers.h"
#include "tempera/compress/quantize/refine.h"
#include "tempera/engine/engines.h"
#include "tempera/onnx/read.h"
#include "tempera/onnx/write.h"
#include "tempera/optimize/candidate.h"
#include "tempera/optimize/fill_report.h"
#include "tempera/optimize/history.h"
#include "tempera/optimize/losses.h"
#include "tempera/optimize/pictures.h"
#include "tempera/optimize/quantize_plan.h"
#include "tempera/optimize/reference.h"
#include "tempera/optimize/scatter.h"
#include "tempera/optimize/subject.h"
#include "tempera/optimize/weights_alone.h"

namespace tempera::optimize {
namespace {

namespace fs = std::filesystem;
using engine::Precision;

constexpr double kKeptSmall = 0.5;  // of the bytes saved on disk: an engine keeps weights as stored, or unpacks them all
report::LayerRecord record_of(const compress::LayerRecord& layer) {
  report::LayerRecord record;
  record.layer = layer.layer;
  record.op_type = layer.op_type;
  record.format = layer.format.to_string();
  record.reason = layer.why;
  record.weight_error = layer.weight_relative_l2;
  record.bytes_before = layer.bytes_before;
  record.bytes_after = layer.bytes_after;
  return record;
}

std::string format_name(const QuantizeModelOptions& options) {
  return options.mixed ? fmt::format("{} where the budget allows", options.format.to_string()) : options.format.to_string();
}

// The header and the rows of a report are those of `optimize`.
OptimizeOptions report_options(const QuantizeModelOptions& options) {
  OptimizeOptions made;
  made.subject = options.subject;
  made.subject.random_data = true;
  made.out = options.out;
  made.engine = options.engine;
  made.device = options.device;
  made.precision = options.precision;
  made.threads = options.threads;
  made.budget = options.budget.value_or(quality::LossBudget{});
  made.pairs = options.pairs;
  made.command = options.command;
  made.versions = options.versions;
  return made;
}

class Flow {
 public:
  Flow(const QuantizeModelOptions& options, const Host& host)
      : options_(options), host_(host), out_(options.out, options.force), engine_(engine::make_engine(options.engine)) {}

  report::Report run() {
    out_.refuse_input(options_.subject.model);
    read_subject();
    engine::CompileOptions exact = compile_;
    exact.precision = Precision::kFloat32;
    exact.exact = true;
    reference_ = open_reference(subject_, *engine_, options_.engine, exact, host_);
    report_.notes.insert(report_.notes.end(), reference_.notes.begin(), reference_.notes.end());
    std::vector<std::size_t> judging = subject_.split.search;
    judging.resize(std::min(judging.size(), kLossSamples));
    meter_.emplace(subject_, *reference_.session, judging, kHeldBytes, host_);
    write_quantized();
    meter_.reset();
    measure_written_file();
    measure_memory();
    fill_report();
    std::error_code ignored;  // what cannot be removed is taken up by its key, or never read
    fs::remove_all(calibrations(), ignored);
    out_.commit({"model.onnx", "model.onnx.data", "model.recipe.toml", "report.json", "report.html"});
    return std::move(report_);
  }

 private:
  // Kept from an interrupted run to the next; gone once there is a result.
  [[nodiscard]] fs::path calibrations() const { return out_.work() / "calibrations"; }

  void read_subject() {
    subject_ = load_subject(options_.subject, host_);
    compile_ = compile_options_of(options_, subject_);
  }

  void write_quantized() {
    const std::vector<compress::Layer> layers = compress::find_layers(subject_.model.graph);
    const LayerPlan plan = plan_layers(subject_.model.graph, layers, options_);
    std::map<std::string, double> alone;
    compress::Quantized quantized;
    if (options_.format.activations == compress::ActivationFormat::kFloat) {
      StoredWeights stored =
          store_weights(subject_, *engine_, compile_, *meter_, layers, plan.formats, options_, host_);
      quantized = std::move(stored.quantized);
      alone = std::move(stored.alone);
      report_.notes.insert(report_.notes.end(), stored.notes.begin(), stored.notes.end());
    } else {
      quantized = quantized_with_activations(plan.formats);
    }
    for (const compress::LayerRecord& layer : quantized.layers) {
      if (layer.bytes_before > 0 || !layer.why.empty()) {
        report_.layers.push_back(record_of(layer));
        if (const auto loss = alone.find(layer.layer); loss != alone.end()) {
          report_.layers.back().sensitivity = loss->second;
        }
        const auto reason = plan.reasons.find(layer.layer);
        if (layer.why.empty() && reason != plan.reasons.end()) {
          report_.layers.back().reason = reason->second;
        }
      }
    }
    if (const std::size_t inside = compress::count_layers_in_bodies(subject_.model.graph); inside > 0) {
      report_.notes.push_back(fmt::format("{} layers inside bodies of If, Loop or Scan stay as they are", inside));
    }
    if (quantized.model.opset() != subject_.model.opset()) {
      report_.notes.push_back(fmt::format("the file's opset rose from {} to {}, which the format needs",
                                          subject_.model.opset(), quantized.model.opset()));
    }
    add_to_history(quantized.model, "quantize: " + format_name(options_));
    onnx::write_model(quantized.model, out_.staging() / "model.onnx");
    data::write_recipe(out_.staging() / "model.recipe.toml", deploy_recipe(subject_.recipe, options_.engine, compile_));
  }

  // Weights and activations: refinements are judged on the search part, in the engine and precision that will run.
  compress::Quantized quantized_with_activations(const compress::QuantizationPlan& plan) {
    compress::RefineOptions settings;
    settings.calibrate.method = options_.calibrate;
    settings.calibrate.workers = subject_.workers;
    settings.calibrate.cache_dir = options_.cache_dir.empty() ? calibrations() : options_.cache_dir;
    settings.calibrate.compile = compile_;
    settings.calibrate.compile.precision = Precision::kFloat32;
    compress::Refined refined = compress::quantize_refined(
        subject_.model, plan, options_.quantize, *subject_.dataset, subject_.split.calibrate, *engine_, settings,
        [this](const graph::Model& model) { return search_loss(model); }, host_);
    std::string text;
    for (const compress::Refinement& refinement : refined.refinements) {
      text += fmt::format("{}{} {:.3g}{}", text.empty() ? "" : ", ", refinement.name, refinement.loss,
                          refinement.kept ? "" : " (taken back)");
    }
    report_.notes.push_back("refinements by relative L2 of the worst output on the search part: " + text);
    report_.notes.push_back(fmt::format("activations calibrated on {} samples by {}", refined.calibration.samples,
                                        compress::to_string(options_.calibrate)));
    return std::move(refined.quantized);
  }

  // Relative L2 of the worst output, mean over samples of the search part.
  double search_loss(const graph::Model& model) {
    const std::unique_ptr<engine::Session> session = engine_->compile(model, compile_);
    return worst_relative_l2(meter_->measure(*session, meter_->samples(), host_));
  }

  // What was written is loaded afresh and runs beside the original, with the options that both would ship with.
  void measure_written_file() {
    original_.name = fmt::format("original {}", engine::to_string(compile_.precision));
    original_.model = std::make_shared<const graph::Model>(subject_.model);
    shipped_.name = fmt::format("as written ({}, {})", format_name(options_), engine::to_string(compile_.precision));
    shipped_.model = std::make_shared<const graph::Model>(onnx::read_model(out_.staging() / "model.onnx"));
    shipped_.rewritten = true;
    shipped_.history = history_of(*shipped_.model);
    const std::vector<data::Sample> samples = load_samples(subject_, subject_.split.verify, kTimedSamples);
    for (Candidate* candidate : {&original_, &shipped_}) {
      candidate->options = compile_;
      host_.progress.begin("compiling " + candidate->name, 0);
      prepare(*candidate, *engine_, subject_, samples);
      if (candidate->session == nullptr) {
        throw Error(ErrorCode::kEngineFailed,
                    fmt::format("{} does not run in {}: {}", candidate->name, options_.engine, candidate->failure),
                    fmt::format("tempera inspect {}", options_.subject.model.string()));
      }
    }
    const std::vector<Contender> contenders = {{original_.name, original_.session.get()},
                                               {shipped_.name, shipped_.session.get()}};
    const auto losses =
        measure_losses(subject_, *reference_.session, contenders, subject_.split.verify, host_);
    original_.losses = losses[0];
    shipped_.losses = losses[1];
    judge_loss();
    engine::TimingOptions timing;
    timing.pairs = options_.pairs;
    timing.max_seconds = options_.max_seconds;
    time_candidates({&original_, &shipped_}, subject_, samples, timing, host_);
  }

  void judge_loss() {
    const quality::LossBudget any{quality::LossBudget::Kind::kRelative, std::numeric_limits<double>::infinity(), ""};
    original_.verdict = quality::judge(options_.budget.value_or(any), original_.losses);
    shipped_.verdict = quality::judge(options_.budget.value_or(any), shipped_.losses);
    if (options_.budget.has_value() && !shipped_.verdict.within) {
      throw Error(ErrorCode::kLossBudget,
                  fmt::format("{} loses too much: {}", format_name(options_), shipped_.verdict.text),
                  "a wider format, smaller blocks, or --keep-float for the layers that lose most");
    }
  }

  // Weights that are stored small help in memory only where the engine keeps them so.
  void measure_memory() {
    if (!options_.probe_memory) {
      return;
    }
    host_.progress.begin("measuring memory", 0);
    before_ = options_.probe_memory(options_.subject.model, compile_);
    after_ = options_.probe_memory(out_.staging() / "model.onnx", compile_);
    std::int64_t saved_on_disk = 0;
    for (const report::LayerRecord& layer : report_.layers) {
      saved_on_disk += layer.bytes_before - layer.bytes_after;
    }
    if (saved_on_disk == 0) {
      return;
    }
    const bool smaller = static_cast<double>(before_.loaded_bytes - after_.loaded_bytes) >
                         kKeptSmall * static_cast<double>(saved_on_disk);
    const std::string sizes = fmt::format("{} once loaded and run, {} before", report::human_bytes(after_.loaded_bytes),
                                          report::human_bytes(before_.loaded_bytes));
    report_.notes.push_back(smaller ? fmt::format("smaller in memory too: {}", sizes)
                                    : fmt::format("{}: {}", computes_in_codes() ? "not smaller in memory"
                                                                             : "smaller on disk only: " + options_.engine + " unpacks the weights",
                                                   sizes));
  }

  // Else the engine needs the weights as floats.
  [[nodiscard]] bool computes_in_codes() const {
    return options_.format.activations == compress::ActivationFormat::kInt8 && engine_->attributes().integer_layers;
  }

  void fill_report() {
    const OptimizeOptions header = report_options(options_);
    fill_header(report_, header, subject_);
    report_.settings["format"] = format_name(options_);
    report_.settings["target"] = std::string(compress::to_string(options_.quantize.target));
    report_.settings["max loss"] = options_.budget ? options_.budget->to_string() : "any";
    std::vector<Candidate> candidates;
    candidates.push_back(std::move(original_));
    fill_results(report_, header, subject_, *engine_, candidates, 0, shipped_, out_.staging() / "model.onnx", host_);
    report_.pictures = make_pictures(subject_, *candidates.front().session, *shipped_.session);
    report_.scatters = make_scatters(subject_, *candidates.front().session, *shipped_.session);
    report_.layers_of = shipped_.name;
    report_.nodes.clear();  // of the original alone
    report_.changed = true;
    report::Candidate& before = report_.candidates.front();
    report::Candidate& after = report_.candidates.back();
    before.verdict = "the reference";
    after.verdict = options_.budget ? "verified: " + shipped_.verdict.text
                                    : fmt::format("{} of output '{}' is {:.3g}%; no budget was given",
                                                  shipped_.verdict.measured, shipped_.verdict.output,
                                                  100.0 * shipped_.verdict.loss);
    before.chosen = false;
    before.peak_memory_bytes = before_.peak_bytes;
    after.peak_memory_bytes = after_.peak_bytes;
    const quality::OutputLoss& worst = *std::max_element(
        shipped_.losses.begin(), shipped_.losses.end(),
        [](const auto& a, const auto& b) { return a.relative_l2 < b.relative_l2; });
    report_.summary = fmt::format(
        "{:.1f} % of the original's size ({} instead of {}) in {}; {:.2f} ms a run instead of {:.2f}; output '{}' differs by "
        "{:.2g} (relative L2, mean of {} samples{}).",
        100.0 * static_cast<double>(after.file_bytes) / static_cast<double>(before.file_bytes),
        report::human_bytes(after.file_bytes), report::human_bytes(before.file_bytes), format_name(options_),
        after.latency.median_ms, before.latency.median_ms, worst.output, worst.relative_l2, subject_.split.verify.size(),
        subject_.random_data ? ", made up: UNVERIFIED" : "");
    if (!subject_.random_data && !subject_.split.sufficient) {
      report_.notes.push_back("insufficient data: " + subject_.split.reason + "; quality figures are no claim");
    }
    write_text_file(out_.staging() / "report.json", report::to_json(report_));
    write_text_file(out_.staging() / "report.html", report::to_html(report_));
  }

  const QuantizeModelOptions& options_;
  const Host& host_;
  OutputFolder out_;
  std::unique_ptr<engine::Engine> engine_;
  Subject subject_;
  engine::CompileOptions compile_;
  Reference reference_;
  std::optional<LossMeter> meter_;  ///< while weights are chosen
  Candidate original_;
  Candidate shipped_;
  MemoryUse before_;
  MemoryUse after_;
  report::Report report_;
};

}  // namespace

engine::CompileOptions compile_options_of(const QuantizeModelOptions& options, const Subject& subject) {
  const Precision of_recipe =
      engine::precision_from_string(subject.recipe.deploy.precision).value_or(Precision::kFloat32);
  return compile_options_for(subject, options.precision.value_or(of_recipe), options.device, options.threads);
}

report::Report quantize_model(const QuantizeModelOptions& options, const Host& host) { return Flow(options, host).run(); }

}  // namespace tempera::optimize
