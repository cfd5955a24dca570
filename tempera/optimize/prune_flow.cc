#include "tempera/optimize/prune_flow.h"

#include <algorithm>
#include <array>
#include <memory>
#include <set>

#include <fmt/format.h>
#include <zlib.h>

#include "tempera/base/error.h"
#include "tempera/base/file.h"
#include "tempera/base/output_folder.h"
#include "tempera/compress/prune/repair.h"
#include "tempera/engine/engines.h"
#include "tempera/engine/torch/torch_engine.h"
#include "tempera/onnx/infer.h"
#include "tempera/onnx/opset.h"
#include "tempera/onnx/read.h"
#include "tempera/onnx/text.h"
#include "tempera/onnx/write.h"
#include "tempera/ops/flops.h"
#include "tempera/optimize/candidate.h"
#include "tempera/optimize/fill_report.h"
#include "tempera/optimize/history.h"
#include "tempera/optimize/losses.h"
#include "tempera/optimize/reference.h"
#include "tempera/optimize/pictures.h"
#include "tempera/optimize/scatter.h"
#include "tempera/optimize/subject.h"
#include "tempera/pass/runner.h"

namespace tempera::optimize {
namespace {

// Shape arithmetic becomes constants, so that the analysis can follow it; nothing else changes.
constexpr std::array<std::string_view, 5> kFolding = {"remove_dead", "constants_to_initializers",
                                                      "fold_shapes", "fold_constants", "remove_no_ops"};

// Size of all weights after zlib at its default level, each tensor by itself: what zeros save when a file is
// compressed.
std::int64_t deflated_bytes(const graph::Graph& graph) {
  std::int64_t total = 0;
  std::set<const std::byte*> seen;
  for (const graph::ValueId id : graph.values()) {
    const auto& constant = graph.value(id).constant;
    if (!constant || !numeric::is_float(constant->type()) || !seen.insert(constant->bytes().data()).second) {
      continue;
    }
    const std::span<const std::byte> bytes = constant->bytes();
    uLongf size = compressBound(static_cast<uLong>(bytes.size()));
    std::vector<Bytef> packed(size);
    const int status = compress2(packed.data(), &size, reinterpret_cast<const Bytef*>(bytes.data()),
                                 static_cast<uLong>(bytes.size()), Z_DEFAULT_COMPRESSION);
    TEMPERA_CHECK(status == Z_OK, "zlib refused to compress weights");
    total += static_cast<std::int64_t>(size);
  }
  return total;
}

// One run of prune(); the steps are called in the order in which they stand.
class Flow {
 public:
  Flow(const PruneOptions& options, const Host& host)
      : options_(options),
        common_(options.common),
        host_(host),
        out_(common_.out, common_.force),
        engine_(engine::make_engine(common_.engine)) {}

  report::Report run() {
    out_.refuse_input(common_.subject.model);
    read_subject();
    options_.structured ? remove_channels() : set_zeros();
    write_result();
    measure_written_file();
    write_report();
    out_.commit({"model.onnx", "model.onnx.data", "model.recipe.toml", "report.json", "report.html"});
    return std::move(report_);
  }

 private:
  void read_subject() {
    if (common_.subject.data.empty() && !common_.subject.random_data) {
      throw Error(ErrorCode::kInvalidArgument,
                  "pruning loses quality, and without data nothing tells how much",
                  "give --data DIR, or --data random (the report then says UNVERIFIED)");
    }
    subject_ = load_subject(common_.subject, host_);
    fill_header(report_, common_, subject_);
    if (!subject_.random_data && !subject_.split.sufficient) {
      report_.notes.push_back("insufficient data: " + subject_.split.reason +
                              "; quality figures are no claim");
    }
    if (!options_.enforce_budget) {
      report_.notes.push_back(
          fmt::format("no --max-loss was given: the loss is shown beside {}, and nothing depends on it",
                      common_.budget.to_string()));
    }
  }

  // 1a. Structured.
  void remove_channels() {
    host_.progress.begin("looking for channels that belong together", 0);
    graph::Model model = onnx::inline_functions(subject_.model);
    std::vector<pass::Step> steps;
    std::copy_if(pass::pipeline().begin(), pass::pipeline().end(), std::back_inserter(steps),
                 [](const pass::Step& step) {
                   return std::find(kFolding.begin(), kFolding.end(), step.pass.name) != kFolding.end();
                 });
    const auto evaluator = engine::make_torch_evaluator();
    pass::RunOptions run;
    run.context.evaluator = evaluator.get();
    run.context.target_engine = common_.engine;
    run.input_shapes = subject_.recipe.deploy.shapes;
    pass::run_passes(model, run, steps);
    compress::ChannelPruned pruned = compress::prune_channels(model, options_.channels);
    note_channels(pruned);
    if (options_.repair) {
      repair(model, pruned, *evaluator);
    }
    result_ = std::move(pruned.model);
  }

  void repair(const graph::Model& model, compress::ChannelPruned& pruned,
              const engine::Evaluator& evaluator) {
    const std::vector<data::Sample> samples =
        load_samples(subject_, subject_.split.calibrate, options_.repair_samples);
    const compress::NamedInputs inputs = [&](std::size_t sample, const std::vector<std::string>& names) {
      return arrange_inputs(samples[sample], subject_.model.graph, names);
    };
    compress::RepairOptions fitting;
    fitting.seed = common_.subject.seed;
    fitting.compile = compile_options(engine::Precision::kFloat32);
    report::PassRecord record;
    record.name = "fit anew";
    for (const compress::RepairRecord& layer :
         compress::repair(model, pruned.model, pruned.readers, samples.size(), inputs, *engine_, evaluator,
                          fitting, host_)) {
      if (layer.skipped.empty()) {
        record.rewrites.push_back({layer.layer, fmt::format("relative L2 error {:.3g} -> {:.3g}",
                                                            layer.error_before, layer.error_after)});
      } else {
        record.skipped.push_back({layer.layer, layer.skipped});
      }
    }
    report_.settings["fitted on"] = fmt::format("{} calibration samples", samples.size());
    report_.passes.push_back(std::move(record));
  }

  void note_channels(const compress::ChannelPruned& pruned) {
    report::PassRecord record;
    record.name = "remove channels";
    std::size_t approximate = 0;
    for (const compress::GroupRecord& group : pruned.groups) {
      std::string others;
      for (std::size_t i = 1; i < group.layers.size(); ++i) {
        others += (i == 1 ? ", with those of " : ", ") + group.layers[i];
      }
      record.rewrites.push_back(
          {group.name, fmt::format("{} -> {} channels, {:.1f} % of their importance{}", group.channels_before,
                                   group.channels_after, 100.0 * group.importance_lost, others)});
      approximate += group.approximate ? 1 : 0;
    }
    for (const compress::Barrier& barrier : pruned.barriers) {
      record.skipped.push_back(
          {barrier.layer,
           fmt::format("{} of {} channels stay: {}{}", barrier.channels, barrier.of, barrier.reason,
                       barrier.node.empty() ? "" : " (" + barrier.node + ")")});
    }
    report_.settings["method"] = "channels";
    report_.settings["pruning ratio"] = fmt::format("{:g}", options_.channels.pruning_ratio);
    report_.settings["ranking"] = options_.channels.global ? "global" : "within each group";
    report_.settings["norm"] = options_.channels.norm == compress::WeightNorm::kL1 ? "L1" : "L2";
    report_.settings["align"] = std::to_string(options_.channels.align);
    report_.notes.push_back(
        fmt::format("{} groups of channels that belong together; {} places where channels had to stay",
                    record.rewrites.size(), record.skipped.size()));
    if (approximate > 0) {
      report_.notes.push_back(
          fmt::format("{} of the groups are normalised over their own channels (LayerNormalization or a "
                      "mean): even removing zeros "
                      "shifts what is left",
                      approximate));
    }
    report_.passes.push_back(std::move(record));
  }

  // 1b. Unstructured.
  void set_zeros() {
    using Pattern = compress::SparsifyOptions::Pattern;
    host_.progress.begin("setting weights to zero", 0);
    compress::Sparsified sparse = compress::sparsify(subject_.model, options_.zeros);
    for (const compress::SparseLayer& layer : sparse.layers) {
      report::LayerRecord record;
      record.layer = layer.layer;
      record.op_type = layer.op_type;
      record.format = fmt::format("{} of {} zero", layer.zeros_after, layer.weights);
      record.reason = layer.skipped;
      report_.layers.push_back(std::move(record));
    }
    report_.figures.push_back({"zero weights", "", static_cast<double>(sparse.zeros_before),
                               static_cast<double>(sparse.zeros_after)});
    const bool n_of_m = options_.zeros.pattern == Pattern::kNOfM;
    report_.settings["method"] = n_of_m ? fmt::format("{}:{}", options_.zeros.n, options_.zeros.m)
                                 : options_.zeros.pattern == Pattern::kGlobal ? "l1-global"
                                                                              : "l1-layer";
    if (!n_of_m) {
      report_.settings["sparsity"] = fmt::format("{:g}", options_.zeros.sparsity);
    }
    report_.notes.push_back(fmt::format(
        "{} of {} weights are zero now ({:.4g} %). A dense engine computes with zeros as with other numbers, "
        "so this alone "
        "makes nothing faster and the file no smaller; only compressed does it shrink. --method channels "
        "removes work",
        sparse.zeros_after, sparse.weights,
        sparse.weights > 0
            ? 100.0 * static_cast<double>(sparse.zeros_after) / static_cast<double>(sparse.weights)
            : 0.0));
    if (n_of_m) {
      report_.notes.emplace_back("GPUs with sparse tensor cores can use 2:4; none of the engines here does");
    }
    result_ = std::move(sparse.model);
  }

  // 2. Checked by the ONNX project's checker, then staged; nothing is visible yet.
  void write_result() {
    add_to_history(result_, "prune: " + step());
    onnx::check_model(result_);
    out_.restart();
    onnx::write_model(result_, out_.staging() / "model.onnx");
    data::write_recipe(out_.staging() / "model.recipe.toml",
                       deploy_recipe(subject_.recipe, common_.engine, compile_options(precision())));
  }

  [[nodiscard]] std::string step() const {
    const auto amount = [&](const char* setting) {
      const auto found = report_.settings.find(setting);
      return found == report_.settings.end() ? std::string() : fmt::format(", {} {}", setting, found->second);
    };
    return report_.settings.at("method") + amount("pruning ratio") + amount("sparsity") + (options_.repair ? ", fitted anew" : "");
  }

  [[nodiscard]] engine::Precision precision() const {
    return common_.precision.value_or(engine::Precision::kFloat32);
  }

  [[nodiscard]] engine::CompileOptions compile_options(engine::Precision precision) const {
    engine::CompileOptions compile = compile_options_for(subject_, precision, common_.device, common_.threads);
    compile.cache_dir = common_.cache_dir;
    return compile;
  }

  // 3. Old and new side by side, on the verification part.
  void measure_written_file() {
    const std::vector<data::Sample> samples = load_samples(subject_, subject_.split.verify, kTimedSamples);
    original_.name = fmt::format("original {}", engine::to_string(precision()));
    original_.model = std::make_shared<const graph::Model>(subject_.model);
    shipped_.name = fmt::format("pruned {}, as written", engine::to_string(precision()));
    shipped_.model = std::make_shared<const graph::Model>(onnx::read_model(out_.staging() / "model.onnx"));
    shipped_.rewritten = true;
    shipped_.history = history_of(*shipped_.model);
    for (Candidate* candidate : {&original_, &shipped_}) {
      host_.progress.begin("compiling " + candidate->name, 0);
      candidate->options = compile_options(precision());
      prepare(*candidate, *engine_, subject_, samples);
      if (candidate->session == nullptr) {
        throw Error(ErrorCode::kEngineFailed, fmt::format("{} does not run in {}: {}", candidate->name,
                                                          common_.engine, candidate->failure));
      }
    }
    open_reference();
    const auto losses =
        measure_losses(subject_, *reference_,
                       {{original_.name, original_.session.get()}, {shipped_.name, shipped_.session.get()}},
                       subject_.split.verify, host_);
    original_.losses = losses[0];
    shipped_.losses = losses[1];
    original_.verdict = quality::judge(common_.budget, original_.losses);
    shipped_.verdict = quality::judge(common_.budget, shipped_.losses);
    if (options_.enforce_budget && !shipped_.verdict.within) {
      throw Error(ErrorCode::kLossBudget, shipped_.verdict.text,
                  "prune less, or leave out --max-loss to see the result all the same; nothing was written");
    }
    engine::TimingOptions timing;
    timing.pairs = common_.pairs;
    timing.max_seconds = common_.max_seconds;
    time_candidates({&original_, &shipped_}, subject_, samples, timing, host_);
  }

  void open_reference() {
    engine::CompileOptions exact = compile_options(engine::Precision::kFloat32);
    exact.exact = true;
    Reference reference = optimize::open_reference(subject_, *engine_, common_.engine, exact, host_);
    reference_ = std::move(reference.session);
    report_.notes.insert(report_.notes.end(), reference.notes.begin(), reference.notes.end());
  }

  // 4. The report; the same set as optimize() writes.
  void write_report() {
    add_figures();
    hash_settings(report_);
    std::vector<Candidate> candidates;
    std::vector<report::PassRecord> passes = std::move(report_.passes);
    candidates.push_back(std::move(original_));
    candidates.emplace_back();
    candidates.back().name = "pruned";
    candidates.back().model = shipped_.model;
    candidates.back().options = shipped_.options;
    candidates.back().rewritten = true;
    fill_results(report_, common_, subject_, *engine_, candidates, 1, shipped_, out_.staging() / "model.onnx",
                 host_);
    report_.passes = std::move(passes);
    report_.candidates.erase(report_.candidates.begin() + 1);  // the same as the written file
    report_.candidates.back().verdict =
        (report_.verified ? "verified: " : "measured: ") + shipped_.verdict.text;
    report_.candidates.front().verdict = "the reference";
    const engine::PairedSpeedup& speedup = shipped_.timing.speedup;
    report_.summary = fmt::format(
        "Pruned: {:.2f} times the speed ({:.2f} ms a run instead of {:.2f}; at least {:.2f} times at 95 % "
        "confidence{}), {}.",
        speedup.median, report_.candidates.back().latency.median_ms,
        report_.candidates.front().latency.median_ms, speedup.lower95,
        speedup.faster() ? "" : ", which is not beyond chance", shipped_.verdict.text);
    report_.pictures = make_pictures(subject_, *candidates.front().session, *shipped_.session);
    report_.scatters = make_scatters(subject_, *candidates.front().session, *shipped_.session);
    write_text_file(out_.staging() / "report.json", report::to_json(report_));
    write_text_file(out_.staging() / "report.html", report::to_html(report_));
  }

  void add_figures() {
    const auto flops = [&](const graph::Model& model) {
      graph::Model shaped = model;
      onnx::infer_types(shaped, subject_.input_shapes);
      return ops::count_flops(shaped.graph);
    };
    const graph::WeightSize before = graph::weight_size(subject_.model.graph);
    const graph::WeightSize after = graph::weight_size(shipped_.model->graph);
    report_.figures.push_back(
        {"parameters", "", static_cast<double>(before.elements), static_cast<double>(after.elements)});
    report_.figures.push_back(
        {"weights", "bytes", static_cast<double>(before.bytes), static_cast<double>(after.bytes)});
    report_.figures.push_back({"weights, compressed by zlib", "bytes",
                               static_cast<double>(deflated_bytes(subject_.model.graph)),
                               static_cast<double>(deflated_bytes(shipped_.model->graph))});
    const ops::FlopCount old_flops = flops(subject_.model);
    const ops::FlopCount new_flops = flops(*shipped_.model);
    report_.figures.push_back(
        {"operations", "FLOP", static_cast<double>(old_flops.flops), static_cast<double>(new_flops.flops)});
    if (old_flops.unknown_nodes + new_flops.unknown_nodes > 0) {
      report_.notes.push_back(
          fmt::format("operations of {} nodes are not counted: their shapes are not known",
                      std::max(old_flops.unknown_nodes, new_flops.unknown_nodes)));
    }
  }

  const PruneOptions& options_;
  const OptimizeOptions& common_;
  const Host& host_;
  OutputFolder out_;
  std::unique_ptr<engine::Engine> engine_;
  Subject subject_;
  graph::Model result_;
  Candidate original_;
  Candidate shipped_;
  std::unique_ptr<engine::Session> reference_;
  report::Report report_;
};

}  // namespace

report::Report prune(const PruneOptions& options, const Host& host) { return Flow(options, host).run(); }

}  // namespace tempera::optimize
