#include "tempera/optimize/optimize.h"

#include <algorithm>
#include <chrono>
#include <list>
#include <memory>
#include <optional>

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

constexpr double kHopeless = 1.5;  // times the fastest of a few rounds: noise of single runs stays below
constexpr double kSurelySlower = 1.1;  // times the original's latency in a few rounds
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
    out_.commit({"model.onnx", "model.onnx.data", "model.recipe.toml", "report.json", "report.html"});
    return std::move(report_);
  }

  // 1. The model, how to feed it, and data in three disjoint parts.
  void read_subject() {
    subject_ = load_subject(options_.subject, host_);
    move_weights_to_disk(subject_.model, out_.work());
    fill_header(report_, options_, subject_);
    if (!subject_.random_data && !subject_.split.sufficient) {
      report_.notes.push_back("insufficient data: " + subject_.split.reason +
                              "; quality figures are no claim");
    }
  }

  [[nodiscard]] bool may_lose() const { return !subject_.random_data || options_.subject.random_data; }

  // 2. The original as it is, in the first precision. From here on a model is compiled only for as long as it is asked,
  // with few others: it holds its own copy of the weights.
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
    candidates_.push_back(compiled(false, precisions_.front(), std::make_shared<const graph::Model>(subject_.model)));
    close(candidates_.front());
    if (!candidates_.front().failure.empty()) {
      throw Error(
          ErrorCode::kEngineFailed,
          fmt::format("the original does not run in {}: {}", options_.engine, candidates_.front().failure),
          fmt::format("tempera inspect {}", options_.subject.model.string()));
    }
  }

  // What losses are measured against.
  void check_reference() {
    const Reference reference =
        open_reference(subject_, *engine_, options_.engine, exact_options(), host_);
    engine_is_wrong_ = reference.engine_is_wrong;
    if (!options_.allow_non_finite && !engine_is_wrong_) {
      require_finite_reference(subject_, *engine_, *reference.session, exact_options());
    }
    report_.notes.insert(report_.notes.end(), reference.notes.begin(), reference.notes.end());
  }

  // 3. The original in each other precision, and the same after the rewrites. A few rounds tell who has no chance.
  void propose_candidates() {
    host_.progress.begin("rewriting", 0);
    const Rewritten after = rewrite_without(options_.skip_passes, options_.dump_after);
    report_.passes = after.passes;
    Candidate& original = candidates_.front();
    std::vector<Candidate> proposed;
    {
      const Opened open(original, *engine_);
      time_candidates({&original}, subject_, search_samples(), rough_timing(), host_);
      for (const bool rewritten : {false, true}) {
        for (const Precision precision : precisions_) {
          if (rewritten ? after.changed : precision != original.options.precision) {
            proposed.push_back(compiled(rewritten, precision, rewritten ? after.model : original.model));
            drop_if_slower(proposed.back(), original);
            close(proposed.back());
          }
        }
      }
    }
    std::move(proposed.begin(), proposed.end(), std::back_inserter(candidates_));
  }

  Candidate compiled(bool rewritten, Precision precision, std::shared_ptr<const graph::Model> model) {
    Candidate candidate;
    candidate.name = fmt::format("{} {}", rewritten ? "rewritten" : "original", engine::to_string(precision));
    candidate.model = std::move(model);
    candidate.rewritten = rewritten;
    candidate.options = compile_options(precision);
    host_.progress.begin("compiling " + candidate.name, 0);
    prepare(candidate, *engine_, subject_, search_samples());
    if (!candidate.failure.empty()) {
      const std::string note = fmt::format("{} does not run: {}", candidate.name, candidate.failure);
      if (options_.strict) {
        throw Error(ErrorCode::kEngineFailed, note);
      }
      report_.notes.push_back(note);
    }
    return candidate;
  }

  [[nodiscard]] engine::CompileOptions compile_options(Precision precision) const {
    engine::CompileOptions compile;
    compile.device = options_.device;
    compile.precision = precision;
    compile.threads = options_.threads > 0 ? options_.threads : subject_.recipe.deploy.threads;
    compile.input_shapes = subject_.input_shapes;
    compile.cache_dir = options_.cache_dir;
    compile.properties = subject_.recipe.deploy.properties;
    return compile;
  }

  // 4. Quality on the search part, against the original in f32; then latency in full, beside the original, of those that
  // could still win.
  void measure_candidates() {
    leave_out_samples_beyond_the_time();
    const std::vector<Candidate*> running = in_race();
    {
      const auto reference = compile_reference();
      for (Candidate* candidate : running) {
        judge(*candidate, *reference, subject_.split.search);
      }
    }
    time_in_turns(candidates_.front(), worth_timing(running), *engine_, subject_, search_samples(), timing_options(0.4), host_);
    chosen_ = choose(candidates_);
    note_short_timing(candidates_.front().timing);
    best_.emplace(out_.work() / "best", subject_.recipe, options_.engine);
    if (chosen_ != 0) {
      best_->offer(candidates_[chosen_], latency_of(candidates_[chosen_]));
    }
  }

  [[nodiscard]] double latency_of(const Candidate& candidate) const { return comparable_ms(candidate, candidates_.front()); }

  // Losses of the candidate on a part of the data, and what the budget says of them.
  void judge(Candidate& candidate, engine::Session& reference, const std::vector<std::size_t>& part) {
    const Opened open(candidate, *engine_);
    candidate.losses =
        measure_losses(subject_, reference, {{candidate.name, candidate.session.get()}}, part, host_).front();
    candidate.verdict = quality::judge(options_.budget, candidate.losses);
  }

  // The original, and what runs and was not dropped.
  [[nodiscard]] std::vector<Candidate*> in_race() {
    std::vector<Candidate*> running;
    for (Candidate& candidate : candidates_) {
      if (candidate.failure.empty() && candidate.dropped.empty()) {
        running.push_back(&candidate);
      }
    }
    return running;
  }

  // What is clearly slower than the original in a few rounds is not worth measuring the quality of, which may
  // take far longer. (An original that its engine computes wrongly is replaced by anything right: nothing goes then.)
  void drop_if_slower(Candidate& candidate, Candidate& original) {
    if (!candidate.failure.empty()) {
      return;
    }
    time_against(original, candidate, subject_, search_samples(), rough_timing(), host_);
    if (!engine_is_wrong_ && candidate.timing.speedup.median * kSurelySlower < 1.0) {
      candidate.dropped = fmt::format("{:.1f} times the original's latency in {} rounds", 1.0 / candidate.timing.speedup.median,
                                      candidate.timing.speedup.pairs);
    }
  }

  [[nodiscard]] engine::TimingOptions rough_timing() const {
    engine::TimingOptions rough = timing_options(0.02);
    rough.pairs = std::min<std::int64_t>(rough.pairs, 5);
    rough.warmup = 1;
    return rough;
  }

  // A part that would take more than its share of the time is thinned out; what the report claims is of what stays.
  void leave_out_samples_beyond_the_time() {
    const double run = candidates_.front().timing.latency.median_ms / 1e3;
    const auto leave_out = [&](const char* purpose, std::vector<std::size_t>& part, double runs, std::size_t least) {
      const double fitting = kShareOfAPart * options_.total_seconds / std::max(run * runs, 1e-9);
      const std::size_t all = part.size();
      if (thin_out(part, std::max(least, static_cast<std::size_t>(std::min(fitting, 1e9))))) {
        report_.notes.push_back(fmt::format("{} of {} samples were used to {}: more would take more than {:.0f} % of --time",
                                            part.size(), all, purpose, 100 * kShareOfAPart));
      }
    };
    leave_out("calibrate", subject_.split.calibrate, 1.5, kFewestToCalibrate);
    leave_out("search", subject_.split.search, 2.0 * static_cast<double>(in_race().size()), kFewestToCalibrate);
    leave_out("verify", subject_.split.verify, 2.0, kFewestToVerify);
    fill_samples(report_, subject_.split);
  }

  // Beside the original: those within the budget and not far behind the fastest of them by the rough times; the others
  // keep those.
  [[nodiscard]] std::vector<Candidate*> worth_timing(const std::vector<Candidate*>& running) const {
    double best = latency_of(*running.front());
    for (const Candidate* candidate : running) {
      if (candidate->verdict.within) {
        best = std::min(best, latency_of(*candidate));
      }
    }
    std::vector<Candidate*> kept;
    std::copy_if(running.begin() + 1, running.end(), std::back_inserter(kept), [&](const Candidate* candidate) {
      return candidate->verdict.within && latency_of(*candidate) < kHopeless * best;
    });
    return kept;
  }

  // Too few pairs decide little: the report says that time was the reason.
  void note_short_timing(const engine::Timing& timing) {
    if (timing.speedup.pairs < engine::kFewestPairs) {
      report_.notes.push_back(
          fmt::format("{} pairs were timed; with fewer than {} only gains above {} times count: raise --pairs or --seconds",
                      timing.speedup.pairs, engine::kFewestPairs, engine::kLargeGain));
    }
  }

  [[nodiscard]] engine::CompileOptions exact_options() const {
    engine::CompileOptions exact = compile_options(Precision::kFloat32);
    exact.exact = true;
    return exact;
  }

  [[nodiscard]] std::unique_ptr<engine::Session> compile_reference() const {
    return reopen_reference(subject_, *engine_, exact_options(), engine_is_wrong_);
  }

  // 5. Each pass that fired must earn its place: where the model without it is faster beyond chance, it goes. Tried on
  // the fastest rewritten candidate within the budget, even when the original beats it: it may not without the pass
  // at fault.
  void revert_what_does_not_help() {
    const std::optional<std::size_t> which = fastest_rewritten();
    if (!options_.try_reverting || !which.has_value()) {
      return;
    }
    const PassTrial trial{
        .subject = subject_,
        .engine = *engine_,
        .samples = search_samples(),
        .timing = timing_options(0.3),
        .rewrite = [this](const std::vector<std::string>& skipped) { return rewrite_without(skipped); },
    };
    bool reverted = false;
    {
      const Opened open(candidates_[*which], *engine_);
      reverted = revert_passes(candidates_[*which], report_.passes, options_.skip_passes, trial, host_);
    }
    if (reverted) {
      measure_again(*which);
    }
  }

  [[nodiscard]] std::optional<std::size_t> fastest_rewritten() const {
    std::optional<std::size_t> best;
    for (std::size_t i = 1; i < candidates_.size(); ++i) {
      const Candidate& candidate = candidates_[i];
      if (candidate.rewritten && candidate.failure.empty() && candidate.dropped.empty() && candidate.verdict.within &&
          (!best.has_value() || latency_of(candidate) < latency_of(candidates_[*best]))) {
        best = i;
      }
    }
    return best;
  }

  // Quality and latency of a candidate whose model changed, and the choice anew.
  void measure_again(std::size_t which) {
    judge(candidates_[which], *compile_reference(), subject_.split.search);
    std::vector<Candidate*> timed = {&candidates_[which]};
    if (chosen_ != 0 && chosen_ != which) {
      timed.push_back(&candidates_[chosen_]);
    }
    time_in_turns(candidates_.front(), timed, *engine_, subject_, search_samples(), timing_options(0.2), host_);
    chosen_ = choose(candidates_);
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
    search.original = &candidates_.front();
    search.quantize.seven_bit_weights = !has_integer_dot_product();
    search.calibrate.method = options_.range_method;
    search.calibrate.workers = subject_.workers;
    search.calibrate.cache_dir = options_.cache_dir;
    search.calibrate.compile = compile_options(Precision::kFloat32);
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
    for (const std::vector<Candidate*>& bases : bases_of_search()) {
      search.max_seconds = seconds_left() - verification_seconds();
      if (search.max_seconds <= 0) {
        report_.notes.emplace_back("the time given left none for the search of number formats: raise --time");
        break;
      }
      if (meter == nullptr) {
        const double run_seconds = candidates_.front().timing.latency.median_ms / 1e3;
        meter = meter_of_search(*compile_reference(), subject_, run_seconds, search.max_seconds, host_);
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
    for (const Candidate& candidate : candidates_) {
      if (candidate.failure.empty() && candidate.dropped.empty()) {
        report_.trials.push_back({candidate.name, worst_relative_l2(candidate.losses), latency_of(candidate),
                                  candidate.weight_bytes, candidate.verdict.within, false});
      }
    }
    choose_among(std::move(found.candidates));
  }

  [[nodiscard]] double seconds_left() const {
    return options_.total_seconds - std::chrono::duration<double>(Clock::now() - start_).count();
  }

  // What measuring the result once more in full will take, from what measuring the original took: timing the new
  // candidates and the written file, its quality on the verification part, compiling and profiling.
  [[nodiscard]] double verification_seconds() const {
    const Candidate& original = candidates_.front();
    const double run = original.timing.latency.median_ms / 1e3;
    const double timing = std::min(timing_options(0.7).max_seconds, 7.0 * static_cast<double>(options_.pairs) * run);
    constexpr double kLoads = 20.0;  // to run, to profile, to measure memory, written and original; quantised models load slower
    return timing + 2.0 * run * static_cast<double>(subject_.split.verify.size()) + kLoads * original.load_ms / 1e3;
  }

  // Of everything that a measured loss depends on.
  [[nodiscard]] std::string answers_key() const {
    std::string text = report_.model.sha256 + to_hex(subject_.dataset->hash()) + report_.settings_sha256 +
                       fmt::format("{} {}", subject_.split.calibrate.size(), subject_.split.search.size());
    for (const auto& [name, version] : options_.versions) {
      text += name + version;
    }
    for (const std::string& feature : engine::cpu_info().features) {
      text += feature;
    }
    return to_hex(sha256(text));
  }

  // The fastest float candidate and the others in its precision; then, for when rounding in that precision leaves no
  // room in the budget, those in f32.
  [[nodiscard]] std::vector<std::vector<Candidate*>> bases_of_search() {
    std::vector<std::vector<Candidate*>> bases = {in_precision(candidates_[chosen_].options.precision)};
    if (candidates_[chosen_].options.precision != Precision::kFloat32) {
      bases.push_back(in_precision(Precision::kFloat32));
    }
    return bases;
  }

  // Fastest first: when the time is short, the others are not tried.
  [[nodiscard]] std::vector<Candidate*> in_precision(Precision precision) {
    std::vector<Candidate*> found;
    for (Candidate& candidate : candidates_) {
      if (candidate.options.precision == precision && candidate.failure.empty() && candidate.dropped.empty() &&
          candidate.verdict.within) {
        found.push_back(&candidate);
      }
    }
    std::stable_sort(found.begin(), found.end(),
                     [this](const Candidate* a, const Candidate* b) { return latency_of(*a) < latency_of(*b); });
    return found;
  }

  // Times the new ones in full beside the original and the best so far, and chooses anew. All are open at once: next to the
  // original the quantised ones weigh little, and its runs, the longest, then count for all of them.
  void choose_among(std::vector<Candidate> found) {
    if (found.empty()) {
      return;
    }
    const std::size_t first = candidates_.size();
    for (Candidate& candidate : found) {
      candidates_.push_back(std::move(candidate));
    }
    std::vector<Candidate*> timed = {&candidates_.front()};
    if (chosen_ != 0) {
      timed.push_back(&candidates_[chosen_]);
    }
    for (std::size_t i = first; i < candidates_.size(); ++i) {
      timed.push_back(&candidates_[i]);
    }
    std::list<Opened> open;
    for (Candidate* candidate : timed) {
      open.emplace_back(*candidate, *engine_);
    }
    time_candidates(timed, subject_, search_samples(), timing_options(0.4), host_);
    chosen_ = choose(candidates_);
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
    const Candidate& candidate = candidates_[chosen_];
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
  // rewrites nor the choice saw. When it fails here, the original goes out instead.
  void verify_written_file() {
    Candidate shipped;
    const Candidate& chosen = candidates_[chosen_];
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
    judge(shipped, *compile_reference(), subject_.split.verify);
    {
      const Opened open(candidates_.front(), *engine_);
      time_against(candidates_.front(), shipped, subject_, samples, timing_options(0.3), host_);
      report_.pictures = make_pictures(subject_, *candidates_.front().session, *shipped.session);
      report_.scatters = make_scatters(subject_, *candidates_.front().session, *shipped.session);
    }
    close(shipped);

    const bool is_original = chosen_ == 0;
    const bool mends = !candidates_.front().verdict.within && shipped.verdict.within;
    if (!is_original && !mends && (!shipped.verdict.within || !shipped.timing.speedup.faster())) {
      candidates_[chosen_].dropped =
          fmt::format("failed verification ({}; {:.2f}x, at least {:.2f}x in {} pairs)", shipped.verdict.text,
                      shipped.timing.speedup.median, shipped.timing.speedup.lower95, shipped.timing.speedup.pairs);
      report_.notes.push_back(fmt::format("{} {}", shipped.name, candidates_[chosen_].dropped));
      chosen_ = choose(candidates_);
      write_choice();
      verify_written_file();
      return;
    }
    for (report::Trial& trial : report_.trials) {
      trial.chosen = trial.name == chosen.name;
    }
    fill_results(report_, options_, subject_, *engine_, candidates_, chosen_, shipped,
                 out_.staging() / "model.onnx", host_);
    write_text_file(out_.staging() / "report.json", report::to_json(report_));
    write_text_file(out_.staging() / "report.html", report::to_html(report_));
  }

  [[nodiscard]] const std::vector<data::Sample>& search_samples() {
    if (search_samples_.empty()) {
      search_samples_ = load_samples(subject_, subject_.split.search, kTimedSamples);
    }
    return search_samples_;
  }

  [[nodiscard]] engine::TimingOptions timing_options(double share) const {
    engine::TimingOptions timing;
    timing.pairs = options_.pairs;
    timing.max_seconds = std::min(options_.max_seconds, options_.total_seconds / 3.0) * share;
    return timing;
  }

  const Clock::time_point start_ = Clock::now();
  const OptimizeOptions& options_;
  const Host& host_;
  OutputFolder out_;
  std::unique_ptr<engine::Engine> engine_;
  std::unique_ptr<engine::Evaluator> evaluator_;
  Subject subject_;
  std::vector<Precision> precisions_;  ///< to try, the original's first
  std::vector<Candidate> candidates_;
  std::vector<data::Sample> search_samples_;
  Answers answers_;
  std::optional<BestSoFar> best_;
  bool engine_is_wrong_ = false;  ///< about the original at f32
  std::size_t chosen_ = 0;
  report::Report report_;
};

}  // namespace

report::Report optimize(const OptimizeOptions& options, const Host& host) {
  return Flow(options, host).run();
}

}  // namespace tempera::optimize
