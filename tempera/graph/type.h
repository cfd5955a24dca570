#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tempera/graph/tensor.h"

namespace tempera::graph {

/// One dimension of a value: a number, a symbol ("batch"), or unknown.
struct Dim {
  std::int64_t value = -1;  ///< -1 when not a number
  std::string symbol;       ///< empty when unnamed; equal symbols in one graph mean equal sizes
  std::string denotation;   ///< ONNX's denotation ("DATA_BATCH"), kept as read; not compared

  Dim() = default;
  Dim(std::int64_t number) : value(number) {}  // NOLINT(google-explicit-constructor): a number is a dimension
  explicit Dim(std::string name) : symbol(std::move(name)) {}

  [[nodiscard]] bool fixed() const noexcept { return value >= 0; }
  bool operator==(const Dim& other) const { return value == other.value && symbol == other.symbol; }
};

using Shape = std::vector<Dim>;

/// "[batch,3,?,224]"
[[nodiscard]] std::string to_string(const Shape& shape);

/// The numbers when every dimension is fixed.
[[nodiscard]] std::optional<Dims> fixed_dims(const Shape& shape);
[[nodiscard]] Shape shape_of(const Dims& dims);

/// What is known of a value's type; default: nothing.
struct ValueType {
  enum class Kind : std::uint8_t { kUnknown, kTensor, kSparseTensor, kSequence, kOptional, kMap, kOpaque };

  Kind kind = Kind::kUnknown;
  DataType element = DataType::kUndefined;   ///< of a tensor; the key type of a map
  std::optional<Shape> shape;                ///< absent: rank unknown
  std::shared_ptr<const ValueType> inner;    ///< of a sequence or optional; the value type of a map
  std::string denotation;                    ///< ONNX's denotation of the type, kept as read
  std::string opaque;                        ///< "domain/name" of an opaque type

  static ValueType tensor(DataType element, std::optional<Shape> shape = std::nullopt);

  [[nodiscard]] bool is_tensor() const noexcept { return kind == Kind::kTensor; }
  /// A tensor's dimensions when all are numbers.
  [[nodiscard]] std::optional<Dims> dims() const;
  /// A tensor's rank when known.
  [[nodiscard]] std::optional<std::int64_t> rank() const;
};

/// "float[1,3,?,224]", "seq(float)", "unknown"
[[nodiscard]] std::string to_string(const ValueType& type);

[[nodiscard]] bool same_type(const ValueType& a, const ValueType& b);

}  // namespace tempera::graph
