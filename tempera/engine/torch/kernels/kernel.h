#pragma once

#include <ATen/Device.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/Generator.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tempera/engine/torch/value.h"
#include "tempera/graph/graph.h"

namespace tempera::engine::aten {

/// State of one run that kernels share.
struct RunState {
  at::Device device = at::kCPU;
  at::Generator generator;  ///< for random operators without a seed of their own
};

/// Everything a kernel sees of the node that it computes.
///
/// A kernel reads inputs, sets outputs, and changes neither inputs nor anything else. It computes with differentiable
/// ATen operators wherever the ONNX operator is differentiable, and never in place: the trainer runs it under autograd.
/// It takes every form of its operator from opset 7 on (attributes that became inputs: `ints_or`), asking `opset()`
/// only where the meaning changed.
class KernelContext {
 public:
  /// Runs a body held by the node.
  using RunBody = std::function<std::vector<Value>(const graph::Graph& body, std::vector<Value> inputs)>;

  KernelContext(const graph::Node& node, std::int64_t opset, std::span<const Value> inputs, RunState& run,
                RunBody run_body = {});

  /// The same node on other inputs, which outlive the result.
  [[nodiscard]] KernelContext with_inputs(std::span<const Value> inputs) const {
    return KernelContext(node_, opset_, inputs, run_, run_body_);
  }

  // -- the node --------------------------------------------------------------------------------------------------------

  [[nodiscard]] const graph::Node& node() const { return node_; }
  [[nodiscard]] std::string_view op_type() const { return node_.op_type; }
  /// Version of the operator set of the node's domain.
  [[nodiscard]] std::int64_t opset() const { return opset_; }
  [[nodiscard]] at::Device device() const { return run_.device; }
  /// The generator of a random node: its own, seeded by the attribute `seed`, or the run's.
  [[nodiscard]] at::Generator generator() const;

  /// \throws Error{kBadModel} when it holds another kind
  template <typename T>
  [[nodiscard]] T attribute(std::string_view name, T fallback) const;
  template <typename T>
  [[nodiscard]] std::optional<T> attribute(std::string_view name) const;
  [[nodiscard]] bool has_attribute(std::string_view name) const { return node_.attributes.contains(name); }
  [[nodiscard]] std::int64_t integer(std::string_view name, std::int64_t fallback) const;
  [[nodiscard]] double real(std::string_view name, double fallback) const;
  [[nodiscard]] std::string text(std::string_view name, std::string_view fallback) const;
  [[nodiscard]] std::vector<std::int64_t> integers(std::string_view name) const;  ///< empty when absent
  [[nodiscard]] std::vector<float> reals(std::string_view name) const;            ///< empty when absent

  // -- inputs ----------------------------------------------------------------------------------------------------------

  [[nodiscard]] std::size_t input_count() const { return inputs_.size(); }
  /// Input i is given and is not an empty optional.
  [[nodiscard]] bool has(std::size_t i) const { return i < inputs_.size() && !inputs_[i].empty(); }
  [[nodiscard]] const Value& value(std::size_t i) const;  ///< \throws Error{kBadModel} when left out
  [[nodiscard]] const Array& array(std::size_t i) const;  ///< \throws Error{kBadModel} when it is no array
  [[nodiscard]] const at::Tensor& tensor(std::size_t i) const { return array(i).data; }
  [[nodiscard]] at::Tensor tensor_or_none(std::size_t i) const;  ///< undefined when left out
  [[nodiscard]] DataType type(std::size_t i) const { return array(i).type; }
  [[nodiscard]] const graph::Tensor& strings(std::size_t i) const;
  [[nodiscard]] const Sequence& sequence(std::size_t i) const;

  /// A small integer input (a shape, axes, pads) on the host, flattened.
  [[nodiscard]] std::vector<std::int64_t> ints(std::size_t i) const;
  /// Input i when given, else the attribute of older opsets; nothing when neither is.
  [[nodiscard]] std::optional<std::vector<std::int64_t>> ints_or(std::size_t i, std::string_view attribute) const;
  /// A one-element input on the host.
  [[nodiscard]] double scalar(std::size_t i) const;
  [[nodiscard]] std::int64_t scalar_int(std::size_t i) const;

  /// `axis` counted from the front. \throws Error{kBadModel} when outside [-rank, rank)
  [[nodiscard]] std::int64_t axis(std::int64_t axis, std::int64_t rank) const;

  // -- outputs ---------------------------------------------------------------------------------------------------------

  [[nodiscard]] std::size_t output_count() const { return node_.outputs.size(); }
  /// Output i is asked for.
  [[nodiscard]] bool wants(std::size_t i) const { return i < node_.outputs.size() && node_.outputs[i].valid(); }

  /// Sets output i; one beyond those asked for is dropped.
  /// \throws Error{kInternal} when data is not in the carrier of `type`
  void set(std::size_t i, at::Tensor data, DataType type);
  /// The same for torch types that stand for themselves.
  void set(std::size_t i, const at::Tensor& data);
  void set(std::size_t i, Value value);

  // -- bodies ----------------------------------------------------------------------------------------------------------

  [[nodiscard]] const graph::Graph& body(std::string_view attribute) const;
  [[nodiscard]] std::vector<Value> run_body(const graph::Graph& body, std::vector<Value> inputs) const;

  /// \throws Error{kBadModel} with this message; the interpreter adds the node
  [[noreturn]] void fail(const std::string& message) const;
  /// \throws Error{kUnsupported}
  [[noreturn]] void unsupported(const std::string& message) const;

  [[nodiscard]] std::vector<Value> take_outputs() { return std::move(outputs_); }

 private:
  [[noreturn]] void wrong_attribute(std::string_view name) const;

  const graph::Node& node_;
  std::int64_t opset_;
  std::span<const Value> inputs_;
  RunState& run_;
  RunBody run_body_;
  std::vector<Value> outputs_;
};

using KernelFunction = void (*)(KernelContext& context);

/// What one operator means in ATen.
struct Kernel {
  std::string_view op_type;
  KernelFunction function;
  std::string_view domain = "";
};

template <typename T>
std::optional<T> KernelContext::attribute(std::string_view name) const {
  const auto found = node_.attributes.find(name);
  if (found == node_.attributes.end()) {
    return std::nullopt;
  }
  if (const T* value = std::get_if<T>(&found->second)) {
    return *value;
  }
  wrong_attribute(name);
}

template <typename T>
T KernelContext::attribute(std::string_view name, T fallback) const {
  return attribute<T>(name).value_or(std::move(fallback));
}

}  // namespace tempera::engine::aten
