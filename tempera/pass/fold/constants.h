#pragma once

#include "tempera/pass/pass.h"

namespace tempera::pass {

/// Constant folding: a node whose inputs are all constant is computed now.
///
///   Before:  y = Op(c1, c2)      After:  y = initialiser
///
/// Fires when:  the operator is pure, all inputs are constant, the evaluator knows the operator, and the result is no
///   larger than max_fold_bytes or than the inputs that it replaces.
/// Must not fire when:  the node is random, in training mode or holds bodies; an output is a graph output; the operator
///   dequantises or decompresses weights (DequantizeLinear, or anything that only enlarges: Expand, Tile, ConstantOfShape,
///   Range beyond 64 kB), which would undo a compression.
PassResult fold_constants(graph::Graph& graph, const PassContext& context);

}  // namespace tempera::pass
