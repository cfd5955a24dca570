#include "tempera/optimize/losses.h"

#include <algorithm>
#include <memory>
#include <optional>

#include <fmt/format.h>

#include "tempera/base/error.h"
#include "tempera/data/prefetch.h"
#include "tempera/quality/error_measure.h"
#include "tempera/quality/metrics.h"

namespace tempera::optimize {
namespace {

std::vector<std::string> port_names(const std::vector<engine::Port>& ports) {
  std::vector<std::string> names;
  for (const engine::Port& port : ports) {
    names.push_back(port.name);
  }
  return names;
}

// Gathers one contender's distance from the reference, and from the truth where there is one, for one output.
class OutputGauge {
 public:
  OutputGauge(std::string output, const data::OutputRecipe* recipe) : recipe_(recipe) {
    loss_.output = std::move(output);
  }

  void add(const std::string& sample, const graph::Tensor& reference, const graph::Tensor& candidate,
           const graph::Tensor* truth) {
    const quality::ErrorMeasures error = quality::measure_error(reference, candidate);
    relative_sum_ += error.relative_l2;
    sqnr_sum_ += error.sqnr_db;
    ++samples_;
    if (loss_.worst_sample.empty() || error.relative_l2 > loss_.worst_relative_l2) {
      loss_.worst_sample = sample;
      loss_.worst_relative_l2 = error.relative_l2;
    }
    if (truth == nullptr || recipe_ == nullptr) {
      return;
    }
    if (before_ == nullptr) {
      before_ = quality::make_metric(*recipe_);
      after_ = quality::make_metric(*recipe_);
      loss_.metric = recipe_->metric.empty() ? "relative_l2" : recipe_->metric;
    }
    before_->add(sample, *truth, reference);
    after_->add(sample, *truth, candidate);
  }

  [[nodiscard]] quality::OutputLoss result() const {
    quality::OutputLoss loss = loss_;
    if (samples_ > 0) {
      loss.relative_l2 = relative_sum_ / static_cast<double>(samples_);
      loss.sqnr_db = sqnr_sum_ / static_cast<double>(samples_);
    }
    if (before_ != nullptr) {
      loss.metric_before = before_->result().value;
      loss.metric_after = after_->result().value;
    }
    return loss;
  }

 private:
  const data::OutputRecipe* recipe_;
  quality::OutputLoss loss_;
  double relative_sum_ = 0.0;
  double sqnr_sum_ = 0.0;
  std::int64_t samples_ = 0;
  std::unique_ptr<quality::Metric> before_;
  std::unique_ptr<quality::Metric> after_;
};

}  // namespace

std::vector<std::vector<quality::OutputLoss>> measure_losses(const Subject& subject,
                                                             engine::Session& reference,
                                                             const std::vector<Contender>& contenders,
                                                             const std::vector<std::size_t>& indices,
                                                             int workers, const Host& host) {
  const std::vector<std::string> outputs = port_names(reference.outputs());
  std::vector<std::vector<OutputGauge>> gauges(contenders.size());
  for (auto& row : gauges) {
    for (const std::string& output : outputs) {
      row.emplace_back(output, subject.recipe.output(output));
    }
  }
  data::Prefetcher samples(*subject.dataset, indices, workers, host.cancel);
  host.progress.begin("measuring quality", static_cast<std::int64_t>(indices.size()));
  while (const std::optional<data::Sample> sample = samples.next()) {
    host.cancel.throw_if_cancelled();
    const std::vector<graph::Tensor> expected =
        reference.run(arrange_inputs(*sample, subject.model.graph, port_names(reference.inputs())));
    for (std::size_t c = 0; c < contenders.size(); ++c) {
      engine::Session& session = *contenders[c].session;
      const std::vector<graph::Tensor> got =
          session.run(arrange_inputs(*sample, subject.model.graph, port_names(session.inputs())));
      const std::vector<std::string> names = port_names(session.outputs());
      for (std::size_t o = 0; o < outputs.size(); ++o) {
        const auto found = std::find(names.begin(), names.end(), outputs[o]);
        TEMPERA_CHECK(found != names.end(),
                      fmt::format("'{}' has lost output '{}'", contenders[c].name, outputs[o]));
        const graph::Tensor& candidate = got[static_cast<std::size_t>(found - names.begin())];
        const auto truth = sample->expected.find(outputs[o]);
        gauges[c][o].add(sample->name, expected[o], candidate,
                         truth == sample->expected.end() ? nullptr : &truth->second);
      }
    }
    host.progress.advance();
  }
  host.progress.end();
  std::vector<std::vector<quality::OutputLoss>> results(contenders.size());
  for (std::size_t c = 0; c < contenders.size(); ++c) {
    for (const OutputGauge& gauge : gauges[c]) {
      results[c].push_back(gauge.result());
    }
  }
  return results;
}

}  // namespace tempera::optimize
