#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tempera/numeric/data_type.h"

namespace tempera::graph {

using numeric::DataType;

using Dims = std::vector<std::int64_t>;

/// Product of `dims`; 1 for a scalar. \throws Error{kInvalidArgument} on a negative dimension or overflow.
[[nodiscard]] std::int64_t element_count(std::span<const std::int64_t> dims);

/// "[1,3,224,224]"
[[nodiscard]] std::string to_string(std::span<const std::int64_t> dims);

/// An immutable array: element type, dimensions, and a view of a shared buffer in row-major (C) order.
///
/// Copies share the bytes. The buffer is owned memory or a slice of a mapped file; sub-byte types are packed as ONNX
/// packs them. Safe to read from several threads at once.
class Tensor {
 public:
  /// Type kUndefined, dimensions [0], no bytes.
  Tensor() = default;

  /// Copies `values` (bool as one byte each).
  /// \throws Error{kInvalidArgument} when their number differs from the product of dims.
  template <typename T>
  static Tensor from(Dims dims, std::span<const T> values) {
    return from_bytes(numeric::DataTypeOf<T>::value, std::move(dims), std::as_bytes(values));
  }
  template <typename T>
  static Tensor from(Dims dims, std::initializer_list<T> values) {
    return from<T>(std::move(dims), std::span<const T>(values.begin(), values.size()));
  }
  template <typename T>
  static Tensor scalar(T value) {
    return from<T>({}, std::span<const T>(&value, 1));
  }
  static Tensor strings(Dims dims, std::vector<std::string> values);

  /// Copies raw bytes. \throws Error{kInvalidArgument} when the size is not bytes_of(type, product of dims).
  static Tensor from_bytes(DataType type, Dims dims, std::span<const std::byte> bytes);

  /// Shares `bytes`, which must hold bytes_of(type, product of dims) and stay unchanged while any copy lives.
  /// Bytes not aligned for their element type are copied instead, so values<T>() is always aligned.
  static Tensor view(DataType type, Dims dims, std::shared_ptr<const std::byte> bytes);

  /// A tensor to be filled: returns it with the address of its bytes, zeroed, valid until it is first shared.
  struct Writable;
  static Writable allocate(DataType type, Dims dims);

  [[nodiscard]] DataType type() const noexcept { return type_; }
  [[nodiscard]] const Dims& dims() const noexcept { return dims_; }
  [[nodiscard]] std::int64_t rank() const noexcept { return static_cast<std::int64_t>(dims_.size()); }
  [[nodiscard]] std::int64_t size() const { return element_count(dims_); }
  [[nodiscard]] bool defined() const noexcept { return type_ != DataType::kUndefined; }

  /// All bytes; empty for strings.
  [[nodiscard]] std::span<const std::byte> bytes() const;
  [[nodiscard]] const std::shared_ptr<const std::byte>& shared_bytes() const noexcept { return data_; }

  /// The elements as T. \throws Error{kInvalidArgument} when T is not the element type.
  template <typename T>
  [[nodiscard]] std::span<const T> values() const {
    require_type(numeric::DataTypeOf<T>::value);
    return {reinterpret_cast<const T*>(data_.get()), static_cast<std::size_t>(size())};
  }
  [[nodiscard]] std::span<const std::string> string_values() const;

  /// The same elements under other dimensions of the same product; shares the bytes.
  [[nodiscard]] Tensor reshaped(Dims dims) const;

  /// Same type, dimensions and bytes (so NaN equals the same NaN, and 0 differs from -0).
  [[nodiscard]] bool same_bytes(const Tensor& other) const;

 private:
  void require_type(DataType type) const;

  DataType type_ = DataType::kUndefined;
  Dims dims_ = {0};
  std::shared_ptr<const std::byte> data_;
  std::shared_ptr<const std::vector<std::string>> strings_;
};

struct Tensor::Writable {
  Tensor tensor;
  std::span<std::byte> bytes;

  template <typename T>
  std::span<T> values() {
    return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
};

/// Every element as double, for every real, integer and boolean type down to two bits (complex and strings excluded).
/// \throws Error{kInvalidArgument} for other types.
[[nodiscard]] std::vector<double> to_doubles(const Tensor& tensor);

/// Every element as int64, for the integer types of 8 bits and more and bool. \throws Error{kInvalidArgument} otherwise.
[[nodiscard]] std::vector<std::int64_t> to_int64s(const Tensor& tensor);

}  // namespace tempera::graph
