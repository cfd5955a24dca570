#pragma once

#include <onnx/defs/schema.h>

#include "tempera/graph/model.h"

namespace tempera::onnx {

/// The standard's definition of a node's operator in one of the opsets; null when it has none.
[[nodiscard]] const ::onnx::OpSchema* schema_of(const graph::Node& node, const graph::Opsets& opsets);

}  // namespace tempera::onnx
