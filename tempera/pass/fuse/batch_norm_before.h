#pragma once

#include "tempera/pass/pass.h"

namespace tempera::pass {

///   Before:  y = Conv(BatchNormalization(x, gamma, beta, mean, var), W, B)      After:  y = Conv(x, W', B')
///
/// Groups, strides and dilations stay as they are. Also before a Gemm (x [N, C], not transposed).
///
/// Fires when:  weights and statistics are constant and nothing else reads the middle value. The new weights are new
///   initialisers, so weights shared with other nodes stay what they are.
/// Must not fire when:  the convolution pads, unless every shift t is 0: the zeros at the border would have to become
///   other numbers (fuse_batch_norm_padded); the norm is in training mode; the middle value is a graph output, captured, or read twice; the new
///   numbers leave the weights' type (float16).
/// Formula:  s = gamma / sqrt(var + eps), t = beta - s mean; W'[m, c, ..] = s[c] W[m, c, ..];
///   B'[m] = B[m] + sum over c, .. of W[m, c, ..] t[c].
PassResult fuse_batch_norm_before(graph::Graph& graph, const PassContext& context);

///   Before:  y = Conv<pads>(BatchNormalization(x, gamma, beta, mean, var), W, B)
///   After:   y = Add(Conv<pads>(x, W', B'), E)
///
/// E [1, M, ..] holds what the shifts of the norm do not add where the kernel hangs over the border, and is zero elsewhere.
/// It is stored once for each kind of place along each axis (of a 3x3 kernel: first, inner, last) and spread by Gathers of
/// constants, which engines compute when they compile. The norm goes over x, which may be many channels, E over y.
///
/// Fires when:  as above, and the sizes of x and y along the padded axes are known.
/// Must not fire when:  the convolution pads by auto_pad; what fuse_batch_norm_before does; and otherwise as above.
/// Formula:  with s, t, W', B' as above, E[m, p] = - sum over k that read padding at p, over c, of W[m, c, k] t[c].
PassResult fuse_batch_norm_padded(graph::Graph& graph, const PassContext& context);

}  // namespace tempera::pass
