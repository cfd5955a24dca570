#include "tempera/optimize/optimize.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <system_error>

#include <fmt/format.h>

#include "tempera/base/error.h"
#include "tempera/base/file.h"
#include "tempera/base/hash.h"
#include "tempera/base/output_folder.h"
#include "tempera/engine/engines.h"
#include "tempera/engine/measure/cpu.h"
#include "tempera/engine/measure/memory.h"
#include "tempera/engine/torch/torch_engine.h"
#include "tempera/onnx/read.h"
#include "tempera/onnx/write.h"
#include "tempera/optimize/answers.h"
#include "tempera/optimize/best_so_far.h"
#include "tempera/optimize/candidate.h"
#include "tempera/optimize/fill_report.h"
#include "tempera/optimize/format_search.h"
#include "tempera/optimize/history.h"
#include "tempera/optimize/losses.h"
#include "tempera/optimize/pictures.h"
#include "tempera/optimize/race.h"
#include "tempera/optimize/reference.h"
#include "tempera/optimize/reverting.h"
#include "tempera/optimize/rewrite.h"
#include "tempera/optimize/scatter.h"
#include "tempera/optimize/subject.h"
#include "tempera/optimize/weights_on_disk.h"

namespace tempera::optimize {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using engine::Precision;

constexpr double kShareOfAPart = 0.1;  // of all the time: what running one part of the data may take
constexpr std::size_t kFewestToCalibrate = 16;
constexpr std::size_t kFewestToVerify = 32;

// Without it an engine adds products of 8-bit integers in 16 bits, which saturates.
bool has_integer_dot_product() {
  const std::vector<std::string> features = engine::cpu_info().features;
  return std::any_of(features.begin(), features.end(), [](const std::string& feature) {
    return feature == "avx512_vnni" || feature == "avx_vnni" || feature == "amx_int8";
  });
}

// One run of optimize(); the steps below are called in the order in which they stand.
class Flow {
 public:
  Flow(const OptimizeOptions& options, const Host& host)
      : options_(options),
        host_(host),
        out_(options.out, options.force),
        engine_(engine::make_engine(options.engine)),
        evaluator_(engine::make_torch_evaluator()) {}

  report::Report run() {
    try {
      return run_to_the_end();
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kCancelled && best_.has_value() && best_->written()) {
        throw Error(error.code(), error.what(),
                    fmt::format("the same command goes on; the best so far, not verified, is in {}", best_->folder().string()));
      }
      throw;
    }
  }

 private:
  report::Report run_to_the_end() {
    out_.refuse_input(options_.subject.model);
    read_subject();
    compile_original();
    check_reference();
    propose_candidates();
    measure_candidates();
    revert_what_does_not_help();
    search_number_formats();
    write_choice();
    verify_written_file();
    answers_.forget();
    best_->forget();
    std::error_code ignored;  // what cannot be removed is taken up by its key, or never read
    fs::remove_all(calibrations(), ignored);
    out_.commit({"model.onnx", "model.onnx.data", "model.recipe.toml", "report.json", "report.html"});
    return std::move(report_);
  }

  // 1. The model, how to feed it, and data in three disjoint parts.
  void read_subject() {
    subject_ = load_subject(options_.subject, host_);
    move_weights_to_disk(subject_.model, out_.work());
    race_.emplace(options_, subject_, *engine_, host_);
    fill_header(report_, options_, subject_);
    if (!subject_.random_data && !subject_.split.sufficient) {
      report_.notes.push_back("insufficient data: " + subject_.split.reason +
                              "; quality figures are no claim");
    }
  }

  // Kept, as the answers are, from an interrupted run to the next.
  [[nodiscard]] fs::path calibrations() const { return out_.work() / "calibrations"; }

  [[nodiscard]] bool may_lose() const { return !subject_.random_data || options_.subject.random_data; }

  // 2. The original as it is, in the first precision.
  void compile_original() {
    precisions_ = engine_->attributes().precisions;
    if (options_.precision.has_value()) {
      precisions_ = {*options_.precision};
    } else if (!may_lose()) {
      precisions_ = {Precision::kFloat32};
      report_.notes.emplace_back(
          "no data was given: only lossless rewrites were tried; give --data DIR (or --data random, "
          "unverified) to try lower "
          "precisions");
    }
    race_->add(race_->compiled(false, precisions_.front(), std::make_shared<const graph::Model>(subject_.model)));
    close(race_->original());
    if (!race_->original().failure.empty()) {
      throw Error(
          ErrorCode::kEngineFailed,
          fmt::format("the original does not run in {}: {}", options_.engine, race_->original().failure),
          fmt::format("tempera inspect {}", options_.subject.model.string()));
    }
  }

  // What losses are measured against.
  void check_reference() {
    const Reference reference =
        open_reference(subject_, *engine_, options_.engine, race_->exact_options(), host_);
    race_->set_engine_is_wrong(reference.engine_is_wrong);
    if (!options_.allow_non_finite && !reference.engine_is_wrong) {
      require_finite_reference(subject_, *engine_, *reference.session, race_->exact_options());
    }
    report_.notes.insert(report_.notes.end(), reference.notes.begin(), reference.notes.end());
  }

  // 3. The original in each other precision, and the same after the rewrites. A few rounds tell who has no chance.
  void propose_candidates() {
    host_.progress.begin("rewriting", 0);
    const Rewritten after = rewrite_without(options_.skip_passes, options_.dump_after);
    report_.passes = after.passes;
    Candidate& original = race_->original();
    std::vector<Candidate> proposed;
    {
      const Opened open(original, *engine_);
      time_candidates({&original}, subject_, race_->samples(), race_->rough_timing(), host_);
      for (const bool rewritten : {false, true}) {
        for (const Precision precision : precisions_) {
          if (rewritten ? after.changed : precision != original.options.precision) {
            proposed.push_back(race_->compiled(rewritten, precision, rewritten ? after.model : original.model));
            race_->time_roughly(proposed.back());
            close(proposed.back());
          }
        }
      }
    }
    for (Candidate& candidate : proposed) {
      if (!candidate.failure.empty()) {
        report_.notes.push_back(fmt::format("{} does not run: {}", candidate.name, candidate.failure));
      }
      race_->add(std::move(candidate));
    }
  }

  // 4. Quality on the search part, against the original in f32; then latency in full, beside the original, of those that
  // could still win.
  void measure_candidates() {
    leave_out_samples_beyond_the_time();
    race_->measure_all();
    note_short_timing(race_->original().timing);
    best_.emplace(out_.work() / "best", subject_.recipe, options_.engine);
    if (race_->chosen_index() != 0) {
      best_->offer(race_->chosen(), race_->latency_of(race_->chosen()));
    }
  }

  // A part that would take more than its share of the time is thinned out; what the report claims is of what stays.
  void leave_out_samples_beyond_the_time() {
    const double run = race_->original().timing.latency.median_ms / 1e3;
    const auto leave_out = [&](const char* purpose, std::vector<std::size_t>& part, double runs, std::size_t least) {
      const double fitting = kShareOfAPart * options_.total_seconds / std::max(run * runs, 1e-9);
      const std::size_t all = part.size();
      if (thin_out(part, std::max(least, static_cast<std::size_t>(std::min(fitting, 1e9))))) {
        report_.notes.push_back(fmt::format("{} of {} samples were used to {}: more would take more than {:.0f} % of --time",
                                            part.size(), all, purpose, 100 * kShareOfAPart));
      }
    };
    leave_out("calibrate", subject_.split.calibrate, 1.5, kFewestToCalibrate);
    leave_out("search", subject_.split.search, 2.0 * static_cast<double>(race_->running().size()), kFewestToCalibrate);
    leave_out("verify", subject_.split.verify, 2.0, kFewestToVerify);
    fill_samples(report_, subject_.split);
  }

  // Too few pairs decide little: the report says that time was the reason.
  void note_short_timing(const engine::Timing& timing) {
    if (timing.speedup.pairs < engine::kFewestPairs) {
      report_.notes.push_back(
          fmt::format("{} pairs were timed; with fewer than {} only gains above {} times count: raise --pairs or --seconds",
                      timing.speedup.pairs, engine::kFewestPairs, engine::kLargeGain));
    }
  }

  // 5. Each pass that fired must earn its place: where the model without it is faster beyond chance, it goes. Tried on
  // the fastest rewritten candidate within the budget, even when the original beats it: it may not without the pass
  // at fault.
  void revert_what_does_not_help() {
    const std::optional<std::size_t> which = race_->fastest_rewritten();
    if (!options_.try_reverting || !which.has_value()) {
      return;
    }
    const PassTrial trial{
        .subject = subject_,
        .engine = *engine_,
        .samples = race_->samples(),
        .timing = race_->timing_options(0.3),
        .rewrite = [this](const std::vector<std::string>& skipped) { return rewrite_without(skipped); },
    };
    bool reverted = false;
    {
      Candidate& candidate = race_->candidates()[*which];
      const Opened open(candidate, *engine_);
      reverted = revert_passes(candidate, report_.passes, options_.skip_passes, trial, host_);
    }
    if (reverted) {
      race_->measure_again(*which);
    }
  }

  // 6. Number formats below the floats', starting from the fastest float candidate; when its own rounding leaves no
  // room in the budget, from the fastest in f32.
  void search_number_formats() {
    if (!options_.search_formats || !may_lose() || !engine_->attributes().integer_layers) {
      return;
    }
    FormatSearchOptions search;
    search.budget = options_.budget;
    if (search.budget.kind == quality::LossBudget::Kind::kRelative) {
      search.budget.limit *= kRoomToVerify;
    }
    search.pairs = options_.pairs;
    search.original = &race_->original();
    search.quantize.seven_bit_weights = !has_integer_dot_product();
    search.calibrate.method = options_.range_method;
    search.calibrate.workers = subject_.workers;
    search.calibrate.cache_dir = options_.cache_dir.empty() ? calibrations() : options_.cache_dir;
    search.calibrate.compile = race_->compile_options(Precision::kFloat32);
    if (search.quantize.seven_bit_weights) {
      report_.notes.emplace_back("this CPU adds products of 8-bit integers in 16 bits: weights keep 7 bits");
    }
    FormatSearchResult found;
    answers_ = Answers(out_.work() / "answers.jsonl", answers_key());
    if (answers_.size() > 0) {
      host_.log.info(fmt::format("{} measurements of an interrupted run are used again", answers_.size()));
    }
    search.answers = &answers_;
    search.best = &*best_;
    std::unique_ptr<const LossMeter> meter;
    for (const std::vector<Candidate*>& bases : race_->bases_of_search()) {
      search.max_seconds = seconds_left() - verification_seconds();
      if (search.max_seconds <= 0) {
        report_.notes.emplace_back("the time given left none for the search of number formats: raise --time");
        break;
      }
      if (meter == nullptr) {
        const double run_seconds = race_->original().timing.latency.median_ms / 1e3;
        meter = meter_of_search(*race_->compile_reference(), subject_, run_seconds, search.max_seconds, host_);
      }
      FormatSearchResult more = search_formats(bases, *meter, subject_, *engine_, search, host_);
      report_.notes.insert(report_.notes.end(), more.notes.begin(), more.notes.end());
      report_.trials.insert(report_.trials.end(), more.trials.begin(), more.trials.end());
      report_.layers = std::move(more.layers);
      found = std::move(more);
      if (!found.candidates.empty()) {
        break;
      }
    }
    report_.loss_name = "relative L2 of the worst output against the original, on the search part";
    report_.loss_limit = options_.budget.kind == quality::LossBudget::Kind::kRelative ? options_.budget.limit : 0.0;
    report_.layers_of = found.candidates.empty() ? "" : found.candidates.front().name;
    for (const Candidate* candidate : race_->running()) {
      report_.trials.push_back({candidate->name, worst_relative_l2(candidate->losses), race_->latency_of(*candidate),
                                candidate->weight_bytes, candidate->verdict.within, false});
    }
    race_->choose_among(std::move(found.candidates));
  }

  [[nodiscard]] double seconds_left() const {
    return options_.total_seconds - std::chrono::duration<double>(Clock::now() - start_).count();
  }

  // What measuring the result once more in full will take, from what measuring the original took: timing the new
  // candidates and the written file, its quality on the verification part, compiling and profiling.
  [[nodiscard]] double verification_seconds() {
    const Candidate& original = race_->original();
    const double run = original.timing.latency.median_ms / 1e3;
    const double timing = std::min(race_->timing_options(0.7).max_seconds, 7.0 * static_cast<double>(options_.pairs) * run);
    constexpr double kLoads = 26.0;  // to run, to profile, to measure memory, written and original; quantised models load slower
    return timing + 2.0 * run * static_cast<double>(subject_.split.verify.size()) + kLoads * original.load_ms / 1e3;
  }

  // Of everything that a measured loss depends on, but for the content of a program that the recipe names.
  [[nodiscard]] std::string answers_key() const {
    std::string text = report_.model.sha256 + data::to_toml(subject_.recipe) + to_hex(subject_.dataset->hash()) +
                       report_.settings_sha256 +
                       fmt::format("{} {}", subject_.split.calibrate.size(), subject_.split.search.size());
    for (const auto& [name, version] : options_.versions) {
      text += name + version;
    }
    for (const std::string& feature : engine::cpu_info().features) {
      text += feature;
    }
    return to_hex(sha256(text));
  }

  [[nodiscard]] Rewritten rewrite_without(const std::vector<std::string>& skipped,
                                          const std::string& dump_after = {}) const {
    RewriteOptions rewriting;
    rewriting.engine = options_.engine;
    rewriting.skip_passes = skipped;
    rewriting.dump_after = dump_after;
    rewriting.dump_folder = options_.dump_folder.empty() ? out_.work() / "dump" : options_.dump_folder;
    Rewritten after = rewrite(subject_, *evaluator_, rewriting, host_);
    graph::Model model = *after.model;
    move_weights_to_disk(model, out_.work());
    after.model = std::make_shared<const graph::Model>(std::move(model));
    return after;
  }

  // 7. Model and recipe go to the staging folder; nothing is visible yet.
  void write_choice() {
    const Candidate& candidate = race_->chosen();
    out_.restart();  // the set of a candidate that failed verification goes
    if (candidate.rewritten) {
      graph::Model written = *candidate.model;
      add_to_history(written, "optimize: " + candidate.name);
      onnx::write_model(written, out_.staging() / "model.onnx");
    } else {
      copy_original();
    }
    data::write_recipe(out_.staging() / "model.recipe.toml",
                       deploy_recipe(subject_.recipe, options_.engine, candidate.options));
  }

  // Byte for byte; external data is gathered into one file, since its own names may collide with ours.
  void copy_original() {
    if (fs::file_size(options_.subject.model) == 0 || has_external_data()) {
      onnx::write_model(onnx::read_model(options_.subject.model), out_.staging() / "model.onnx");
      return;
    }
    write_file(out_.staging() / "model.onnx", map_file(options_.subject.model).bytes());
  }

  [[nodiscard]] bool has_external_data() const {
    return graph::weight_size(subject_.model.graph).bytes >
           static_cast<std::int64_t>(fs::file_size(options_.subject.model));
  }

  // 8. What was written is loaded afresh and measured, with the options it ships with, on data neither the
  // rewrites nor the choice saw. When it fails here, the next best goes out instead, at last the original.
  void verify_written_file() {
    Candidate shipped;
    const Candidate& chosen = race_->chosen();
    shipped.name = fmt::format("as written ({})", chosen.name);
    shipped.rewritten = chosen.rewritten;
    shipped.options = chosen.options;
    graph::Model written = onnx::read_model(out_.staging() / "model.onnx");
    shipped.history = history_of(written);
    move_weights_to_disk(written, out_.work());
    shipped.model = std::make_shared<const graph::Model>(std::move(written));
    engine::release_freed_memory();
    const std::vector<data::Sample> samples = load_samples(subject_, subject_.split.verify, kTimedSamples);
    prepare(shipped, *engine_, subject_, samples);
    if (!shipped.failure.empty()) {
      throw Error(ErrorCode::kEngineFailed, "the written file does not run: " + shipped.failure)
          .in("verification");
    }
    race_->judge(shipped, *race_->compile_reference(), subject_.split.verify);
    Candidate& original = race_->original();
    {
      const Opened open(original, *engine_);
      time_against(original, shipped, subject_, samples, race_->timing_options(0.3), host_);
      report_.pictures = make_pictures(subject_, *original.session, *shipped.session);
      report_.scatters = make_scatters(subject_, *original.session, *shipped.session);
    }
    close(shipped);

    const bool is_original = race_->chosen_index() == 0;
    const bool mends = !original.verdict.within && shipped.verdict.within;
    if (!is_original && !mends && (!shipped.verdict.within || !shipped.timing.speedup.faster())) {
      const std::string why =
          fmt::format("failed verification ({}; {:.2f}x, at least {:.2f}x in {} pairs)", shipped.verdict.text,
                      shipped.timing.speedup.median, shipped.timing.speedup.lower95, shipped.timing.speedup.pairs);
      report_.notes.push_back(fmt::format("{} {}", shipped.name, why));
      race_->drop_chosen(why);
      write_choice();
      verify_written_file();
      return;
    }
    for (report::Trial& trial : report_.trials) {
      trial.chosen = trial.name == chosen.name;
    }
    fill_results(report_, options_, subject_, *engine_, race_->candidates(), race_->chosen_index(), shipped,
                 out_.staging() / "model.onnx", host_);
    write_text_file(out_.staging() / "report.json", report::to_json(report_));
    write_text_file(out_.staging() / "report.html", report::to_html(report_));
  }

  const Clock::time_point start_ = Clock::now();
  const OptimizeOptions& options_;
  const Host& host_;
  OutputFolder out_;
  std::unique_ptr<engine::Engine> engine_;
  std::unique_ptr<engine::Evaluator> evaluator_;
  Subject subject_;
  std::vector<Precision> precisions_;  ///< to try, the original's first
  std::optional<Race> race_;  ///< from the subject on
  Answers answers_;
  std::optional<BestSoFar> best_;
  report::Report report_;
};

}  // namespace

report::Report optimize(const OptimizeOptions& options, const Host& host) {
  return Flow(options, host).run();
}

}  // namespace tempera::optimize
