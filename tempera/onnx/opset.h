#pragma once

#include <cstdint>

#include "tempera/graph/model.h"

namespace tempera::onnx {

/// Highest ai.onnx opset the pinned ONNX library knows.
inline constexpr std::int64_t kNewestOpset = 28;

/// The same model at another ai.onnx opset, bodies and functions included; weights are shared, not copied.
/// \throws Error{kUnsupported} naming the node that has no equivalent there
[[nodiscard]] graph::Model convert_opset(const graph::Model& model, std::int64_t opset);

/// A copy with all calls of local functions replaced by their bodies (Node::function_path says where from), and standard
/// operators that are functions left alone.
[[nodiscard]] graph::Model inline_functions(const graph::Model& model);

}  // namespace tempera::onnx
