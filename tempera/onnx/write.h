#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "tempera/base/hash.h"
#include "tempera/graph/model.h"

namespace tempera::onnx {

struct WriteOptions {
  /// Weights of at least this many bytes go to one external file beside the model ("NAME.onnx.data", aligned to 4096)
  /// when the model as a whole would exceed `max_inline_bytes`.
  std::int64_t external_threshold_bytes = 1024;
  std::int64_t max_inline_bytes = std::int64_t{1} << 30;
};

/// Writes the model at its own opset and IR version. The file (with its external data) appears whole or not at all.
/// \throws Error{kIo} when it cannot be written
void write_model(const graph::Model& model, const std::filesystem::path& path, const WriteOptions& options = {});

/// Serialised ModelProto with every weight inline. \throws Error{kUnsupported} beyond protobuf's 2 GB
[[nodiscard]] std::string serialize(const graph::Model& model);

/// A model without its large weights, for engines that take those as shared memory: each initialiser of the main graph
/// of at least `threshold_bytes` becomes a graph input of the same name.
struct Skeleton {
  std::string bytes;  ///< serialised ModelProto
  std::vector<std::pair<std::string, graph::Tensor>> weights;  ///< by the name of their input, in order
};
[[nodiscard]] Skeleton serialize_skeleton(const graph::Model& model, std::int64_t threshold_bytes);

/// SHA-256 over structure and weights, for caches; nothing is copied for it but the structure.
[[nodiscard]] Sha256Digest content_hash(const graph::Model& model);

}  // namespace tempera::onnx
