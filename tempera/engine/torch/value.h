#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "tempera/graph/tensor.h"

/// Values of the interpreter. Internal to engine/torch: the only headers of the engine that show ATen.
namespace tempera::engine::aten {

using numeric::DataType;

/// The torch type in which elements of a logical type are held. Types that torch lacks, or whose operators it lacks, are
/// carried in another one that holds every value exactly:
///
///   uint16 -> int32, uint32 -> int64, uint64 -> int64 (same bits: values from 2^63 on are negative)
///   int4, int2 -> int8; uint4, uint2 -> uint8; one element each, unpacked
///   float8*, float6*, float4*, e8m0 -> float32
///
/// \throws Error{kUnsupported} for strings and kUndefined
[[nodiscard]] at::ScalarType carrier(DataType type);

/// The logical type of a torch type that stands for itself. \throws Error{kInternal} for others
[[nodiscard]] DataType logical_type(at::ScalarType type);

/// A dense array. Invariant: data.scalar_type() == carrier(type), and every element is a value of `type`.
/// Never changed in place: others may share the storage.
struct Array {
  at::Tensor data;
  DataType type = DataType::kUndefined;
};

class Value;
using Sequence = std::vector<Value>;

/// What an edge carries: nothing (an input left out, or an empty optional), an array, strings, or a sequence.
/// An optional that holds something is that thing itself.
class Value {
 public:
  Value() = default;
  explicit Value(Array array) : data_(std::move(array)) {}
  explicit Value(at::Tensor data) : data_(Array{data, logical_type(data.scalar_type())}) {}
  /// \param strings  of type kString
  explicit Value(graph::Tensor strings) : data_(std::move(strings)) {}
  explicit Value(Sequence sequence) : data_(std::make_shared<const Sequence>(std::move(sequence))) {}

  [[nodiscard]] bool empty() const { return std::holds_alternative<std::monostate>(data_); }
  [[nodiscard]] const Array* array() const { return std::get_if<Array>(&data_); }
  [[nodiscard]] const graph::Tensor* strings() const { return std::get_if<graph::Tensor>(&data_); }
  [[nodiscard]] const Sequence* sequence() const {
    const auto* held = std::get_if<std::shared_ptr<const Sequence>>(&data_);
    return held == nullptr ? nullptr : held->get();
  }

 private:
  std::variant<std::monostate, Array, graph::Tensor, std::shared_ptr<const Sequence>> data_;
};

/// The tensor's elements in their carrier on `device`. On the CPU the bytes are shared where the type is its own
/// carrier; they stay alive with the result, and must not be written to.
[[nodiscard]] Value to_value(const graph::Tensor& tensor, at::Device device = at::kCPU);

/// Array or strings as a tensor, packed as ONNX packs; shares the storage where type and layout allow.
/// \throws Error{kUnsupported} for sequences and nothing
[[nodiscard]] graph::Tensor to_tensor(const Value& value);

/// Reduces a carrier's elements to what the logical type can hold: integers modulo 2^bits, small floats rounded to
/// nearest even (saturating). No-op for types that are their own carrier.
[[nodiscard]] at::Tensor wrap(const at::Tensor& data, DataType type);

/// Rounds float data to the values of a small float type (8 bits and fewer), kept in float32.
[[nodiscard]] at::Tensor round_to(const at::Tensor& data, DataType type, bool saturate);

}  // namespace tempera::engine::aten
