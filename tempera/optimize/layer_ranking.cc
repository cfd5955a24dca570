#include "tempera/optimize/layer_ranking.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>

#include <fmt/format.h>

namespace tempera::optimize {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

RankedLayers LayerRanking::rank(const Mix& mix, double seconds) {
  std::map<std::string, double> weight_error;
  for (const compress::LayerRecord& record : mix.records) {
    weight_error[record.layer] = record.weight_relative_l2;
  }
  host_.progress.begin("measuring each layer alone", static_cast<std::int64_t>(mix.plan.size()));
  const Clock::time_point begun = Clock::now();
  RankedLayers ranked;
  std::vector<std::string> unmeasured;
  double measured_ratio = 0.0;
  const double floor = worst_relative_l2(base_.losses);
  for (const auto& [layer, format] : mix.plan) {
    host_.cancel.throw_if_cancelled();
    const bool in_time = std::chrono::duration<double>(Clock::now() - begun).count() < seconds;
    const std::optional<double> loss = loss_alone(layer, format, in_time);
    host_.progress.advance();
    if (!loss.has_value()) {
      unmeasured.push_back(layer);
      continue;
    }
    const double own = std::sqrt(std::max(*loss * *loss - floor * floor, 0.0));
    measured_[layer] = own;
    ranked.emplace_back(own, layer);
    measured_ratio += own / std::max(weight_error[layer], 1e-6);
  }
  if (!unmeasured.empty()) {
    notes_.push_back(fmt::format("{} of {} layers were ranked without being measured alone: time ran out", unmeasured.size(),
                                 mix.plan.size()));
  }
  const double ratio = ranked.empty() ? 1.0 : measured_ratio / static_cast<double>(ranked.size());
  for (const std::string& layer : unmeasured) {
    ranked.emplace_back(ratio * weight_error[layer], layer);
  }
  std::sort(ranked.begin(), ranked.end(), std::greater<>());
  return ranked;
}

// Nothing when that does not run, or is neither known nor `in_time`.
std::optional<double> LayerRanking::loss_alone(const std::string& layer, const compress::LayerFormat& format, bool in_time) {
  const std::string question =
      fmt::format("loss of '{}' alone in {}{} on {}", layer, format.to_string(),
                  bench_.style().zero_points ? "" : " without zero points", base_.name);
  if (answers_ != nullptr) {
    if (const auto known = answers_->find(question)) {
      return known->at(0);
    }
  }
  if (!in_time) {
    return std::nullopt;
  }
  const std::optional<Mix> alone = bench_.compile(layer + " alone", {{layer, format}});
  if (!alone.has_value()) {
    return std::nullopt;
  }
  const double loss = worst_relative_l2(meter_.measure(*alone->candidate.session, kSamplesToRank, host_));
  if (answers_ != nullptr && std::isfinite(loss)) {
    answers_->add(question, {loss});
  }
  return loss;
}

}  // namespace tempera::optimize
