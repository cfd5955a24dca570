#pragma once

#include <filesystem>

#include "tempera/graph/model.h"
#include "tempera/onnx/external_data.h"
#include "tempera/onnx/proto.h"
#include "tempera/onnx/read.h"

namespace tempera::onnx {

/// Highest IR version of ONNX files that the pinned library knows.
inline constexpr std::int64_t kNewestIrVersion = 14;

/// Marks a Constant node that the file held as a sparse initialiser, so that it is written back as one.
inline constexpr std::string_view kSparseInitializerMark = "tempera.sparse_initializer";

/// Takes the proto apart into our model; the proto's weights move out of it.
/// \throws as read_model
[[nodiscard]] graph::Model import_model(pb::ModelProto& proto, ExternalData& external, const ReadOptions& options);

}  // namespace tempera::onnx
