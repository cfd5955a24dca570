#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "tempera/graph/graph.h"

namespace tempera::onnx {

/// How Value::origin travels in a file: as an entry of the value's metadata_props.
///
///   tempera.origin = T        the value holds the same numbers as tensor T of the original model
///   tempera.derived_from = T  it was made from T and holds other numbers
///
/// A value that stands for the tensor of its own name says nothing, so a model that was only read and written has no notes.
inline constexpr std::string_view kOriginKey = "tempera.origin";
inline constexpr std::string_view kDerivedKey = "tempera.derived_from";

/// The entry that a value written as `written_name` needs, if any. A value without an origin needs none: its own name,
/// which the original does not have, says as much.
[[nodiscard]] std::optional<std::pair<std::string, std::string>> origin_note(const graph::Value& value,
                                                                             std::string_view written_name);

/// Sets the value's origin from its metadata, which loses the notes, or else to the value itself.
void take_origin(graph::Graph& graph, graph::ValueId id);

}  // namespace tempera::onnx
