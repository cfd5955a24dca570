#pragma once

#include "tempera/pass/pass.h"

namespace tempera::pass {

/// Nodes that hand on their input unchanged are taken out.
///
///   Before:  y = Op(x); z = Relu(y)      After:  z = Relu(x)
///
/// Fires when:  Identity; Dropout outside training whose mask is not read; Cast to the type it has; Pad by nothing; Slice,
///   Expand, Reshape, Flatten, Squeeze, Unsqueeze, Tile, Resize or Transpose that keep the shape (Resize with all scales 1,
///   Transpose by the identity); Split into one; Concat, Sum, Max, Min or Mean of one; Clip without limits; Mul or Div by 1;
///   Add or Sub of 0; Pow 1.
/// Must not fire when:  the shapes are not known to be equal, symbols included; Dropout may be training; the result is a
///   graph output and the input cannot take its name.
/// Formula:  x + 0 = x and x * 1 = x to the bit, but for the sign of a zero.
PassResult remove_no_ops(graph::Graph& graph, const PassContext& context);

}  // namespace tempera::pass
