#include "tempera/optimize/weight_mix.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "tempera/compress/quantize/weights.h"

namespace tempera::optimize {
namespace {

// A layer goes to a format with more bytes.
struct Upgrade {
  std::string layer;
  compress::WeightFormat to;
  double gain;  // squared loss saved for each byte more
};

class WeightMixer {
 public:
  WeightMixer(const graph::Model& model, const std::vector<compress::Layer>& layers, const WeightMixOptions& options,
              const Host& host)
      : model_(model), layers_(layers), options_(options), host_(host) {}

  WeightMix run() {
    measure_alone();
    // The loss falls with each upgrade, so the least number that holds the budget is found by bisection; a mix that was
    // not measured is never taken.
    std::size_t low = 0;
    std::size_t high = upgrades_.size();
    while (low < high) {
      const std::size_t middle = (low + high) / 2;
      if (measure(middle)) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    if (!best_.within) {
      (void)measure(high);
    }
    best_.alone = std::move(alone_);
    return std::move(best_);
  }

 private:
  // Each layer alone in both formats, by GPTQ where that loses less.
  void measure_alone() {
    host_.progress.begin("measuring each layer alone", static_cast<std::int64_t>(layers_.size()));
    for (const compress::Layer& layer : layers_) {
      host_.cancel.throw_if_cancelled();
      const double narrow = loss_alone(layer, options_.narrow);
      alone_[layer.name] = narrow;
      add_upgrades(layer, narrow, loss_alone(layer, options_.wide));
      host_.progress.advance();
    }
    std::stable_sort(upgrades_.begin(), upgrades_.end(), [](const auto& a, const auto& b) { return a.gain > b.gain; });
  }

  double loss_alone(const compress::Layer& layer, const compress::LayerFormat& format) {
    const compress::QuantizationPlan plan = {{layer.name, format}};
    const double rounded = options_.rough_loss(quantized(plan, nullptr));
    const compress::Hessian* hessian = hessian_of(layer.name);
    if (hessian == nullptr) {
      return rounded;
    }
    const compress::Hessians own = {{layer.name, *hessian}};
    const double by_outputs = options_.rough_loss(quantized(plan, &own));
    if (by_outputs < rounded) {
      by_outputs_.insert({layer.name, format.weights});
    }
    return std::min(by_outputs, rounded);
  }

  // Those on the layer's lower convex hull of squared loss over bytes, in which the gains fall.
  void add_upgrades(const compress::Layer& layer, double narrow_loss, double wide_loss) {
    const auto bytes = [&](const compress::LayerFormat& format) {
      return static_cast<double>(compress::stored_bytes(model_.graph, layer, format));
    };
    const auto gain = [](double loss, double less, double from, double to) {
      return (loss * loss - less * less) / std::max(to - from, 1.0);
    };
    const double narrow = bytes(options_.narrow);
    const double wide = bytes(options_.wide);
    const double whole = bytes({});
    const double to_wide = gain(narrow_loss, wide_loss, narrow, wide);
    const double wide_to_float = gain(wide_loss, 0.0, wide, whole);
    if (to_wide > wide_to_float) {
      upgrades_.push_back({layer.name, options_.wide.weights, to_wide});
      upgrades_.push_back({layer.name, compress::WeightFormat::kFloat, wide_to_float});
    } else {
      upgrades_.push_back({layer.name, compress::WeightFormat::kFloat, gain(narrow_loss, 0.0, narrow, whole)});
    }
  }

  [[nodiscard]] compress::QuantizationPlan plan_after(std::size_t upgrades) const {
    compress::QuantizationPlan plan;
    for (const compress::Layer& layer : layers_) {
      plan[layer.name] = options_.narrow;
    }
    for (std::size_t i = 0; i < upgrades; ++i) {
      if (upgrades_[i].to == compress::WeightFormat::kFloat) {
        plan.erase(upgrades_[i].layer);
      } else {
        plan[upgrades_[i].layer] = options_.wide;
      }
    }
    return plan;
  }

  // Whether the mix is within the budget; the best so far is kept.
  bool measure(std::size_t upgrades) {
    host_.cancel.throw_if_cancelled();
    host_.progress.begin(fmt::format("trying a mix after {} of {} upgrades", upgrades, upgrades_.size()), 0);
    WeightMix mix;
    mix.plan = plan_after(upgrades);
    for (const auto& [layer, format] : mix.plan) {
      if (by_outputs_.contains({layer, format.weights})) {
        mix.hessians.insert({layer, *hessian_of(layer)});
      }
    }
    const auto [loss, within] = options_.loss(quantized(mix.plan, &mix.hessians));
    mix.loss = loss;
    mix.within = within;
    if (within || !best_.within) {
      best_ = std::move(mix);
    }
    return within;
  }

  [[nodiscard]] graph::Model quantized(const compress::QuantizationPlan& plan, const compress::Hessians* hessians) const {
    compress::QuantizeOptions settings = options_.quantize;
    settings.hessians = hessians;
    return compress::quantize(model_, plan, nullptr, settings).model;
  }

  [[nodiscard]] const compress::Hessian* hessian_of(const std::string& layer) const {
    if (options_.hessians == nullptr) {
      return nullptr;
    }
    const auto found = options_.hessians->find(layer);
    return found == options_.hessians->end() ? nullptr : &found->second;
  }

  const graph::Model& model_;
  const std::vector<compress::Layer>& layers_;
  const WeightMixOptions& options_;
  const Host& host_;
  std::vector<Upgrade> upgrades_;  // by falling gain
  std::map<std::string, double> alone_;
  std::set<std::pair<std::string, compress::WeightFormat>> by_outputs_;  // where GPTQ loses less than rounding
  WeightMix best_;
};

}  // namespace

WeightMix mix_weights(const graph::Model& model, const std::vector<compress::Layer>& layers, const WeightMixOptions& options,
                      const Host& host) {
  return WeightMixer(model, layers, options, host).run();
}

}  // namespace tempera::optimize
