#include "tempera/graph/type.h"

#include <fmt/format.h>

namespace tempera::graph {

std::string to_string(const Shape& shape) {
  std::string out = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const Dim& dim = shape[i];
    out += i == 0 ? "" : ",";
    out += dim.fixed() ? std::to_string(dim.value) : dim.symbol.empty() ? "?" : dim.symbol;
  }
  return out + "]";
}

std::optional<Dims> fixed_dims(const Shape& shape) {
  Dims dims;
  for (const Dim& dim : shape) {
    if (!dim.fixed()) {
      return std::nullopt;
    }
    dims.push_back(dim.value);
  }
  return dims;
}

Shape shape_of(const Dims& dims) { return Shape(dims.begin(), dims.end()); }

ValueType ValueType::tensor(DataType element, std::optional<Shape> shape) {
  ValueType type;
  type.kind = Kind::kTensor;
  type.element = element;
  type.shape = std::move(shape);
  return type;
}

std::optional<Dims> ValueType::dims() const {
  return is_tensor() && shape.has_value() ? fixed_dims(*shape) : std::nullopt;
}

std::optional<std::int64_t> ValueType::rank() const {
  if (!is_tensor() || !shape.has_value()) {
    return std::nullopt;
  }
  return static_cast<std::int64_t>(shape->size());
}

std::string to_string(const ValueType& type) {
  const auto inner = [&] { return type.inner != nullptr ? to_string(*type.inner) : std::string("unknown"); };
  switch (type.kind) {
    case ValueType::Kind::kUnknown: return "unknown";
    case ValueType::Kind::kTensor:
      return fmt::format("{}{}", numeric::to_string(type.element), type.shape ? to_string(*type.shape) : "[...]");
    case ValueType::Kind::kSparseTensor:
      return fmt::format("sparse({}{})", numeric::to_string(type.element),
                         type.shape ? to_string(*type.shape) : "[...]");
    case ValueType::Kind::kSequence: return fmt::format("seq({})", inner());
    case ValueType::Kind::kOptional: return fmt::format("optional({})", inner());
    case ValueType::Kind::kMap: return fmt::format("map({},{})", numeric::to_string(type.element), inner());
    case ValueType::Kind::kOpaque: return fmt::format("opaque({})", type.opaque);
  }
  return "unknown";
}

bool same_type(const ValueType& a, const ValueType& b) {
  if (a.kind != b.kind || a.element != b.element || a.shape != b.shape || a.denotation != b.denotation ||
      a.opaque != b.opaque || (a.inner == nullptr) != (b.inner == nullptr)) {
    return false;
  }
  return a.inner == nullptr || same_type(*a.inner, *b.inner);
}

}  // namespace tempera::graph
