#include "tempera/graph/tensor.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tempera/base/error.h"
#include "tempera/numeric/convert.h"

namespace tempera::graph {
namespace {

// Cache-line aligned, which every engine accepts without a copy.
constexpr std::align_val_t kAlignment{64};

std::shared_ptr<std::byte> allocate_bytes(std::size_t size) {
  auto* raw = static_cast<std::byte*>(::operator new(std::max<std::size_t>(size, 1), kAlignment));
  return {raw, [](std::byte* p) { ::operator delete(p, kAlignment); }};
}

}  // namespace

std::int64_t element_count(std::span<const std::int64_t> dims) {
  std::int64_t count = 1;
  for (const std::int64_t dim : dims) {
    if (dim < 0 || __builtin_mul_overflow(count, dim, &count)) {
      throw Error(ErrorCode::kInvalidArgument, fmt::format("dimensions {} have no valid size", to_string(dims)));
    }
  }
  return count;
}

std::string to_string(std::span<const std::int64_t> dims) { return fmt::format("[{}]", fmt::join(dims, ",")); }

Tensor Tensor::strings(Dims dims, std::vector<std::string> values) {
  if (static_cast<std::int64_t>(values.size()) != element_count(dims)) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{} strings given for dimensions {}", values.size(), to_string(dims)));
  }
  Tensor tensor;
  tensor.type_ = DataType::kString;
  tensor.dims_ = std::move(dims);
  tensor.strings_ = std::make_shared<const std::vector<std::string>>(std::move(values));
  return tensor;
}

Tensor Tensor::from_bytes(DataType type, Dims dims, std::span<const std::byte> bytes) {
  const std::size_t expected = numeric::bytes_of(type, element_count(dims));
  if (bytes.size() != expected) {
    throw Error(ErrorCode::kInvalidArgument, fmt::format("{} bytes given for {}{}, which takes {}", bytes.size(),
                                                         numeric::to_string(type), to_string(dims), expected));
  }
  Writable writable = allocate(type, std::move(dims));
  std::copy(bytes.begin(), bytes.end(), writable.bytes.begin());
  return std::move(writable.tensor);
}

Tensor Tensor::view(DataType type, Dims dims, std::shared_ptr<const std::byte> bytes) {
  const std::size_t size = numeric::bytes_of(type, element_count(dims));
  const std::size_t alignment = std::max(1, numeric::bits_of(type) / 8);
  if (reinterpret_cast<std::uintptr_t>(bytes.get()) % std::min<std::size_t>(alignment, 8) != 0) {
    return from_bytes(type, std::move(dims), {bytes.get(), size});
  }
  Tensor tensor;
  tensor.type_ = type;
  tensor.dims_ = std::move(dims);
  tensor.data_ = std::move(bytes);
  return tensor;
}

Tensor::Writable Tensor::allocate(DataType type, Dims dims) {
  const std::size_t size = numeric::bytes_of(type, element_count(dims));
  std::shared_ptr<std::byte> bytes = allocate_bytes(size);
  std::memset(bytes.get(), 0, size);
  Writable writable;
  writable.bytes = {bytes.get(), size};
  writable.tensor.type_ = type;
  writable.tensor.dims_ = std::move(dims);
  writable.tensor.data_ = std::move(bytes);
  return writable;
}

std::span<const std::byte> Tensor::bytes() const {
  if (data_ == nullptr) {
    return {};
  }
  return {data_.get(), numeric::bytes_of(type_, size())};
}

std::span<const std::string> Tensor::string_values() const {
  require_type(DataType::kString);
  return *strings_;
}

Tensor Tensor::reshaped(Dims dims) const {
  if (element_count(dims) != size()) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{} elements of dimensions {} do not fill {}", size(), to_string(dims_), to_string(dims)));
  }
  Tensor tensor = *this;
  tensor.dims_ = std::move(dims);
  return tensor;
}

bool Tensor::same_bytes(const Tensor& other) const {
  if (type_ != other.type_ || dims_ != other.dims_) {
    return false;
  }
  if (type_ == DataType::kString) {
    return *strings_ == *other.strings_;
  }
  if (data_ == other.data_) {
    return true;
  }
  const auto a = bytes();
  const auto b = other.bytes();
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

void Tensor::require_type(DataType type) const {
  if (type_ != type) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("a tensor of type {} was read as {}", numeric::to_string(type_), numeric::to_string(type)));
  }
}

std::vector<double> to_doubles(const Tensor& tensor) {
  std::vector<double> values(static_cast<std::size_t>(tensor.size()));
  numeric::decode(tensor.type(), tensor.bytes(), values);
  return values;
}

std::vector<std::int64_t> to_int64s(const Tensor& tensor) {
  const DataType type = tensor.type();
  const auto copy = [&]<typename T>(std::span<const T> values) {
    return std::vector<std::int64_t>(values.begin(), values.end());
  };
  switch (type) {
    case DataType::kInt64: return copy(tensor.values<std::int64_t>());
    case DataType::kInt32: return copy(tensor.values<std::int32_t>());
    case DataType::kInt16: return copy(tensor.values<std::int16_t>());
    case DataType::kInt8: return copy(tensor.values<std::int8_t>());
    case DataType::kUint64: return copy(tensor.values<std::uint64_t>());
    case DataType::kUint32: return copy(tensor.values<std::uint32_t>());
    case DataType::kUint16: return copy(tensor.values<std::uint16_t>());
    case DataType::kUint8: return copy(tensor.values<std::uint8_t>());
    case DataType::kBool: return copy(tensor.values<bool>());
    default:
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("a tensor of type {} was read as integers", numeric::to_string(type)));
  }
}

}  // namespace tempera::graph
