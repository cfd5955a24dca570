#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>

#include "tempera/graph/model.h"

namespace tempera::onnx {

struct ReadOptions {
  std::size_t max_file_bytes = std::size_t{2} << 30;  ///< of the protobuf itself; external data may be larger
  int max_depth = 64;                                 ///< nesting of bodies and types
};

/// Reads an ONNX file (IR version 3 to the newest known, ai.onnx opset 1 to 28) without changing it: opset, unknown
/// custom operators, local functions and metadata stay. External data is mapped, not read; large inline weights share
/// the file's mapping where alignment allows.
///
/// IR 3 files list initialisers as inputs: those are read as plain initialisers (and written back as inputs).
///
/// \throws Error{kNotFound, kIo} when the file cannot be read; Error{kBadModel} when it is malformed, all problems found
///   together; Error{kUnsupported} for versions beyond those known
[[nodiscard]] graph::Model read_model(const std::filesystem::path& path, const ReadOptions& options = {});

/// The same from memory. \param folder  where external data lies; empty: external data is an error
[[nodiscard]] graph::Model read_model(std::span<const std::byte> bytes, const std::filesystem::path& folder = {},
                                      const ReadOptions& options = {});

/// Reads one serialised TensorProto, as in the ONNX project's test data.
[[nodiscard]] graph::Tensor read_tensor(std::span<const std::byte> bytes);

}  // namespace tempera::onnx
