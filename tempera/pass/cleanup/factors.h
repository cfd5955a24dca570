#pragma once

#include "tempera/pass/pass.h"

namespace tempera::pass {

/// Constant factors in a row become one: one pass over memory for two.
///
///   Before:  y = Mul(Mul(x, a), b)      After:  y = Mul(x, a b)
///
/// Mul by a constant and Div by a constant count; a and b may be shaped differently as long as one of them is a single number
/// or both have the same shape. `F.normalize(x) * g * sqrt(C)` ends in such a row.
///
/// Fires when:  a and b are constant floats of x's type and the middle value has no other reader.
/// Must not fire when:  the product leaves the type's range or loses a factor to zero (1e-30 times 1e-30); rounding may not
///   change; the middle value is a graph output or captured.
/// Formula:  (x a) b = x (a b), rounded once less.
PassResult merge_factors(graph::Graph& graph, const PassContext& context);

/// An Expand in front of an element-wise operator that broadcasts by itself goes.
///
///   Before:  y = Div(x, Expand(n, shape of x))      After:  y = Div(x, n)
///
/// Fires when:  another operand already has the shape of the result, and n does not have a higher rank.
/// Must not fire when:  shapes are not known to be equal, symbols included; the operator broadcasts in the way of before opset 7.
PassResult drop_expand(graph::Graph& graph, const PassContext& context);

}  // namespace tempera::pass
