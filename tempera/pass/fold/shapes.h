#pragma once

#include "tempera/pass/pass.h"

namespace tempera::pass {

/// Shape arithmetic: the small integer tensors that exporters compute at run time although shapes are known.
///
///   Before:  s = Shape(x)  x: [batch,64,32,32]       After:  y = Reshape(x, [0,64,1024])   one constant
///            c = Gather(s, 1); n = ...
///            y = Reshape(x, Concat(batch, c, n))
///
/// Each element is followed as a number, as the size of a named dimension, or as unknown, through Shape, Size, Gather,
/// Slice, Concat, Squeeze, Unsqueeze, Reshape, Cast, Identity, Add, Sub, Mul, Div, Mod, Min, Max, Neg, Equal, Less, Greater,
/// Not, And, Or, Where, ConstantOfShape, Expand, Range and ReduceProd.
///
/// Fires when:  every element of a value is a number: it becomes an initialiser. Or: the target of a Reshape has at most
///   one element that is neither a number nor the size of the same dimension of the input: those become -1 and 0.
/// Must not fire when:  the value is a graph output (an initialiser there is read badly by some engines); an element depends
///   on a dimension without a name.
/// Formula:  integer arithmetic as ONNX defines it, division truncated; anything that would overflow stays.
PassResult fold_shapes(graph::Graph& graph, const PassContext& context);

}  // namespace tempera::pass
