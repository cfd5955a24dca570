#include "tempera/optimize/format_search.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "tempera/base/error.h"
#include "tempera/compress/quantize/layers.h"
#include "tempera/optimize/layer_kinds.h"
#include "tempera/optimize/layer_ranking.h"
#include "tempera/optimize/losses.h"
#include "tempera/optimize/mix.h"

namespace tempera::optimize {
namespace {

using Clock = std::chrono::steady_clock;
using compress::ActivationFormat;
using compress::Layer;
using compress::QuantizationPlan;
using compress::WeightFormat;

constexpr double kRefinable = 6.0;          // times the budget: beyond, refinements do not bring a loss within it
constexpr double kSameSpeed = 0.97;         // times the speed: what a smaller file may cost
constexpr double kSameLoss = 1.1;           // times the loss: what a faster style may cost where the budget is missed anyway
constexpr double kShareOfALoss = 0.02;      // of the time: what measuring one mix's loss may take
constexpr std::size_t kFewestForALoss = 8;
constexpr std::size_t kMostForALoss = 64;   // enough to rank layers
constexpr double kMixesOfARefinement = 6.0; // as many are measured on the way
constexpr std::int64_t kSmallWeight = 4096; // bytes: below, storing a weight in int8 saves nothing worth a node

std::size_t count_int8(const QuantizationPlan& plan) {
  return static_cast<std::size_t>(std::count_if(plan.begin(), plan.end(), [](const auto& entry) {
    return entry.second.activations == ActivationFormat::kInt8;
  }));
}

class FormatSearch {
 public:
  FormatSearch(const Candidate& base, const LossMeter& meter, const Subject& subject, const engine::Engine& engine,
               const FormatSearchOptions& options, Clock::time_point start, const Host& host)
      : base_(base), options_(options), host_(host), start_(start), bench_(base, meter, subject, engine, options, host),
        ranking_(bench_, meter, base, options.answers, host) {}

  // Steps 1 and 2. False when there is nothing to refine.
  bool begin() {
    if (layers().empty()) {
      result_.notes.push_back(fmt::format("no number formats were searched from {}: it has no layer with weights", base_.name));
      return false;
    }
    if (const std::size_t inside = compress::count_layers_in_bodies(bench_.model().graph); inside > 0) {
      result_.notes.push_back(fmt::format("{}: {} layers inside bodies of If, Loop or Scan stay as they are", base_.name, inside));
    }
    QuantizationPlan everything;
    for (const Layer& layer : layers()) {
      everything[layer.name] = {WeightFormat::kInt8, {}, ActivationFormat::kInt8};
    }
    bench_.calibrate(everything);
    everywhere_ = measure("int8 wherever it can be", everything);
    if (everywhere_.has_value()) {
      drop_what_was_refused(*everywhere_);
      everywhere_ = faster_in_another_style(std::move(*everywhere_));
    }
    return true;
  }

  // After begin(): whether the model with int8 wherever it can be is faster here than in another search.
  [[nodiscard]] bool begins_faster_than(const FormatSearch& other) const {
    if (!everywhere_.has_value() || !other.everywhere_.has_value()) {
      return everywhere_.has_value();
    }
    return bench_.speedup(other.everywhere_->candidate, everywhere_->candidate, question(false)).median > 1.0;
  }

  // Another search goes on instead: what this one began with is not needed any more.
  void give_up() { everywhere_.reset(); }

  // Steps 3 to 5, after begin().
  void refine() {
    std::optional<Mix> mix = std::move(everywhere_);
    if (mix.has_value() && !mix->plan.empty()) {
      mix = faster_without_kinds(std::move(*mix));
      mix = faster_with_main_kind_alone(std::move(*mix));
      mix = faster_without_nodes(std::move(*mix));
      if (!mix->candidate.verdict.within) {
        std::optional<Mix> refined = refined_within("refined", *mix);
        mix = refined.has_value() ? refined_without_zero_points(std::move(*refined)) : within_budget(std::move(*mix));
      }
    }
    std::optional<Mix> smaller = store_weights(mix.has_value() && mix->candidate.verdict.within ? &*mix : nullptr);
    finish(std::move(mix), std::move(smaller));
  }

  [[nodiscard]] FormatSearchResult take_result() {
    result_.trials = bench_.trials();
    for (const std::vector<std::string>* notes : {&ranking_.notes(), &bench_.notes()}) {
      result_.notes.insert(result_.notes.end(), notes->begin(), notes->end());
    }
    return std::move(result_);
  }

 private:
  [[nodiscard]] double seconds_left() const {
    return options_.max_seconds - std::chrono::duration<double>(Clock::now() - start_).count();
  }

  void announce(const std::string& work) {
    host_.progress.begin(fmt::format("{} ({:.0f} s left to search)", work, std::max(seconds_left(), 0.0)), 0);
  }

  // Whether one more mix fits in, going by the longest so far.
  [[nodiscard]] bool time_for_a_mix() const { return seconds_left() > longest_mix_seconds_; }
  [[nodiscard]] bool time_to_refine() const { return seconds_left() > kMixesOfARefinement * longest_mix_seconds_; }

  [[nodiscard]] std::optional<Mix> measure(const std::string& name, const QuantizationPlan& plan) {
    const Clock::time_point begun = Clock::now();
    announce("trying " + name);
    std::optional<Mix> mix = bench_.measure(name, plan);
    longest_mix_seconds_ = std::max(longest_mix_seconds_, std::chrono::duration<double>(Clock::now() - begun).count());
    return mix;
  }

  [[nodiscard]] const std::vector<Layer>& layers() const { return bench_.layers(); }

  // How long to time one question. \param only_faster  nothing but "is it faster" is asked
  [[nodiscard]] engine::TimingOptions question(bool only_faster) const {
    engine::TimingOptions timing;
    timing.pairs = options_.pairs;
    timing.max_seconds = std::max(1.0, 0.1 * seconds_left());
    timing.stop_when_slower = only_faster;
    return timing;
  }

  // Layers that quantising left alone need no further thought.
  void drop_what_was_refused(Mix& mix) {
    for (const compress::LayerRecord& record : mix.records) {
      if (record.format.activations == ActivationFormat::kFloat) {
        mix.plan.erase(record.layer);
        reasons_[record.layer] = record.why;
      }
    }
  }

  // What an engine's kernels may like better: activations without zero points, Concats of codes. Not at the price of the
  // loss budget, nor of a loss that layers back in float would have to make up for.
  Mix faster_in_another_style(Mix mix) {
    const std::vector<std::pair<const char*, bool compress::QuantizeOptions::*>> switches = {
        {"no zero points", &compress::QuantizeOptions::zero_points},
        {"joined codes", &compress::QuantizeOptions::join_codes}};
    for (const auto& [name, member] : switches) {
      const compress::QuantizeOptions before = bench_.style();
      compress::QuantizeOptions other = before;
      other.*member = !(other.*member);
      const bool same_places = quantized_inputs(bench_.model(), mix.plan, before) ==
                               quantized_inputs(bench_.model(), mix.plan, other);
      if (!time_for_a_mix() || (member == &compress::QuantizeOptions::join_codes && same_places)) {
        continue;
      }
      bench_.set_style(other);
      std::optional<Mix> trial = measure(fmt::format("int8 wherever it can be, {}", name), mix.plan);
      const bool affordable = trial.has_value() && (trial->candidate.verdict.within ||
                                                    (!mix.candidate.verdict.within && trial->loss < kSameLoss * mix.loss));
      if (affordable && bench_.speedup(mix.candidate, trial->candidate, question(true)).faster()) {
        keep_as_safer(std::move(mix));
        mix = std::move(*trial);
      } else {
        bench_.set_style(before);
      }
    }
    return mix;
  }

  // 3. For each kind of layer, most work first: back to float where the model is faster so.
  Mix faster_without_kinds(Mix mix) {
    const auto kinds = kinds_of(layers(), mix.plan, bench_.model().graph);
    for (const auto& [kind, members] : kinds) {
      if (!time_for_a_mix() || kinds.size() == 1) {
        break;
      }
      mix = without_if_faster(std::move(mix), members, fmt::format("without {}", kind),
                              fmt::format("the model is faster with {} in float", kind));
    }
    return mix;
  }

  // Leaving out one kind at a time misses what only pays together: all but the kind that does most of the work.
  Mix faster_with_main_kind_alone(Mix mix) {
    const auto kinds = kinds_of(layers(), mix.plan, bench_.model().graph);
    if (!time_for_a_mix() || kinds.size() < 3) {  // of two, one was tried without the other
      return mix;
    }
    std::vector<std::string> others;
    for (std::size_t i = 1; i < kinds.size(); ++i) {
      others.insert(others.end(), kinds[i].second.begin(), kinds[i].second.end());
    }
    const std::string& kind = kinds.front().first;
    return without_if_faster(std::move(mix), others, fmt::format("{} alone", kind),
                             fmt::format("the model is faster with {} alone in int8", kind));
  }

  // Layers whose own node takes longer in int8 than in the base, all at once.
  Mix faster_without_nodes(Mix mix) {
    if (!time_for_a_mix() || mix.plan.empty()) {
      return mix;
    }
    const std::map<std::string, double> before = times_by_node(base_);
    const std::map<std::string, double> after = times_by_node(mix.candidate);
    std::vector<std::string> slower;
    for (const auto& [layer, format] : mix.plan) {
      const auto was = before.find(layer);
      const auto is = after.find(layer);
      if (was != before.end() && is != after.end() && is->second > was->second) {
        slower.push_back(layer);
      }
    }
    if (slower.empty() || slower.size() == mix.plan.size()) {
      return mix;
    }
    return without_if_faster(std::move(mix), slower, "without the layers that int8 slows down",
                             "its own kernel is faster in float");
  }

  [[nodiscard]] std::map<std::string, double> times_by_node(const Candidate& candidate) const {
    std::map<std::string, double> times;
    for (const engine::NodeTime& time : bench_.node_times(candidate)) {
      times[time.node] += time.time_us;
    }
    return times;
  }

  Mix without_if_faster(Mix mix, const std::vector<std::string>& layers, const std::string& name,
                        const std::string& reason) {
    QuantizationPlan plan = mix.plan;
    for (const std::string& layer : layers) {
      plan.erase(layer);
    }
    if (plan.empty()) {
      return mix;
    }
    std::optional<Mix> other = measure(name, plan);
    if (!other.has_value()) {
      return mix;
    }
    const engine::PairedSpeedup gain = bench_.speedup(mix.candidate, other->candidate, question(true));
    for (const std::string& layer : layers) {
      kind_speedup_[layer] = 1.0 / gain.median;
    }
    if (!gain.faster()) {
      return mix;
    }
    for (const std::string& layer : layers) {
      reasons_[layer] = fmt::format("{} ({:.2f}x)", reason, gain.median);
    }
    return std::move(*other);
  }

  // The mix's plan with refinements, when they bring it within the budget. Not tried where that is out of reach.
  [[nodiscard]] std::optional<Mix> refined_within(const std::string& name, const Mix& mix) {
    const bool relative = options_.budget.kind == quality::LossBudget::Kind::kRelative;
    if (!time_to_refine() || (relative && mix.loss > kRefinable * options_.budget.limit)) {
      return std::nullopt;
    }
    announce("refining " + name);
    std::optional<Mix> refined = bench_.measure_refined(name, mix.plan);
    if (!refined.has_value() || !refined->candidate.verdict.within) {
      return std::nullopt;
    }
    return refined;
  }

  // What had to keep zero points for the budget's sake may do without them once refined.
  Mix refined_without_zero_points(Mix mix) {
    const compress::QuantizeOptions before = bench_.style();
    if (!before.zero_points) {
      return mix;
    }
    compress::QuantizeOptions symmetric = before;
    symmetric.zero_points = false;
    bench_.set_style(symmetric);
    std::optional<Mix> other = refined_within("refined, no zero points", mix);
    if (other.has_value() && bench_.speedup(mix.candidate, other->candidate, question(true)).faster()) {
      keep_as_safer(std::move(mix));
      return std::move(*other);
    }
    bench_.set_style(before);
    return mix;
  }

  // 4. Layers back to float, the most sensitive first, until the loss is within the budget. Nothing when even then it
  // is not.
  std::optional<Mix> within_budget(Mix mix) {
    const RankedLayers ranked = ranking_.rank(mix, 0.6 * seconds_left());
    double squares = 0.0;
    for (const auto& [loss, layer] : ranked) {
      squares += loss * loss;
    }
    // Errors add as squares; what the sum misses of the measured whole is taken to be in proportion.
    const double floor = worst_relative_l2(base_.losses);
    const double whole = std::max(mix.loss * mix.loss - floor * floor, 0.0);
    const double scale = squares > 0 && std::isfinite(whole) ? whole / squares : 1.0;
    const auto predicted = [&](std::size_t removed) {
      double rest = floor * floor;
      for (std::size_t i = removed; i < ranked.size(); ++i) {
        rest += scale * ranked[i].first * ranked[i].first;
      }
      return std::sqrt(rest);
    };
    std::size_t removed = 1;
    if (options_.budget.kind == quality::LossBudget::Kind::kRelative) {
      while (removed < ranked.size() && predicted(removed) > options_.budget.limit) {
        ++removed;
      }
    }
    std::optional<Mix> best;
    std::size_t low = 0;               // known to be over the budget
    std::size_t high = ranked.size();  // all in float: the base itself
    while (low + 1 < high && time_for_a_mix()) {
      removed = std::clamp(removed, low + 1, high - 1);
      std::optional<Mix> trial = measure(fmt::format("{} most sensitive layers in float", removed),
                                                 without(mix.plan, ranked, removed));
      if (trial.has_value() && !trial->candidate.verdict.within) {
        std::optional<Mix> refined = refined_within(fmt::format("{} most sensitive layers in float, refined", removed), *trial);
        trial = refined.has_value() ? std::move(refined) : std::move(trial);
      }
      if (trial.has_value() && trial->candidate.verdict.within) {
        high = removed;
        if (best.has_value()) {
          keep_as_safer(std::move(*best));
        }
        best = std::move(trial);
        best_removed_ = removed;
        if (high - low <= 1 + ranked.size() / 16) {
          break;
        }
        removed = (low + high) / 2;
      } else {
        low = removed;
        removed = low + std::max<std::size_t>(1, (high - low) / 2);
      }
    }
    for (std::size_t i = 0; i < best_removed_; ++i) {
      reasons_[ranked[i].second] = fmt::format("among the {} most sensitive: loss {:.2g} alone", best_removed_, ranked[i].first);
    }
    if (!best.has_value() && low + 1 < high) {
      result_.notes.push_back(fmt::format(
          "the time ended before a mix within the budget was found; {} of {} layers in float were not enough: raise --time", low,
          ranked.size()));
    } else if (!best.has_value()) {
      result_.notes.push_back(fmt::format(
          "int8 does not hold the budget with any number of layers back in float: at best relative L2 {:.3g}", mix.loss));
    }
    return best;
  }

  // A slower mix with a smaller loss, for when a faster one within the budget here is over it on the verification part.
  void keep_as_safer(Mix mix) {
    if (mix.candidate.verdict.within) {
      safer_ = std::move(mix);
      close(safer_->candidate);
    }
  }

  static QuantizationPlan without(QuantizationPlan plan, const RankedLayers& ranked, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      plan.erase(ranked[i].second);
    }
    return plan;
  }

  // 5. Weights of the float layers in int8: a smaller file, kept where it is not slower and within the budget.
  // \param mix  null: the base
  std::optional<Mix> store_weights(const Mix* mix) {
    QuantizationPlan plan = mix == nullptr ? QuantizationPlan{} : mix->plan;
    std::size_t added = 0;
    for (const Layer& layer : layers()) {
      if (!plan.contains(layer.name) && layer.has_weight() && weight_bytes(layer) >= kSmallWeight) {
        plan[layer.name] = {WeightFormat::kInt8, {}, ActivationFormat::kFloat};
        ++added;
      }
    }
    if (added == 0 || !time_for_a_mix()) {
      return std::nullopt;
    }
    const Candidate& before = mix == nullptr ? base_ : mix->candidate;
    std::optional<Mix> smaller =
        measure(mix == nullptr ? "weights stored in int8" : "the other weights stored in int8", plan);
    if (!smaller.has_value() || !smaller->candidate.verdict.within) {
      return std::nullopt;
    }
    const engine::PairedSpeedup gain = bench_.speedup(before, smaller->candidate, question(false));
    if (gain.slower() || gain.median < kSameSpeed) {
      return std::nullopt;
    }
    return smaller;
  }

  [[nodiscard]] std::int64_t weight_bytes(const Layer& layer) const {
    const std::optional<graph::Tensor> weight = bench_.model().graph.constant(layer.weight);
    return weight.has_value() ? static_cast<std::int64_t>(weight->bytes().size()) : 0;
  }

  void finish(std::optional<Mix> mix, std::optional<Mix> smaller) {
    const Mix* shown = smaller.has_value() ? &*smaller : mix.has_value() ? &*mix : nullptr;
    if (shown != nullptr) {
      fill_layers(*shown);
    }
    for (std::optional<Mix>* found : {&smaller, &mix, &safer_}) {
      if (found->has_value() && (*found)->candidate.verdict.within) {
        Candidate& candidate = (*found)->candidate;
        close(candidate);
        const std::string name = name_of(**found);
        bench_.rename_trial(candidate.name, name);
        candidate.name = name;
        result_.candidates.push_back(std::move(candidate));
      }
    }
  }

  [[nodiscard]] std::string name_of(const Mix& mix) const {
    const std::size_t computed = count_int8(mix.plan);
    const std::size_t stored = mix.plan.size() - computed;
    std::string name = base_.rewritten ? "rewritten " : "";
    if (computed > 0) {
      name += fmt::format("int8 in {} of {} layers, else ", computed, layers().size());
    }
    name += engine::to_string(mix.candidate.options.precision);
    for (const std::string& refinement : mix.refinements) {
      name += ", " + refinement;
    }
    return stored > 0 ? fmt::format("{}, {} weights stored in int8", name, stored) : name;
  }

  void fill_layers(const Mix& mix) {
    std::map<std::string, const compress::LayerRecord*> records;
    for (const compress::LayerRecord& record : mix.records) {
      records[record.layer] = &record;
    }
    std::map<std::string, std::string> kernels;
    for (const engine::NodeTime& time : bench_.node_times(mix.candidate)) {
      kernels[time.node] = time.kernel;
    }
    for (const Layer& layer : layers()) {
      report::LayerRecord line;
      line.layer = layer.name;
      line.op_type = layer.op_type;
      line.format = "float";
      line.bytes_before = layer.has_weight() ? weight_bytes(layer) : 0;
      line.bytes_after = line.bytes_before;
      if (const auto record = records.find(layer.name); record != records.end() && mix.plan.contains(layer.name)) {
        line.format = record->second->format.to_string();
        line.weight_error = record->second->weight_relative_l2;
        line.bytes_after = record->second->bytes_after;
        line.reason = record->second->why;
      }
      if (const auto reason = reasons_.find(layer.name); reason != reasons_.end()) {
        line.reason = reason->second;
      }
      if (const auto kernel = kernels.find(layer.name); kernel != kernels.end()) {
        line.kernel = kernel->second;
      }
      if (const auto loss = ranking_.measured().find(layer.name); loss != ranking_.measured().end()) {
        line.sensitivity = loss->second;
      }
      if (const auto gain = kind_speedup_.find(layer.name); gain != kind_speedup_.end()) {
        line.speedup = gain->second;
      }
      result_.layers.push_back(std::move(line));
    }
  }

  const Candidate& base_;
  const FormatSearchOptions& options_;
  const Host& host_;
  Clock::time_point start_;
  MixBench bench_;
  LayerRanking ranking_;
  std::map<std::string, std::string> reasons_;
  std::map<std::string, double> kind_speedup_;
  double longest_mix_seconds_ = 0.0;
  std::size_t best_removed_ = 0;
  std::optional<Mix> everywhere_;
  std::optional<Mix> safer_;
  FormatSearchResult result_;
};

}  // namespace

std::unique_ptr<const LossMeter> meter_of_search(engine::Session& reference, const Subject& subject, double run_seconds,
                                                 double max_seconds, const Host& host) {
  std::vector<std::size_t> indices = subject.split.search;
  const double fitting = std::clamp(kShareOfALoss * max_seconds / std::max(run_seconds, 1e-9), 0.0, 1e9);
  (void)thin_out(indices, std::min(kMostForALoss, std::max(kFewestForALoss, static_cast<std::size_t>(fitting))));
  return std::make_unique<const LossMeter>(subject, reference, indices, kHeldBytes, host);
}

FormatSearchResult search_formats(const std::vector<Candidate*>& bases, const LossMeter& meter, const Subject& subject,
                                  const engine::Engine& engine, const FormatSearchOptions& options, const Host& host) {
  const Clock::time_point start = Clock::now();
  std::vector<std::unique_ptr<FormatSearch>> searches;
  FormatSearch* best = nullptr;
  Candidate* best_base = nullptr;
  for (Candidate* base : bases) {
    // A second base costs as much as the first, which is then still to be refined.
    const double spent = std::chrono::duration<double>(Clock::now() - start).count();
    if (!searches.empty() && 3.0 * spent > options.max_seconds) {
      break;
    }
    searches.push_back(std::make_unique<FormatSearch>(*base, meter, subject, engine, options, start, host));
    FormatSearch* search = searches.back().get();
    const Opened open(*base, engine);
    if (search->begin() && (best == nullptr || search->begins_faster_than(*best))) {
      if (best != nullptr) {
        best->give_up();
      }
      best = search;
      best_base = base;
    } else {
      search->give_up();
    }
  }
  if (best != nullptr) {
    const Opened open(*best_base, engine);
    best->refine();
  }
  FormatSearchResult result = best != nullptr ? best->take_result() : FormatSearchResult{};
  for (const auto& search : searches) {
    if (search.get() != best) {
      const FormatSearchResult other = search->take_result();
      result.trials.insert(result.trials.end(), other.trials.begin(), other.trials.end());
      result.notes.insert(result.notes.end(), other.notes.begin(), other.notes.end());
    }
  }
  return result;
}

}  // namespace tempera::optimize
