#pragma once

#include "tempera/pass/pass.h"

namespace tempera::pass {

/// One number that scales what a row of linear steps makes goes into the weights at their beginning: the scale of
/// attention, wherever an exporter put it, costs nothing.
///
///   Before:  s = MatMul(Q, K) c                          Q = Transpose(Reshape(x W + b))
///   or:      s = MatMul(Q a, K a)                        K = Transpose(Reshape(x V + d))
///   After:   s = MatMul(Q', K')                          Q' = Transpose(Reshape(x (c W) + c b)), K' likewise
///
///   Without weights to take it (Q is an input, or rotated by position), one factor is left, on the smaller side:
///
///   Before:  MatMul(Q, K) c                              After:  MatMul(Q c, K)
///   Before:  MatMul(Q a, K b)                            After:  MatMul(Q (a b), K)
///
/// The steps are Reshape, Transpose, Squeeze, Unsqueeze, Flatten, Add and Sub of a constant, and products (MatMul,
/// Einsum of two) of which either side may take the factor; at the beginning is a Conv, ConvTranspose, Gemm or MatMul
/// with constant weights, or another constant factor.
///
/// Fires when:  the factor (Mul, or Div by it) is one finite number, not 0, that adds no dimension. A factor moves in
///   front of a product without weights only when the shapes are fixed and of rank 3 or more, and its side has fewer
///   elements than the product.
/// Must not fire when:  a value on the way is a graph output, captured by a body or read twice; the numbers are integers;
///   new weights leave the range of their type; in float16 the factor is larger than 1, so that values between could
///   overflow.
/// Formula:  c (A B) = (c A) B = A (c B); c (x + b) = c x + c b.
///
/// Why: the scores have n^2 elements for each head, Q has n d. An attention layer (8 heads of depth 64, 1024 positions,
/// its four projections, float32, 2 threads) took OpenVINO 2026.4 0.87 of the time of the form with the scale behind
/// the scores once the scale was in the weights, and 0.88 with it on Q; with 256 positions and 4 heads of 32 there was
/// no difference.
PassResult hoist_factor(graph::Graph& graph, const PassContext& context);

}  // namespace tempera::pass
