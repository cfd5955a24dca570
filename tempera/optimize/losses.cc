#include "tempera/optimize/losses.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "tempera/base/error.h"
#include "tempera/data/prefetch.h"
#include "tempera/graph/tensor_error.h"
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

// Relative L2 below which a "truth" is the original model's own output up to rounding: the ratio of two errors, one of
// which is rounding alone, says nothing, so the distance from the original counts instead.
constexpr double kOwnOutput = 1e-5;

// Gathers one contender's distance from the reference, and from the truth where there is one, for one output.
class OutputGauge {
 public:
  // \param recipe  nullptr: without a metric, distance alone counts
  OutputGauge(std::string output, const data::OutputRecipe* recipe, quality::CommandOptions command)
      : recipe_(recipe), command_(std::move(command)) {
    loss_.output = std::move(output);
    if (recipe_ != nullptr && data::is_command_metric(recipe_->metric) && !command_.allowed) {
      recipe_ = nullptr;
    }
  }

  void add(const std::string& sample, const graph::Tensor& reference, const graph::Tensor& candidate,
           const graph::Tensor* truth) {
    const graph::TensorError error = graph::checked_tensor_error(reference, candidate);
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
      before_ = quality::make_metric(*recipe_, command_);
      after_ = quality::make_metric(*recipe_, command_);
    }
    // Class indices and the like cannot be a model's own output.
    truth_distance_sum_ += truth->dims() == reference.dims() && truth->type() == reference.type()
                               ? graph::checked_tensor_error(*truth, reference).relative_l2
                               : 1.0;
    before_->add(sample, *truth, reference);
    after_->add(sample, *truth, candidate);
  }

  [[nodiscard]] quality::OutputLoss result() const {
    quality::OutputLoss loss = loss_;
    if (samples_ > 0) {
      loss.relative_l2 = relative_sum_ / static_cast<double>(samples_);
      loss.sqnr_db = sqnr_sum_ / static_cast<double>(samples_);
    }
    if (before_ != nullptr && truth_distance_sum_ > kOwnOutput * static_cast<double>(samples_)) {
      loss.metric = recipe_->metric.empty() ? "relative_l2" : recipe_->metric;
      loss.metric_before = before_->result().value;
      loss.metric_after = after_->result().value;
    }
    return loss;
  }

 private:
  const data::OutputRecipe* recipe_;
  quality::CommandOptions command_;
  quality::OutputLoss loss_;
  double relative_sum_ = 0.0;
  double sqnr_sum_ = 0.0;
  double truth_distance_sum_ = 0.0;  // of the reference
  std::int64_t samples_ = 0;
  std::unique_ptr<quality::Metric> before_;
  std::unique_ptr<quality::Metric> after_;
};

std::vector<OutputGauge> gauges_of(const Subject& subject, const std::vector<std::string>& outputs, const Host& host) {
  quality::CommandOptions command;
  command.allowed = subject.run_programs;
  command.cancel = host.cancel;
  std::vector<OutputGauge> row;
  for (const std::string& output : outputs) {
    row.emplace_back(output, subject.recipe.output(output), command);
  }
  return row;
}

std::vector<quality::OutputLoss> results_of(const std::vector<OutputGauge>& gauges) {
  std::vector<quality::OutputLoss> results;
  for (const OutputGauge& gauge : gauges) {
    results.push_back(gauge.result());
  }
  return results;
}

std::vector<graph::Tensor> run_on(engine::Session& session, const Subject& subject, const data::Sample& sample) {
  return session.run(arrange_inputs(sample, subject.model.graph, port_names(session.inputs())));
}

// Runs the session on the sample and adds the distance of each output from the expected one.
// \param outputs   names of `expected`, one gauge for each
void add_sample(std::vector<OutputGauge>& gauges, const Subject& subject, engine::Session& session,
                const data::Sample& sample, const std::vector<std::string>& outputs,
                const std::vector<graph::Tensor>& expected) {
  const std::vector<graph::Tensor> got = run_on(session, subject, sample);
  const std::vector<std::string> names = port_names(session.outputs());
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    const auto found = std::find(names.begin(), names.end(), outputs[o]);
    TEMPERA_CHECK(found != names.end(), fmt::format("a changed model has lost output '{}'", outputs[o]));
    const auto truth = sample.expected.find(outputs[o]);
    gauges[o].add(sample.name, expected[o], got[static_cast<std::size_t>(found - names.begin())],
                  truth == sample.expected.end() ? nullptr : &truth->second);
  }
}

std::size_t bytes_of(const std::vector<graph::Tensor>& tensors) {
  std::size_t bytes = 0;
  for (const graph::Tensor& tensor : tensors) {
    bytes += tensor.bytes().size();
  }
  return bytes;
}

}  // namespace

std::vector<std::vector<quality::OutputLoss>> measure_losses(const Subject& subject,
                                                             engine::Session& reference,
                                                             const std::vector<Contender>& contenders,
                                                             const std::vector<std::size_t>& indices,
                                                             const Host& host) {
  const std::vector<std::string> outputs = port_names(reference.outputs());
  std::vector<std::vector<OutputGauge>> gauges;
  for (std::size_t c = 0; c < contenders.size(); ++c) {
    gauges.push_back(gauges_of(subject, outputs, host));
  }
  data::Prefetcher samples(*subject.dataset, indices, subject.workers, host.cancel);
  host.progress.begin("measuring quality", static_cast<std::int64_t>(indices.size()));
  while (const std::optional<data::Sample> sample = samples.next()) {
    host.cancel.throw_if_cancelled();
    const std::vector<graph::Tensor> expected = run_on(reference, subject, *sample);
    for (std::size_t c = 0; c < contenders.size(); ++c) {
      add_sample(gauges[c], subject, *contenders[c].session, *sample, outputs, expected);
    }
    host.progress.advance();
  }
  host.progress.end();
  std::vector<std::vector<quality::OutputLoss>> results;
  for (const std::vector<OutputGauge>& row : gauges) {
    results.push_back(results_of(row));
  }
  return results;
}

double worst_relative_l2(const std::vector<quality::OutputLoss>& losses) {
  double worst = 0.0;
  for (const quality::OutputLoss& loss : losses) {
    worst = std::max(worst, std::isnan(loss.relative_l2) ? std::numeric_limits<double>::infinity() : loss.relative_l2);
  }
  return worst;
}

struct LossMeter::Held {
  data::Sample sample;
  std::vector<graph::Tensor> expected;
};

LossMeter::LossMeter(const Subject& subject, engine::Session& reference, const std::vector<std::size_t>& indices,
                     std::size_t max_bytes, const Host& host)
    : subject_(subject), outputs_(port_names(reference.outputs())) {
  data::Prefetcher samples(*subject.dataset, indices, subject.workers, host.cancel);
  host.progress.begin("computing reference outputs", static_cast<std::int64_t>(indices.size()));
  std::size_t bytes = 0;
  while (std::optional<data::Sample> sample = samples.next()) {
    host.cancel.throw_if_cancelled();
    std::vector<graph::Tensor> expected = run_on(reference, subject, *sample);
    bytes += bytes_of(sample->inputs) + bytes_of(expected);
    if (!held_.empty() && bytes > max_bytes) {
      break;
    }
    held_.push_back({std::move(*sample), std::move(expected)});
    host.progress.advance();
  }
  host.progress.end();
}

LossMeter::~LossMeter() = default;

std::size_t LossMeter::samples() const { return held_.size(); }

std::vector<quality::OutputLoss> LossMeter::measure(engine::Session& session, std::size_t most, const Host& host) const {
  std::vector<OutputGauge> gauges = gauges_of(subject_, outputs_, host);
  for (std::size_t i = 0; i < held_.size() && i < most; ++i) {
    host.cancel.throw_if_cancelled();
    add_sample(gauges, subject_, session, held_[i].sample, outputs_, held_[i].expected);
  }
  return results_of(gauges);
}

}  // namespace tempera::optimize
