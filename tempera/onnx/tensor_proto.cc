#include "tempera/onnx/tensor_proto.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include <fmt/format.h>

#include "tempera/base/error.h"
#include "tempera/onnx/problems.h"
#include "tempera/onnx/type_proto.h"

namespace tempera::onnx {
namespace {

using graph::DataType;
using graph::Dims;
using graph::Tensor;

[[noreturn]] void bad(const std::string& message) { throw Error(ErrorCode::kBadModel, message); }

std::string type_and_dims(DataType type, const Dims& dims) {
  return fmt::format("{}{}", numeric::to_string(type), graph::to_string(dims));
}

[[noreturn]] void wrong_size(DataType type, const Dims& dims, std::string_view what, std::int64_t got,
                             std::int64_t expected) {
  bad(fmt::format("{} needs {} {}, got {}", type_and_dims(type, dims), expected, what, got));
}

Dims dims_from(const google::protobuf::RepeatedField<std::int64_t>& source) {
  Dims dims(source.begin(), source.end());
  try {
    (void)graph::element_count(dims);
  } catch (const Error& e) {
    bad(e.what());
  }
  return dims;
}

std::size_t size_in_bytes(DataType type, const Dims& dims) {
  try {
    return numeric::bytes_of(type, graph::element_count(dims));
  } catch (const Error& e) {
    bad(e.what());
  }
}

// A bool holds 0 or 1 only: any other byte would be undefined behaviour for those who read it as bool.
Tensor with_valid_bools(Tensor tensor) {
  if (tensor.type() != DataType::kBool) {
    return tensor;
  }
  const std::span<const std::byte> bytes = tensor.bytes();
  if (std::none_of(bytes.begin(), bytes.end(), [](std::byte b) { return b > std::byte{1}; })) {
    return tensor;
  }
  Tensor::Writable fixed = Tensor::allocate(DataType::kBool, tensor.dims());
  std::transform(bytes.begin(), bytes.end(), fixed.bytes.begin(),
                 [](std::byte b) { return b == std::byte{0} ? std::byte{0} : std::byte{1}; });
  return std::move(fixed.tensor);
}

Tensor from_raw(pb::TensorProto& proto, DataType type, Dims dims) {
  const std::size_t expected = size_in_bytes(type, dims);
  if (proto.raw_data().size() != expected) {
    wrong_size(type, dims, "bytes of raw data", static_cast<std::int64_t>(proto.raw_data().size()),
               static_cast<std::int64_t>(expected));
  }
  if (expected == 0) {
    return Tensor::from_bytes(type, std::move(dims), {});
  }
  const std::shared_ptr<std::string> owner(proto.release_raw_data());
  const auto* first = reinterpret_cast<const std::byte*>(owner->data());
  return Tensor::view(type, std::move(dims), std::shared_ptr<const std::byte>(owner, first));
}

Tensor from_external(const pb::TensorProto& proto, DataType type, Dims dims, ExternalData& external) {
  std::map<std::string, std::string> entries;
  for (const pb::StringStringEntryProto& entry : proto.external_data()) {
    entries[entry.key()] = entry.value();
  }
  std::shared_ptr<const std::byte> bytes = external.get(entries, size_in_bytes(type, dims));
  if (size_in_bytes(type, dims) == 0) {
    return Tensor::from_bytes(type, std::move(dims), {});
  }
  return Tensor::view(type, std::move(dims), std::move(bytes));
}

// Copies a typed field of fixed-size elements; complex numbers take two of them each.
template <typename Field>
Tensor from_field(const Field& field, std::string_view what, DataType type, Dims dims) {
  using Element = typename Field::value_type;
  const std::size_t bytes = size_in_bytes(type, dims);
  if (static_cast<std::size_t>(field.size()) != bytes / sizeof(Element)) {
    wrong_size(type, dims, what, field.size(), static_cast<std::int64_t>(bytes / sizeof(Element)));
  }
  return Tensor::from_bytes(type, std::move(dims), std::as_bytes(std::span(field.data(), bytes / sizeof(Element))));
}

// Elements of `bits` bits kept one to an entry: signed and unsigned readings of the same code are both accepted.
std::uint64_t code_of(std::int64_t entry, int bits, DataType type) {
  if (entry < -(std::int64_t{1} << (bits - 1)) || entry >= std::int64_t{1} << bits) {
    bad(fmt::format("value {} does not fit type {}", entry, numeric::to_string(type)));
  }
  return static_cast<std::uint64_t>(entry) & ((std::uint64_t{1} << bits) - 1);
}

template <typename Field>
Tensor from_narrowed(const Field& field, std::string_view what, DataType type, Dims dims) {
  const std::size_t bytes = size_in_bytes(type, dims);
  const int bits = numeric::bits_of(type);
  // Types of 2 and 4 bits are kept packed, a byte to an entry; 6-bit ones an element to an entry.
  const bool packed = bits == 2 || bits == 4;
  const std::int64_t entries = packed ? static_cast<std::int64_t>(bytes) : graph::element_count(dims);
  if (field.size() != entries) {
    wrong_size(type, dims, what, field.size(), entries);
  }
  Tensor::Writable made = Tensor::allocate(type, std::move(dims));
  if (bits == 6) {
    for (int i = 0; i < field.size(); ++i) {
      const std::uint64_t code = code_of(field.Get(i), 6, type);
      const std::size_t bit = static_cast<std::size_t>(i) * 6;
      made.bytes[bit / 8] |= static_cast<std::byte>(code << (bit % 8));
      if (bit % 8 > 2) {
        made.bytes[bit / 8 + 1] |= static_cast<std::byte>(code >> (8 - bit % 8));
      }
    }
  } else {
    const int width = packed ? 8 : bits;
    for (int i = 0; i < field.size(); ++i) {
      const std::uint64_t code = code_of(static_cast<std::int64_t>(field.Get(i)), width, type);
      std::memcpy(made.bytes.data() + static_cast<std::size_t>(i) * (width / 8), &code, width / 8);
    }
  }
  return std::move(made.tensor);
}

Tensor from_strings(const pb::TensorProto& proto, Dims dims) {
  const std::int64_t count = graph::element_count(dims);
  if (proto.string_data_size() != count) {
    wrong_size(DataType::kString, dims, "entries of string_data", proto.string_data_size(), count);
  }
  return Tensor::strings(std::move(dims), {proto.string_data().begin(), proto.string_data().end()});
}

Tensor from_typed_fields(const pb::TensorProto& proto, DataType type, Dims dims) {
  switch (type) {
    case DataType::kString: return from_strings(proto, std::move(dims));
    case DataType::kFloat32:
    case DataType::kComplex64: return from_field(proto.float_data(), "entries of float_data", type, std::move(dims));
    case DataType::kFloat64:
    case DataType::kComplex128: return from_field(proto.double_data(), "entries of double_data", type, std::move(dims));
    case DataType::kInt64: return from_field(proto.int64_data(), "entries of int64_data", type, std::move(dims));
    case DataType::kUint64: return from_field(proto.uint64_data(), "entries of uint64_data", type, std::move(dims));
    case DataType::kInt32: return from_field(proto.int32_data(), "entries of int32_data", type, std::move(dims));
    case DataType::kUint32: {
      const auto& field = proto.uint64_data();
      if (std::any_of(field.begin(), field.end(),
                      [](std::uint64_t v) { return v > std::numeric_limits<std::uint32_t>::max(); })) {
        bad("a value of uint64_data does not fit type uint32");
      }
      return from_narrowed(field, "entries of uint64_data", type, std::move(dims));
    }
    default: return from_narrowed(proto.int32_data(), "entries of int32_data", type, std::move(dims));
  }
}

}  // namespace

Tensor tensor_from(pb::TensorProto& proto, ExternalData& external) {
  const DataType type = data_type_from(proto.data_type());
  Dims dims = dims_from(proto.dims());
  if (proto.has_segment()) {
    bad("the tensor is split into segments, which no known program writes or reads");
  }
  if (proto.data_location() == pb::TensorProto::EXTERNAL) {
    if (type == DataType::kString) {
      bad("strings cannot lie in an external file");
    }
    return with_valid_bools(from_external(proto, type, std::move(dims), external));
  }
  if (proto.has_raw_data() && type == DataType::kString) {
    bad("strings cannot be given as raw data");
  }
  // An empty raw_data beside typed fields is how proto3 writers leave it out.
  if (proto.has_raw_data() && (!proto.raw_data().empty() || size_in_bytes(type, dims) == 0)) {
    return with_valid_bools(from_raw(proto, type, std::move(dims)));
  }
  return with_valid_bools(from_typed_fields(proto, type, std::move(dims)));
}

void tensor_header_to(const Tensor& tensor, pb::TensorProto& proto) {
  proto.set_data_type(static_cast<int>(tensor.type()));
  for (const std::int64_t dim : tensor.dims()) {
    proto.add_dims(dim);
  }
}

void tensor_to(const Tensor& tensor, pb::TensorProto& proto) {
  tensor_header_to(tensor, proto);
  if (tensor.type() == DataType::kString) {
    for (const std::string& text : tensor.string_values()) {
      proto.add_string_data(text);
    }
  } else {
    proto.set_raw_data(std::string(as_text(tensor.bytes())));
  }
}

graph::SparseTensor sparse_from(pb::SparseTensorProto& proto, ExternalData& external) {
  graph::SparseTensor sparse;
  sparse.values = tensor_from(*proto.mutable_values(), external);
  sparse.indices = tensor_from(*proto.mutable_indices(), external);
  sparse.dims = dims_from(proto.dims());
  const std::int64_t nonzeros = sparse.values.size();
  const auto rank = static_cast<std::int64_t>(sparse.dims.size());
  const Dims& indices = sparse.indices.dims();
  if (sparse.values.rank() != 1 || sparse.indices.type() != DataType::kInt64 ||
      (indices != Dims{nonzeros} && indices != Dims{nonzeros, rank})) {
    bad(fmt::format("sparse tensor {} has values {} and indices {}, expected values [nnz] and int64 indices [nnz] or "
                    "[nnz,rank]",
                    graph::to_string(sparse.dims), type_and_dims(sparse.values.type(), sparse.values.dims()),
                    type_and_dims(sparse.indices.type(), indices)));
  }
  const std::int64_t count = graph::element_count(sparse.dims);
  const std::span<const std::int64_t> index = sparse.indices.values<std::int64_t>();
  for (std::size_t i = 0; i < index.size(); ++i) {
    const std::int64_t limit = sparse.indices.rank() == 1 ? count : sparse.dims[i % static_cast<std::size_t>(rank)];
    if (index[i] < 0 || index[i] >= limit) {
      bad(fmt::format("sparse tensor {} has index {} out of range", graph::to_string(sparse.dims), index[i]));
    }
  }
  return sparse;
}

}  // namespace tempera::onnx
