#pragma once

#include "tempera/pass/pass.h"

namespace tempera::pass {

/// Self-attention over the pixels of a channels-first map, written with three-dimensional Einsums, becomes the
/// four-dimensional form that engines compute in one kernel.
///
///   Before:  q', k', v' = Reshape of q, k, v to [N h, d, n]          q, k, v [N, h d, H, W], n = H W
///            p = Softmax(Einsum "bct,bcs->bts"(q', k'), axis -1)
///            y = Reshape(Einsum "bts,bcs->bct"(p, v'), [N, h d, H, W])
///
///   After:   q', v' = Transpose(Reshape(Transpose(q, 0 2 3 1), [N, n, h, d]), 0 2 1 3);   k' = the same, 0 2 3 1
///            o = MatMul(Softmax(MatMul(q', k'), axis -1), v')                               [N, h, n, d]
///            y = Transpose(Reshape(Transpose(o, 0 2 1 3), [N, H, W, h d]), 0 3 1 2)
///
/// Fires when:  all shapes are fixed and the values between have one reader each.
/// Must not fire when:  one of them is a graph output, captured by a body or read elsewhere; the target is not "openvino".
/// Formula:  p[t, s] = softmax_s(sum_c q[c, t] k[c, s]);  y[c, t] = sum_s p[t, s] v[c, s]. Equal up to the order of the sums.
///
/// Why: OpenVINO 2026.4 makes one kernel of the second form, without the [n, n] scores in memory; its convolutions work
/// channels-last, so the outer transposes cost nothing.
/// Source of the operator: Vaswani et al. 2017, arXiv:1706.03762, eq. 1; here without its scale, which the products carry.
PassResult channel_attention(graph::Graph& graph, const PassContext& context);

}  // namespace tempera::pass
