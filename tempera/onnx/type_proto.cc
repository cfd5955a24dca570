#include "tempera/onnx/type_proto.h"

#include <fmt/format.h>

#include "tempera/base/error.h"

namespace tempera::onnx {
namespace {

using graph::Dim;
using graph::Shape;
using graph::ValueType;
using Kind = ValueType::Kind;

Shape shape_from(const pb::TensorShapeProto& proto) {
  Shape shape;
  shape.reserve(static_cast<std::size_t>(proto.dim_size()));
  for (const pb::TensorShapeProto::Dimension& source : proto.dim()) {
    Dim& dim = shape.emplace_back();
    // Negative numbers stand for "unknown" in files of several old exporters.
    if (source.has_dim_value() && source.dim_value() >= 0) {
      dim.value = source.dim_value();
    } else if (source.has_dim_param()) {
      dim.symbol = source.dim_param();
    }
    dim.denotation = source.denotation();
  }
  return shape;
}

void shape_to(const Shape& shape, pb::TensorShapeProto& proto) {
  for (const Dim& dim : shape) {
    pb::TensorShapeProto::Dimension& target = *proto.add_dim();
    if (dim.fixed()) {
      target.set_dim_value(dim.value);
    } else if (!dim.symbol.empty()) {
      target.set_dim_param(dim.symbol);
    }
    if (!dim.denotation.empty()) {
      target.set_denotation(dim.denotation);
    }
  }
}

// The element type may be left open in a declaration, unlike in a tensor.
graph::DataType element_from(int number) { return number == 0 ? graph::DataType::kUndefined : data_type_from(number); }

template <typename Proto>
void array_from(const Proto& proto, ValueType& type) {
  type.element = element_from(proto.elem_type());
  if (proto.has_shape()) {
    type.shape = shape_from(proto.shape());
  }
}

template <typename Proto>
void array_to(const ValueType& type, Proto& proto) {
  proto.set_elem_type(static_cast<int>(type.element));
  if (type.shape.has_value()) {
    shape_to(*type.shape, *proto.mutable_shape());
  }
}

std::shared_ptr<const ValueType> inner_from(const pb::TypeProto& proto, int max_depth) {
  return std::make_shared<const ValueType>(type_from(proto, max_depth - 1));
}

void inner_to(const ValueType& type, pb::TypeProto& proto) {
  if (type.inner != nullptr) {
    type_to(*type.inner, proto);
  }
}

}  // namespace

graph::DataType data_type_from(int onnx_number) {
  if (!numeric::is_known(onnx_number)) {
    throw Error(ErrorCode::kBadModel, fmt::format("element type {} is unknown, expected 1 to 28", onnx_number));
  }
  return static_cast<graph::DataType>(onnx_number);
}

ValueType type_from(const pb::TypeProto& proto, int max_depth) {
  if (max_depth < 0) {
    throw Error(ErrorCode::kBadModel, "a type nests too deeply");
  }
  ValueType type;
  type.denotation = proto.denotation();
  switch (proto.value_case()) {
    case pb::TypeProto::kTensorType:
      type.kind = Kind::kTensor;
      array_from(proto.tensor_type(), type);
      break;
    case pb::TypeProto::kSparseTensorType:
      type.kind = Kind::kSparseTensor;
      array_from(proto.sparse_tensor_type(), type);
      break;
    case pb::TypeProto::kSequenceType:
      type.kind = Kind::kSequence;
      type.inner = inner_from(proto.sequence_type().elem_type(), max_depth);
      break;
    case pb::TypeProto::kOptionalType:
      type.kind = Kind::kOptional;
      type.inner = inner_from(proto.optional_type().elem_type(), max_depth);
      break;
    case pb::TypeProto::kMapType:
      type.kind = Kind::kMap;
      type.element = element_from(proto.map_type().key_type());
      type.inner = inner_from(proto.map_type().value_type(), max_depth);
      break;
    case pb::TypeProto::kOpaqueType:
      type.kind = Kind::kOpaque;
      type.opaque = proto.opaque_type().domain() + "/" + proto.opaque_type().name();
      break;
    case pb::TypeProto::VALUE_NOT_SET: break;
  }
  return type;
}

void type_to(const ValueType& type, pb::TypeProto& proto) {
  if (!type.denotation.empty()) {
    proto.set_denotation(type.denotation);
  }
  switch (type.kind) {
    case Kind::kUnknown: break;
    case Kind::kTensor: array_to(type, *proto.mutable_tensor_type()); break;
    case Kind::kSparseTensor: array_to(type, *proto.mutable_sparse_tensor_type()); break;
    case Kind::kSequence: inner_to(type, *proto.mutable_sequence_type()->mutable_elem_type()); break;
    case Kind::kOptional: inner_to(type, *proto.mutable_optional_type()->mutable_elem_type()); break;
    case Kind::kMap:
      proto.mutable_map_type()->set_key_type(static_cast<int>(type.element));
      inner_to(type, *proto.mutable_map_type()->mutable_value_type());
      break;
    case Kind::kOpaque: {
      const std::size_t slash = type.opaque.rfind('/');
      proto.mutable_opaque_type()->set_domain(type.opaque.substr(0, slash));
      proto.mutable_opaque_type()->set_name(slash == std::string::npos ? "" : type.opaque.substr(slash + 1));
      break;
    }
  }
}

graph::Metadata metadata_from(const google::protobuf::RepeatedPtrField<pb::StringStringEntryProto>& props) {
  graph::Metadata metadata;
  metadata.reserve(static_cast<std::size_t>(props.size()));
  for (const pb::StringStringEntryProto& entry : props) {
    metadata.emplace_back(entry.key(), entry.value());
  }
  return metadata;
}

void metadata_to(const graph::Metadata& metadata, google::protobuf::RepeatedPtrField<pb::StringStringEntryProto>& props) {
  for (const auto& [key, value] : metadata) {
    pb::StringStringEntryProto& entry = *props.Add();
    entry.set_key(key);
    entry.set_value(value);
  }
}

}  // namespace tempera::onnx
