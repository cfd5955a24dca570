#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "tempera/compress/prune/channels.h"
#include "tempera/compress/prune/cut.h"
#include "tempera/engine/torch/torch_engine.h"
#include "tempera/pass/testing.h"
#include "tempera/pass/weights.h"

/// What the tests of channel pruning share.
namespace tempera::compress::testing {

using pass::testing::only;
using pass::testing::parse;

/// Whether a weight is summed over along this axis where it is used: setting it to zero there hides a
/// channel.
inline bool is_reader(const graph::Graph& graph, graph::Use use, std::size_t axis) {
  const graph::Node& node = graph.node(use.node);
  const std::size_t rank = graph.constant(graph.input(use.node, use.input))->dims().size();
  if (node.is("Conv") || node.is("ConvTranspose")) {
    return use.input == 1 && graph.attribute<std::int64_t>(use.node, "group", 1) == 1 &&
           axis == (node.is("Conv") ? 1 : 0);
  }
  if (node.is("Gemm")) {
    return use.input == 1 && axis == (graph.attribute<std::int64_t>(use.node, "transB", 0) != 0 ? 1 : 0);
  }
  return node.is("MatMul") && use.input == 1 && axis + 2 == rank;
}

/// The model with zeros for the removed channels: in every weight that goes with them, or only where they are
/// read.
inline graph::Model silence(const graph::Model& model, const Coupling& coupling,
                            const std::vector<bool>& removed, bool only_readers) {
  graph::Model silent = model;
  for (const auto& [use, labels] : coupling.weights()) {
    const graph::ValueId old = silent.graph.input(use.node, use.input);
    const graph::Tensor tensor = silent.graph.constant(old).value();
    if (!numeric::is_float(tensor.type())) {
      continue;
    }
    std::vector<double> numbers = to_doubles(tensor);
    for (std::size_t axis = 0; axis < labels.size(); ++axis) {
      if (labels[axis].empty() || (only_readers && !is_reader(silent.graph, use, axis))) {
        continue;
      }
      std::size_t inner = 1;
      for (std::size_t i = axis + 1; i < labels.size(); ++i) {
        inner *= static_cast<std::size_t>(tensor.dims()[i]);
      }
      for (std::size_t i = 0; i < numbers.size(); ++i) {
        if (removed[labels[axis][i / inner % labels[axis].size()]]) {
          numbers[i] = 0.0;
        }
      }
    }
    const graph::ValueId fresh = silent.graph.add_initializer(
        "silent", pass::encode_weights(tensor.type(), tensor.dims(), numbers).value());
    silent.graph.set_input(use.node, use.input, fresh);
  }
  return silent;
}

/// Runs both in the interpreter on the same normal inputs (sizes that are not fixed are 2). Sums of some
/// hundred float32 products in another order differ by some 2^-24 of their length each; deep networks add up
/// to 1e-5.
inline void expect_same_outputs(const graph::Model& before, const graph::Model& after, std::uint64_t seed) {
  std::vector<graph::Tensor> inputs;
  for (const graph::ValueId id : before.graph.inputs()) {
    const graph::ValueType& type = before.graph.value(id).type;
    graph::Dims dims;
    for (const graph::Dim& dim : type.shape.value()) {
      dims.push_back(dim.fixed() ? dim.value : 2);
    }
    inputs.push_back(type.element == graph::DataType::kBool
                         ? graph::Tensor::from<bool>(dims, {true})
                         : pass::testing::random_tensor(type.element, dims, seed));
  }
  engine::CompileOptions options;
  options.threads = 1;
  const auto engine = engine::make_torch_engine();
  const std::vector<graph::Tensor> a = engine->compile(before, options)->run(inputs);
  const std::vector<graph::Tensor> b = engine->compile(after, options)->run(inputs);
  for (std::size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(a[i].dims(), b[i].dims());
    const std::vector<double> x = to_doubles(a[i]);
    const std::vector<double> y = to_doubles(b[i]);
    double distance = 0.0;
    double length = 0.0;
    for (std::size_t k = 0; k < x.size(); ++k) {
      distance += (x[k] - y[k]) * (x[k] - y[k]);
      length += x[k] * x[k];
    }
    EXPECT_TRUE(std::isfinite(length));
    EXPECT_LE(std::sqrt(distance), 1e-5 * std::sqrt(length) + 1e-12)
        << "output " << i << ", inputs of seed " << seed;
  }
}

inline std::int64_t count_removed(const ChannelPlan& plan) {
  std::int64_t removed = 0;
  for (const GroupRecord& group : plan.groups) {
    removed += group.channels_before - group.channels_after;
  }
  return removed;
}

/// Prunes and checks what must hold: the ONNX checker accepts the result, inputs and outputs keep their
/// types, and it computes what the original computes with the removed channels silent.
inline ChannelPruned expect_prunes(const graph::Model& model, const ChannelOptions& options,
                                   bool only_readers = true) {
  const Coupling coupling(model, options.ignore);
  const ChannelPlan plan = plan_channels(coupling, options);
  ChannelPruned pruned = prune_channels(model, options);
  try {
    graph::verify(pruned.model.graph);
    onnx::check_model(pruned.model);
    for (std::size_t i = 0; i < model.graph.outputs().size(); ++i) {
      const graph::Value& before = model.graph.value(model.graph.outputs()[i]);
      const graph::Value& after = pruned.model.graph.value(pruned.model.graph.outputs()[i]);
      EXPECT_EQ(to_string(before.type), to_string(after.type)) << before.name;
      EXPECT_EQ(before.name, after.name);
    }
    const graph::Model silent = silence(model, coupling, plan.removed, only_readers);
    const graph::Model from_silent =
        only_readers ? pruned.model : cut_channels(silent, coupling, plan.removed);
    expect_same_outputs(silent, from_silent, 1);
    expect_same_outputs(silent, from_silent, 2);
  } catch (const Error& error) {
    ADD_FAILURE() << error.text() << "\n" << onnx::print_text(pruned.model);
  }
  return pruned;
}

/// Dimensions of an initialiser or value, "[6,4,3,3]".
inline std::string shape(const graph::Model& model, std::string_view name) {
  const auto id = model.graph.find_value(name);
  return id && model.graph.value(*id).type.shape ? graph::to_string(*model.graph.value(*id).type.shape)
                                                 : "none";
}

}  // namespace tempera::compress::testing
