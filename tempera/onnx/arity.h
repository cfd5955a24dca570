#pragma once

#include "tempera/graph/model.h"

namespace tempera::onnx {

/// Checks that every node of a standard operator, in bodies and functions too, has as many inputs and outputs as the
/// operator takes. The ONNX project's inference relies on that for some operators without checking it.
///
/// \throws Error{kBadModel} naming the node, what it has and what its operator takes
void require_arity(const graph::Model& model);

}  // namespace tempera::onnx
