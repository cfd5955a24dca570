#pragma once

#include "tempera/pass/pass.h"

namespace tempera::pass {

/// Work that a Reshape does not hinder moves in front of it, where it can join the convolution or product that made the
/// value.
///
///   Before:  y = Mul(Reshape(x, s), c)                     After:  y = Reshape(Mul(x, c), s)          c: one number
///   Before:  a, b = Split(Reshape(x, s), axis 1)           After:  a = Reshape(x1, ..), b = Reshape(x2, ..)
///                                                                  with x1, x2 = Split(x, axis 1)
///
/// Fires when:  the Reshape has no other reader; for Split, the first two dimensions are the same before and after it and
///   known, and all shapes behind are fixed.
/// Must not fire when:  the reshaped value is a graph output, captured by a body or read elsewhere; c is itself shaped so
///   that the result gains dimensions.
PassResult delay_reshape(graph::Graph& graph, const PassContext& context);

}  // namespace tempera::pass
