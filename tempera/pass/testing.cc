#include "tempera/pass/testing.h"

#include <cmath>
#include <map>

#include "tempera/engine/torch/torch_engine.h"

namespace tempera::pass::testing {
namespace {

using graph::DataType;
using graph::Tensor;

// Sizes of the symbolic dimensions: 2, 3, 4, .. in the order in which the inputs name them, so that no two are equal by
// accident; unnamed ones are 2.
std::vector<Tensor> random_inputs(const graph::Graph& graph, std::uint64_t seed) {
  std::map<std::string, std::int64_t> sizes;
  std::vector<Tensor> inputs;
  for (const graph::ValueId id : graph.inputs()) {
    const graph::ValueType& type = graph.value(id).type;
    graph::Dims dims;
    for (const graph::Dim& dim : type.shape.value()) {
      const auto next = static_cast<std::int64_t>(sizes.size()) + 2;
      dims.push_back(dim.fixed() ? dim.value : dim.symbol.empty() ? 2 : sizes.emplace(dim.symbol, next).first->second);
    }
    if (type.element == DataType::kBool) {
      const std::vector<std::byte> bits(static_cast<std::size_t>(graph::element_count(dims)), std::byte(seed % 2));
      inputs.push_back(Tensor::from_bytes(type.element, dims, bits));
    } else {
      inputs.push_back(random_tensor(type.element, dims, seed + inputs.size()));
    }
  }
  return inputs;
}

double tolerance_of(DataType type) {
  switch (type) {
    case DataType::kFloat64: return 1e-12;
    case DataType::kFloat32: return 1e-5;
    case DataType::kFloat16: return 4e-3;
    case DataType::kBfloat16: return 3e-2;
    default: return 0.0;
  }
}

// Distance over length; where the old value is not finite the new one must be the same.
double relative_l2(const Tensor& before, const Tensor& after) {
  const std::vector<double> a = to_doubles(before);
  const std::vector<double> b = to_doubles(after);
  double distance = 0.0;
  double length = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!std::isfinite(a[i])) {
      distance += std::isnan(a[i]) ? (std::isnan(b[i]) ? 0.0 : 1.0) : (a[i] == b[i] ? 0.0 : 1.0);
      continue;
    }
    distance += (a[i] - b[i]) * (a[i] - b[i]);
    length += a[i] * a[i];
  }
  return length > 0.0 ? std::sqrt(distance / length) : std::sqrt(distance);
}

// Makes further outputs of the tensors that are said to be equal, in both.
void add_equal_tensors(graph::Model& before, graph::Model& after) {
  for (const graph::NodeId node : after.graph.nodes()) {
    for (const graph::ValueId id : after.graph.node(node).outputs) {
      const auto& origin = id.valid() ? after.graph.value(id).origin : std::nullopt;
      const auto old = origin && origin->equal ? before.graph.find_value(origin->tensor) : std::nullopt;
      if (old && before.graph.producer(*old).valid() && before.graph.value(*old).type.is_tensor() &&
          !before.graph.is_output(*old) && !after.graph.is_output(id)) {
        before.graph.add_output(*old);
        after.graph.add_output(id);
      }
    }
  }
}

}  // namespace

void expect_equal_outputs(const graph::Model& before, const graph::Model& after, std::uint64_t seed) {
  const std::unique_ptr<engine::TorchEngine> engine = engine::make_torch_engine();
  const std::vector<Tensor> inputs = random_inputs(before.graph, seed);
  graph::Model old_model = before;
  graph::Model new_model = after;
  add_equal_tensors(old_model, new_model);
  const std::vector<Tensor> old_outputs = engine->compile(old_model, {})->run(inputs);
  const std::vector<Tensor> new_outputs = engine->compile(new_model, {})->run(inputs);
  ASSERT_EQ(old_outputs.size(), new_outputs.size());
  for (std::size_t i = 0; i < old_outputs.size(); ++i) {
    const std::string name = old_model.graph.value(old_model.graph.outputs()[i]).name;
    ASSERT_EQ(old_outputs[i].type(), new_outputs[i].type()) << name;
    ASSERT_EQ(old_outputs[i].dims(), new_outputs[i].dims()) << name;
    EXPECT_LE(relative_l2(old_outputs[i], new_outputs[i]), tolerance_of(old_outputs[i].type()))
        << "output " << name << ", inputs of seed " << seed;
  }
}

}  // namespace tempera::pass::testing
