#pragma once

#include "tempera/graph/type.h"
#include "tempera/onnx/proto.h"

namespace tempera::onnx {

/// \throws Error{kBadModel} for an unknown element type or nesting beyond max_depth
[[nodiscard]] graph::ValueType type_from(const pb::TypeProto& proto, int max_depth);
void type_to(const graph::ValueType& type, pb::TypeProto& proto);

/// \throws Error{kBadModel} for a number that names no type
[[nodiscard]] graph::DataType data_type_from(int onnx_number);

}  // namespace tempera::onnx
