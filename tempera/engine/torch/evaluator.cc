#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "tempera/base/error.h"
#include "tempera/engine/torch/interpreter.h"
#include "tempera/engine/torch/kernels/kernels.h"
#include "tempera/engine/torch/torch_engine.h"
#include "tempera/onnx/schema_function.h"

namespace tempera::engine {
namespace {

/// Operators whose result differs from run to run.
constexpr std::array<std::string_view, 7> kRandom = {"Bernoulli",         "Dropout",       "Multinomial", "RandomNormal",
                                                     "RandomNormalLike", "RandomUniform", "RandomUniformLike"};

class TorchEvaluator final : public Evaluator {
 public:
  [[nodiscard]] std::optional<std::vector<graph::Tensor>> evaluate(
      const graph::Node& node, std::int64_t opset, std::span<const graph::Tensor> inputs) const override {
    if (std::find(kRandom.begin(), kRandom.end(), node.op_type) != kRandom.end()) {
      return std::nullopt;
    }
    if (aten::find_kernel(node.domain, node.op_type) == nullptr &&
        !onnx::has_schema_function(node, {{node.domain, opset}})) {
      return std::nullopt;
    }
    const at::NoGradGuard no_grad;
    std::vector<aten::Value> values;
    for (const graph::Tensor& input : inputs) {
      values.push_back(aten::to_value(input));
    }
    aten::RunState state;
    std::vector<graph::Tensor> outputs;
    for (const aten::Value& result : aten::run_node(node, opset, values, state)) {
      if (result.sequence() != nullptr) {
        return std::nullopt;
      }
      outputs.push_back(result.empty() ? graph::Tensor() : aten::to_tensor(result));
    }
    return outputs;
  }
};

}  // namespace

std::unique_ptr<Evaluator> make_torch_evaluator() { return std::make_unique<TorchEvaluator>(); }

}  // namespace tempera::engine
