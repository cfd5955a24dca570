#pragma once

#include "tempera/pass/pass.h"

namespace tempera::pass {

/// Two Transposes with element-wise work between them become one, or none.
///
///   Before:  y = Transpose(Relu(Add(Transpose(x, p), c)), q)      After:  y = Transpose(Relu(Add(x, c')), q after p)
///
/// The constant operands between are transposed now; another varying operand may come through a Transpose by the same p, which
/// is taken off.
///
/// Fires when:  each value between has one reader, and each node between is element-wise: one input, or two with the other
///   constant or transposed alike.
/// Must not fire when:  a value between is a graph output, captured or read elsewhere; permutations or ranks are unknown.
/// Formula:  f(x transposed) = f(x) transposed, for f of single elements; (q after p)[i] = p[q[i]].
PassResult cancel_transposes(graph::Graph& graph, const PassContext& context);

}  // namespace tempera::pass
