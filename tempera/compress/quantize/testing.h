#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tempera/compress/calibrate/calibrate.h"
#include "tempera/compress/quantize/layers.h"
#include "tempera/compress/quantize/plan.h"
#include "tempera/engine/torch/torch_engine.h"
#include "tempera/graph/model.h"
#include "tempera/pass/testing.h"

/// What the tests of quantised activations share.
namespace tempera::compress::testing {

using pass::testing::count;
using pass::testing::only;
using pass::testing::parse;

/// Normal random inputs of a model whose shapes are fixed.
inline std::vector<graph::Tensor> random_inputs(const graph::Model& model, std::uint64_t seed) {
  std::vector<graph::Tensor> inputs;
  for (const graph::ValueId id : model.graph.inputs()) {
    const graph::ValueType& type = model.graph.value(id).type;
    inputs.push_back(pass::testing::random_tensor(type.element, type.dims().value(), seed + inputs.size()));
  }
  return inputs;
}

inline std::vector<graph::Tensor> run(const graph::Model& model, const std::vector<graph::Tensor>& inputs) {
  return engine::make_torch_engine()->compile(model, {})->run(inputs);
}

/// Least and largest value of the named tensors in one run.
inline Calibration observe(const graph::Model& model, const std::vector<std::string>& names,
                           const std::vector<graph::Tensor>& inputs) {
  graph::Model watched = model;
  std::vector<std::string> computed;
  Calibration calibration;
  const auto note = [&](const std::string& name, const graph::Tensor& tensor) {
    const std::vector<double> values = graph::to_doubles(tensor);
    TensorRange& range = calibration.ranges[name];
    range.lo = range.min = static_cast<float>(*std::min_element(values.begin(), values.end()));
    range.hi = range.max = static_cast<float>(*std::max_element(values.begin(), values.end()));
  };
  for (const std::string& name : names) {
    const graph::ValueId id = *watched.graph.find_value(name);
    const auto& given = watched.graph.inputs();
    const auto input = std::find(given.begin(), given.end(), id);
    if (input != given.end()) {
      note(name, inputs[static_cast<std::size_t>(input - given.begin())]);
    } else {
      watched.graph.add_output(watched.graph.add_node("Identity", {id}, "watched"));
      computed.push_back(name);
    }
  }
  const std::vector<graph::Tensor> outputs = run(watched, inputs);
  for (std::size_t i = 0; i < computed.size(); ++i) {
    note(computed[i], outputs[outputs.size() - computed.size() + i]);
  }
  return calibration;
}

/// Every layer in the given format.
inline QuantizationPlan plan_all(const graph::Model& model,
                                 ActivationFormat activations = ActivationFormat::kInt8) {
  LayerFormat format;
  format.activations = activations;
  format.weights =
      activations == ActivationFormat::kFloat8 ? WeightFormat::kFloat8E4M3FN : WeightFormat::kInt8;
  QuantizationPlan plan;
  for (const Layer& layer : find_layers(model.graph)) {
    plan[layer.name] = format;
    if (!layer.has_weight()) {
      plan[layer.name].weights = WeightFormat::kFloat;
    }
  }
  return plan;
}

/// |a - b| / |b| over all elements; |a| when b is zero.
inline double relative_l2(const graph::Tensor& a, const graph::Tensor& b) {
  EXPECT_EQ(a.dims(), b.dims());
  const std::vector<double> x = graph::to_doubles(a);
  const std::vector<double> y = graph::to_doubles(b);
  double distance = 0.0;
  double length = 0.0;
  for (std::size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
    distance += (x[i] - y[i]) * (x[i] - y[i]);
    length += y[i] * y[i];
  }
  return std::sqrt(length > 0.0 ? distance / length : distance);
}

}  // namespace tempera::compress::testing
