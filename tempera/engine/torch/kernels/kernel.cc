#include "tempera/engine/torch/kernels/kernel.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <fmt/format.h>

#include <bit>

#include "tempera/base/error.h"

namespace tempera::engine::aten {

KernelContext::KernelContext(const graph::Node& node, std::int64_t opset, std::span<const Value> inputs,
                             RunState& run, RunBody run_body)
    : node_(node), opset_(opset), inputs_(inputs), run_(run), run_body_(std::move(run_body)),
      outputs_(node.outputs.size()) {}

at::Generator KernelContext::generator() const {
  if (!has_attribute("seed")) {
    return run_.generator;
  }
  // The seed is an integer in Dropout, a float elsewhere: its bits then, so that 0.1 and 0.2 differ.
  const graph::Attribute& seed = node_.attributes.find("seed")->second;
  std::uint64_t bits = 0;
  if (const auto* integer = std::get_if<std::int64_t>(&seed)) {
    bits = static_cast<std::uint64_t>(*integer);
  } else {
    bits = std::bit_cast<std::uint32_t>(static_cast<float>(real("seed", 0.0)));
  }
  return at::make_generator<at::CPUGeneratorImpl>(bits);
}

std::int64_t KernelContext::integer(std::string_view name, std::int64_t fallback) const {
  return attribute<std::int64_t>(name, fallback);
}

double KernelContext::real(std::string_view name, double fallback) const {
  const std::optional<float> value = attribute<float>(name);
  return value ? static_cast<double>(*value) : fallback;
}

std::string KernelContext::text(std::string_view name, std::string_view fallback) const {
  return attribute<std::string>(name, std::string(fallback));
}

std::vector<std::int64_t> KernelContext::integers(std::string_view name) const {
  return attribute<std::vector<std::int64_t>>(name, {});
}

std::vector<float> KernelContext::reals(std::string_view name) const {
  return attribute<std::vector<float>>(name, {});
}

const Value& KernelContext::value(std::size_t i) const {
  if (!has(i)) {
    fail(fmt::format("input {} is missing", i));
  }
  return inputs_[i];
}

const Array& KernelContext::array(std::size_t i) const {
  const Array* array = value(i).array();
  if (array == nullptr) {
    fail(fmt::format("input {} is a {}, expected a numeric tensor", i,
                     inputs_[i].strings() != nullptr ? "string tensor" : "sequence"));
  }
  return *array;
}

at::Tensor KernelContext::tensor_or_none(std::size_t i) const { return has(i) ? tensor(i) : at::Tensor(); }

const graph::Tensor& KernelContext::strings(std::size_t i) const {
  const graph::Tensor* strings = value(i).strings();
  if (strings == nullptr) {
    fail(fmt::format("input {} is not a string tensor", i));
  }
  return *strings;
}

const Sequence& KernelContext::sequence(std::size_t i) const {
  const Sequence* sequence = value(i).sequence();
  if (sequence == nullptr) {
    fail(fmt::format("input {} is not a sequence", i));
  }
  return *sequence;
}

std::vector<std::int64_t> KernelContext::ints(std::size_t i) const {
  const at::Tensor& data = tensor(i);
  if (data.is_floating_point() || data.is_complex()) {
    fail(fmt::format("input {} holds {}, expected integers", i, numeric::to_string(type(i))));
  }
  const at::Tensor host = data.to(at::kCPU, at::kLong).contiguous();
  const auto* first = host.const_data_ptr<std::int64_t>();
  return {first, first + host.numel()};
}

std::optional<std::vector<std::int64_t>> KernelContext::ints_or(std::size_t i, std::string_view name) const {
  if (has(i)) {
    return ints(i);
  }
  return attribute<std::vector<std::int64_t>>(name);
}

double KernelContext::scalar(std::size_t i) const {
  const at::Tensor& data = tensor(i);
  if (data.numel() != 1) {
    fail(fmt::format("input {} has {} elements, expected one", i, data.numel()));
  }
  return data.item().toDouble();
}

std::int64_t KernelContext::scalar_int(std::size_t i) const {
  const at::Tensor& data = tensor(i);
  if (data.numel() != 1) {
    fail(fmt::format("input {} has {} elements, expected one", i, data.numel()));
  }
  return data.item().toLong();
}

std::int64_t KernelContext::axis(std::int64_t axis, std::int64_t rank) const {
  if (axis < -rank || axis >= rank) {
    fail(fmt::format("axis {} of a tensor of rank {}, expected one in [{}, {})", axis, rank, -rank, rank));
  }
  return axis < 0 ? axis + rank : axis;
}

void KernelContext::set(std::size_t i, at::Tensor data, DataType type) {
  TEMPERA_CHECK(data.scalar_type() == carrier(type),
                fmt::format("{}: output {} is held in {}, not in the carrier of {}", node_.op_type, i,
                            at::toString(data.scalar_type()), numeric::to_string(type)));
  set(i, Value(Array{std::move(data), type}));
}

void KernelContext::set(std::size_t i, const at::Tensor& data) { set(i, data, logical_type(data.scalar_type())); }

void KernelContext::set(std::size_t i, Value value) {
  if (i < outputs_.size()) {
    outputs_[i] = std::move(value);
  }
}

const graph::Graph& KernelContext::body(std::string_view name) const {
  const auto found = node_.attributes.find(name);
  if (found == node_.attributes.end()) {
    fail(fmt::format("attribute '{}' is missing", name));
  }
  const auto* body = std::get_if<graph::Body>(&found->second);
  if (body == nullptr) {
    wrong_attribute(name);
  }
  return body->graph();
}

std::vector<Value> KernelContext::run_body(const graph::Graph& body, std::vector<Value> inputs) const {
  TEMPERA_CHECK(run_body_ != nullptr, "a body needs an interpreter around the node");
  return run_body_(body, std::move(inputs));
}

void KernelContext::fail(const std::string& message) const { throw Error(ErrorCode::kBadModel, message); }

void KernelContext::unsupported(const std::string& message) const { throw Error(ErrorCode::kUnsupported, message); }

void KernelContext::wrong_attribute(std::string_view name) const {
  fail(fmt::format("attribute '{}' of {} holds another kind than its operator asks for", name, node_.op_type));
}

}  // namespace tempera::engine::aten
