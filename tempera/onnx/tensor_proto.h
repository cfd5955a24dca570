#pragma once

#include "tempera/graph/attribute.h"
#include "tempera/graph/tensor.h"
#include "tempera/onnx/external_data.h"
#include "tempera/onnx/proto.h"

namespace tempera::onnx {

/// Reads a tensor in any of ONNX's forms: raw bytes (taken over without a copy, leaving the proto without them), typed
/// fields, strings, external data.
/// \throws Error{kBadModel} when its parts contradict each other; never allocates more than the proto holds
[[nodiscard]] graph::Tensor tensor_from(pb::TensorProto& proto, ExternalData& external);

/// Type and dimensions.
void tensor_header_to(const graph::Tensor& tensor, pb::TensorProto& proto);

/// Header and content: raw bytes, or strings.
void tensor_to(const graph::Tensor& tensor, pb::TensorProto& proto);

[[nodiscard]] graph::SparseTensor sparse_from(pb::SparseTensorProto& proto, ExternalData& external);

}  // namespace tempera::onnx
