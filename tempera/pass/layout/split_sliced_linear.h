#pragma once

#include "tempera/pass/pass.h"

namespace tempera::pass {

/// A convolution or matrix product whose output is only cut up becomes one for each piece, so that nothing is computed
/// and copied apart afterwards: q, k and v made by one 1x1 convolution become three.
///
///   Before:  y = Conv(x, W, B)                    After:  q = Conv(x, W[0:a], B[0:a])
///            q, k, v = Split(y, axis of channels)         k = Conv(x, W[a:b], B[a:b])
///            (or Slices of y along that axis)             v = Conv(x, W[b:M], B[b:M])
///
///   The same for Gemm and for MatMul by a constant matrix, also with an Add of a constant between it and the pieces.
///
/// Fires when:  weights (and bias) are constant; every reader of y is a Split or a Slice along the output channels alone,
///   with step 1; the pieces do not overlap, so no more is computed than before.
/// Must not fire when:  y is a graph output, captured by a body or read by anything else; the convolution has groups; the
///   weights are of a type without whole bytes; a Gemm makes one row, whose pieces lie apart as they are (merge_gemms does
///   the opposite there); the target is "torch", whose larger product is the faster one.
/// Formula:  y[m] = sum_c W[m, c] x[c] + B[m]: row m of W and B makes channel m alone. Equal up to the order of the sums.
///
/// Why: OpenVINO 2026.4 cuts a channels-last tensor along its channels by a reference kernel, which took half of the time
/// of a diffusion U-Net in bf16.
PassResult split_sliced_linear(graph::Graph& graph, const PassContext& context);

}  // namespace tempera::pass
