#pragma once

#include <string>
#include <string_view>

#include "tempera/graph/model.h"

namespace tempera::onnx {

/// Reads ONNX's own text form ("<ir_version: 10, opset_import: ["" : 21]> g (float[N,3] x) => (float[N,3] y) { ... }").
/// Elements of 2- and 4-bit integers are listed one by one ("int4[3] w = {1, -8, 7}"), those of narrow floats by code.
/// \throws Error{kBadModel} with line and column
[[nodiscard]] graph::Model parse_text(std::string_view text);

/// A bare graph in the same form under the given opset: for tests.
[[nodiscard]] graph::Model parse_graph(std::string_view text, std::int64_t opset = 21);

/// The text of a model; parse_text reads it back, but for elements of 2 to 6 bits and complex ones, printed as "...".
[[nodiscard]] std::string print_text(const graph::Model& model);

/// The ONNX project's checker, in full (with shape inference). \throws Error{kBadModel} with its message
void check_model(const graph::Model& model);

}  // namespace tempera::onnx
