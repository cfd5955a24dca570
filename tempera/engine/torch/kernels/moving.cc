#include "tempera/engine/torch/kernels/moving.h"

#include <ATen/ATen.h>

namespace tempera::engine::aten {

void move_strings(KernelContext& context, KernelFunction function) {
  std::vector<std::string> all;
  std::vector<Value> inputs;
  for (std::size_t i = 0; i < context.input_count(); ++i) {
    const graph::Tensor* strings = context.has(i) ? context.value(i).strings() : nullptr;
    if (strings == nullptr) {
      inputs.push_back(context.has(i) ? context.value(i) : Value());
      continue;
    }
    const auto first = static_cast<std::int64_t>(all.size());
    all.insert(all.end(), strings->string_values().begin(), strings->string_values().end());
    inputs.emplace_back(at::arange(first, first + strings->size(), at::kLong).reshape(strings->dims()));
  }
  KernelContext positions = context.with_inputs(inputs);
  function(positions);
  const std::vector<Value> outputs = positions.take_outputs();
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Array* array = outputs[i].array();
    if (array == nullptr) {
      continue;
    }
    const at::Tensor data = array->data.contiguous();
    std::vector<std::string> moved;
    for (std::int64_t j = 0; j < data.numel(); ++j) {
      moved.push_back(all[static_cast<std::size_t>(data.const_data_ptr<std::int64_t>()[j])]);
    }
    context.set(i, Value(graph::Tensor::strings(data.sizes().vec(), std::move(moved))));
  }
}

}  // namespace tempera::engine::aten
