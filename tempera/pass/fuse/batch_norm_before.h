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
///   other numbers; the norm is in training mode; the middle value is a graph output, captured, or read twice; the new
///   numbers leave the weights' type (float16).
/// Formula:  s = gamma / sqrt(var + eps), t = beta - s mean; W'[m, c, ..] = s[c] W[m, c, ..];
///   B'[m] = B[m] + sum over c, .. of W[m, c, ..] t[c].
PassResult fuse_batch_norm_before(graph::Graph& graph, const PassContext& context);

}  // namespace tempera::pass
