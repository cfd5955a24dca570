#include "tempera/engine/openvino/ov_tensor.h"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "tempera/base/error.h"

namespace tempera::engine::openvino {
namespace {

using graph::DataType;
using ov::element::Type_t;

// Sub-byte types are packed low bits first on both sides.
constexpr std::array<std::pair<DataType, Type_t>, 19> kTypes{{
    {DataType::kFloat32, Type_t::f32},
    {DataType::kFloat16, Type_t::f16},
    {DataType::kBfloat16, Type_t::bf16},
    {DataType::kFloat64, Type_t::f64},
    {DataType::kInt8, Type_t::i8},
    {DataType::kInt16, Type_t::i16},
    {DataType::kInt32, Type_t::i32},
    {DataType::kInt64, Type_t::i64},
    {DataType::kUint8, Type_t::u8},
    {DataType::kUint16, Type_t::u16},
    {DataType::kUint32, Type_t::u32},
    {DataType::kUint64, Type_t::u64},
    {DataType::kBool, Type_t::boolean},
    {DataType::kInt4, Type_t::i4},
    {DataType::kUint4, Type_t::u4},
    {DataType::kFloat8E4M3FN, Type_t::f8e4m3},
    {DataType::kFloat8E5M2, Type_t::f8e5m2},
    {DataType::kFloat8E8M0, Type_t::f8e8m0},
    {DataType::kFloat4E2M1, Type_t::f4e2m1},
}};

graph::Dims dims_of(const ov::Tensor& tensor) {
  const ov::Shape& shape = tensor.get_shape();
  return {shape.begin(), shape.end()};
}

DataType type_of(const ov::Tensor& tensor) {
  const auto type = from_openvino(tensor.get_element_type());
  if (!type) {
    throw Error(ErrorCode::kUnsupported, fmt::format("OpenVINO gave a tensor of type {}, which cannot be taken over",
                                                     tensor.get_element_type().get_type_name()));
  }
  return *type;
}

}  // namespace

std::optional<ov::element::Type> to_openvino(DataType type) {
  for (const auto& [ours, theirs] : kTypes) {
    if (ours == type) {
      return ov::element::Type(theirs);
    }
  }
  return std::nullopt;
}

std::optional<DataType> from_openvino(const ov::element::Type& type) {
  for (const auto& [ours, theirs] : kTypes) {
    if (type == theirs) {
      return ours;
    }
  }
  return std::nullopt;
}

graph::Shape from_openvino(const ov::PartialShape& shape) {
  graph::Shape dims;
  for (const ov::Dimension& dim : shape) {
    dims.push_back(dim.is_static() ? graph::Dim(dim.get_length()) : graph::Dim());
  }
  return dims;
}

ov::Tensor borrow(const graph::Tensor& tensor) {
  const auto type = to_openvino(tensor.type());
  if (!type) {
    throw Error(ErrorCode::kUnsupported,
                fmt::format("the openvino engine takes no tensors of type {}", numeric::to_string(tensor.type())));
  }
  const void* bytes = tensor.shared_bytes().get();
  return {*type, ov::Shape(tensor.dims().begin(), tensor.dims().end()), bytes};
}

ov::Tensor borrow_input(const graph::Tensor& tensor, std::vector<std::byte>& padded) {
  ov::Tensor borrowed = borrow(tensor);
  if (numeric::bits_of(tensor.type()) >= 8) {
    return borrowed;
  }
  padded.assign(std::max<std::size_t>(static_cast<std::size_t>(tensor.size()), 1), std::byte{0});  // none: still no null
  const auto bytes = tensor.bytes();
  std::copy(bytes.begin(), bytes.end(), padded.begin());
  return {borrowed.get_element_type(), borrowed.get_shape(), static_cast<const void*>(padded.data())};
}

graph::Tensor copy(const ov::Tensor& tensor) {
  const DataType type = type_of(tensor);
  const auto* bytes = static_cast<const std::byte*>(tensor.data());
  return graph::Tensor::from_bytes(type, dims_of(tensor), {bytes, tensor.get_byte_size()});
}

graph::Tensor lend(const ov::Tensor& tensor) {
  const DataType type = type_of(tensor);
  const auto* bytes = static_cast<const std::byte*>(tensor.data());
  return graph::Tensor::view(type, dims_of(tensor), std::shared_ptr<const std::byte>(std::shared_ptr<void>(), bytes));
}

}  // namespace tempera::engine::openvino
