#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>

#include "tempera/base/error.h"
#include "tempera/engine/torch/value.h"
#include "tempera/numeric/convert.h"

namespace tempera::engine::aten {
namespace {

using graph::Tensor;

bool is_small_float(DataType type) { return numeric::is_float(type) && numeric::bits_of(type) <= 8; }

/// Bits per element of the integer types whose carrier is wider or unpacked; 0 for others.
int packed_integer_bits(DataType type) {
  switch (type) {
    case DataType::kUint4:
    case DataType::kInt4: return 4;
    case DataType::kUint2:
    case DataType::kInt2: return 2;
    default: return 0;
  }
}

/// Low bits first, as ONNX packs.
at::Tensor unpack(const Tensor& tensor, int bits) {
  at::Tensor data = at::empty(tensor.dims(), carrier(tensor.type()));
  const bool is_signed = data.scalar_type() == at::kChar;
  auto* to = static_cast<std::uint8_t*>(data.mutable_data_ptr());
  const std::span<const std::byte> bytes = tensor.bytes();
  const unsigned mask = (1U << bits) - 1U;
  const unsigned sign = 1U << (bits - 1);
  const std::size_t per_byte = 8U / static_cast<unsigned>(bits);
  for (std::int64_t i = 0; i < data.numel(); ++i) {
    const auto at_bit = static_cast<unsigned>(static_cast<std::size_t>(i) % per_byte) * static_cast<unsigned>(bits);
    const unsigned code =
        (std::to_integer<unsigned>(bytes[static_cast<std::size_t>(i) / per_byte]) >> at_bit) & mask;
    to[i] = static_cast<std::uint8_t>(is_signed ? (code ^ sign) - sign : code);
  }
  return data;
}

void pack(const at::Tensor& data, int bits, std::span<std::byte> bytes) {
  const auto* from = static_cast<const std::uint8_t*>(data.const_data_ptr());
  const unsigned mask = (1U << bits) - 1U;
  const std::size_t per_byte = 8U / static_cast<unsigned>(bits);
  for (std::int64_t i = 0; i < data.numel(); ++i) {
    const auto at_bit = static_cast<unsigned>(static_cast<std::size_t>(i) % per_byte) * static_cast<unsigned>(bits);
    bytes[static_cast<std::size_t>(i) / per_byte] |= static_cast<std::byte>((from[i] & mask) << at_bit);
  }
}

template <typename From, typename To>
void convert_elements(const void* from, void* to, std::int64_t count) {
  std::transform(static_cast<const From*>(from), static_cast<const From*>(from) + count, static_cast<To*>(to),
                 [](From x) { return static_cast<To>(x); });
}

at::Tensor to_carrier(const Tensor& tensor) {
  const DataType type = tensor.type();
  const std::int64_t count = tensor.size();
  if (const int bits = packed_integer_bits(type); bits != 0) {
    return unpack(tensor, bits);
  }
  at::Tensor data = at::empty(tensor.dims(), carrier(type));
  if (is_small_float(type)) {
    numeric::decode(type, tensor.bytes(), std::span<float>(data.mutable_data_ptr<float>(), static_cast<std::size_t>(count)));
  } else if (type == DataType::kUint16) {
    convert_elements<std::uint16_t, std::int32_t>(tensor.bytes().data(), data.mutable_data_ptr(), count);
  } else {
    convert_elements<std::uint32_t, std::int64_t>(tensor.bytes().data(), data.mutable_data_ptr(), count);
  }
  return data;
}

/// The element's bytes are the same in torch's type.
bool is_own_carrier(DataType type) {
  return packed_integer_bits(type) == 0 && !is_small_float(type) && type != DataType::kUint16 && type != DataType::kUint32;
}

}  // namespace

Value to_value(const Tensor& tensor, at::Device device) {
  if (!tensor.defined()) {
    return Value();
  }
  if (tensor.type() == DataType::kString) {
    return Value(tensor);
  }
  at::Tensor data;
  if (is_own_carrier(tensor.type())) {
    const std::shared_ptr<const std::byte>& bytes = tensor.shared_bytes();
    if (tensor.size() == 0) {
      data = at::empty(tensor.dims(), carrier(tensor.type()));
    } else {
      // from_blob wants a writable pointer; an Array is never written to.
      data = at::from_blob(const_cast<std::byte*>(bytes.get()), tensor.dims(), [bytes](void* /*unused*/) {},
                           at::TensorOptions(carrier(tensor.type())));
    }
  } else {
    data = to_carrier(tensor);
  }
  return Value(Array{device.is_cpu() ? data : data.to(device), tensor.type()});
}

Tensor to_tensor(const Value& value) {
  if (const Tensor* strings = value.strings()) {
    return *strings;
  }
  const Array* array = value.array();
  if (array == nullptr) {
    throw Error(ErrorCode::kUnsupported, fmt::format("a {} has no form as a tensor", value.empty() ? "missing value" : "sequence"));
  }
  const DataType type = array->type;
  const at::Tensor data = array->data.detach().to(at::kCPU).resolve_conj().resolve_neg().contiguous();
  graph::Dims dims = data.sizes().vec();
  if (is_own_carrier(type)) {
    auto held = std::make_shared<at::Tensor>(data);
    const auto* first = static_cast<const std::byte*>(data.const_data_ptr());
    return data.numel() == 0 ? Tensor::from_bytes(type, std::move(dims), {})
                             : Tensor::view(type, std::move(dims), std::shared_ptr<const std::byte>(held, first));
  }
  Tensor::Writable result = Tensor::allocate(type, std::move(dims));
  if (const int bits = packed_integer_bits(type); bits != 0) {
    pack(data, bits, result.bytes);
  } else if (is_small_float(type)) {
    numeric::encode(type, std::span<const float>(data.const_data_ptr<float>(), static_cast<std::size_t>(data.numel())),
                    result.bytes, numeric::Overflow::kInfinity);
  } else if (type == DataType::kUint16) {
    convert_elements<std::int32_t, std::uint16_t>(data.const_data_ptr(), result.bytes.data(), data.numel());
  } else {
    convert_elements<std::int64_t, std::uint32_t>(data.const_data_ptr(), result.bytes.data(), data.numel());
  }
  return result.tensor;
}

}  // namespace tempera::engine::aten
