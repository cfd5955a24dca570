#pragma once

/// The generated protobuf classes of ONNX, for the .cc files of this room.

#include <google/protobuf/repeated_ptr_field.h>
#include <onnx/onnx_pb.h>

#include "tempera/graph/graph.h"

namespace tempera::onnx {

namespace pb = ::onnx;

/// Bytes as protobuf's `bytes` fields want them.
[[nodiscard]] inline std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

[[nodiscard]] graph::Metadata metadata_from(const google::protobuf::RepeatedPtrField<pb::StringStringEntryProto>& props);
void metadata_to(const graph::Metadata& metadata, google::protobuf::RepeatedPtrField<pb::StringStringEntryProto>& props);

}  // namespace tempera::onnx
