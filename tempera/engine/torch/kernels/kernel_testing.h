#pragma once

#include <initializer_list>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include "tempera/base/error.h"
#include "tempera/engine/torch/kernels/kernels.h"

/// For the kernels' tests: one node on given tensors.
namespace tempera::engine::aten::testing {

using Attributes = std::map<std::string, graph::Attribute, std::less<>>;

inline Value value(const at::Tensor& data, DataType type) { return Value(Array{data, type}); }
inline Value value(const at::Tensor& data) { return data.defined() ? Value(data) : Value(); }

/// Runs the kernel of `op_type`, at the newest opset unless told.
inline std::vector<Value> run(std::string_view op_type, const std::vector<Value>& inputs,
                              Attributes attributes = {}, std::size_t outputs = 1, std::int64_t opset = 28) {
  graph::Node node;
  node.op_type = op_type;
  node.attributes = std::move(attributes);
  for (std::uint32_t i = 0; i < outputs; ++i) {
    node.outputs.push_back(graph::ValueId{i});
  }
  RunState state;
  state.generator = at::detail::createCPUGenerator(7);
  KernelContext context(node, opset, inputs, state);
  const Kernel* kernel = find_kernel("", op_type);
  TEMPERA_CHECK(kernel != nullptr, "no kernel for " + std::string(op_type));
  kernel->function(context);
  return context.take_outputs();
}

/// The first output's data.
inline at::Tensor run_tensor(std::string_view op_type, const std::vector<at::Tensor>& inputs,
                             Attributes attributes = {}) {
  std::vector<Value> values;
  for (const at::Tensor& input : inputs) {
    values.push_back(value(input));
  }
  return run(op_type, values, std::move(attributes)).front().array()->data;
}

inline at::Tensor floats(std::initializer_list<float> values, at::IntArrayRef shape) {
  return at::tensor(std::vector<float>(values)).reshape(shape);
}

inline at::Tensor integers(std::initializer_list<std::int64_t> values) {
  return at::tensor(std::vector<std::int64_t>(values));
}

/// 0, 1, 2, ... in a shape.
inline at::Tensor counting(at::IntArrayRef shape, at::ScalarType type = at::kFloat) {
  std::int64_t count = 1;
  for (const std::int64_t dim : shape) {
    count *= dim;
  }
  return at::arange(count).to(type).reshape(shape);
}

/// Equal type and shape; elements within the tolerance, NaN equal to NaN.
inline ::testing::AssertionResult near(const at::Tensor& got, const at::Tensor& expected,
                                       double tolerance = 0.0) {
  if (got.scalar_type() != expected.scalar_type() || got.sizes() != expected.sizes()) {
    return ::testing::AssertionFailure() << "got " << got.toString() << got.sizes() << ", expected "
                                         << expected.toString() << expected.sizes();
  }
  if (at::allclose(got.to(at::kDouble), expected.to(at::kDouble), tolerance, tolerance, true)) {
    return ::testing::AssertionSuccess();
  }
  return ::testing::AssertionFailure() << "got\n" << got << "\nexpected\n" << expected;
}

using Ints = std::vector<std::int64_t>;

}  // namespace tempera::engine::aten::testing
