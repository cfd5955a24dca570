#pragma once

#include <optional>
#include <span>

#include "tempera/graph/model.h"

namespace tempera::onnx {

/// The body by which the ONNX standard defines the node's operator, when it does: `body` takes the node's inputs in
/// order (one left out is left out inside, too) and gives its outputs; the node's attributes, or their defaults, are
/// bound. `opsets` are those of the body.
///
/// \param opsets  those of the model; ai.onnx's newest is assumed where they name none
/// \param inputs  types of the node's inputs, which some bodies depend on; kUnknown for one left out
/// \return nothing when the operator is no function at that opset or not one for these types
[[nodiscard]] std::optional<graph::Function> schema_function(const graph::Node& node, const graph::Opsets& opsets,
                                                             std::span<const graph::ValueType> inputs);

/// The standard defines the operator by a body, for at least some types.
[[nodiscard]] bool has_schema_function(const graph::Node& node, const graph::Opsets& opsets);

}  // namespace tempera::onnx
