#pragma once

#include <string>
#include <string_view>

#include "tempera/graph/model.h"

namespace tempera::onnx {

/// Reads ONNX's own text form ("<ir_version: 10, opset_import: ["" : 21]> g (float[N,3] x) => (float[N,3] y) { ... }").
/// \throws Error{kBadModel} with line and column
[[nodiscard]] graph::Model parse_text(std::string_view text);

/// A bare graph in the same form under the given opset: for tests.
[[nodiscard]] graph::Model parse_graph(std::string_view text, std::int64_t opset = 21);

[[nodiscard]] std::string print_text(const graph::Model& model);

/// The ONNX project's checker, in full (with shape inference). \throws Error{kBadModel} with its message
void check_model(const graph::Model& model);

}  // namespace tempera::onnx
