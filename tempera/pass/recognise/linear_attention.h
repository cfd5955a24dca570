#pragma once

#include "tempera/pass/pass.h"

namespace tempera::pass {

/// Linear attention over the pixels of a channels-first map, re-associated so that no value of heads and pixels is ever
/// reshaped: the work on every pixel is convolutions, the rest small matrices.
///
///   Before:  q, k, v = Conv 1x1 of x, each Reshaped to [1, h, d, n]      x [1, C, H, W], n = H W, D = h d
///            k', v' = Concat(m_k, k), Concat(m_v, v) along n              m_k, m_v [1, h, d, m] constant, or absent
///            a = Einsum "bhdn,bhen->bhde"(Softmax(k', axis n), v')
///            o = Einsum "bhde,bhdn->bhen"(a, Softmax(q, axis d) * scale)
///            y = Conv 1x1(Reshape(o, [1, D, H, W]), W_o, b_o)             W_o [O, D]
///
///   After:   E = Exp(Conv(x, W_k, b_k))                                              [1, D, H, W]
///            s = sum of E over the pixels                                            [1, D]
///            G = MatMul(x as [C, n], E as [n, D])                                    [C, D]
///            Z = (MASK * (W_v G + b_v s) + M) / (s + sum_m exp(m_k))                 [D, D]
///            p = Softmax over each head's d of Conv(x, W_q, b_q), channels last      [1, D, H, W]
///            y = Conv 1x1(p, (scale W_o) Z as [O, D, 1, 1], b_o)
///            with MASK block diagonal, blocks [d, d] of ones, and M = MASK * (m_v exp(m_k)^T)
///
/// Fires when:  one sample, float32, all shapes fixed; what stands between has one reader each; the logits of k are bounded
///   by constants: |W_k[j] . x + b_k[j]| <= |W_k[j] * s|_2 + |b_k[j]| <= 40 and |m_k| <= 40, where x = s u with |u|_2 <= 1
///   (x was divided by its own norm); the products by Z cost no more than what they replace: D (C + O) <= 2 d n.
/// Must not fire when:  a value between is a graph output, captured by a body or read elsewhere; the bound is not known, for
///   then Exp without the largest logit subtracted may overflow; the target is not "openvino".
/// Formula:  a[d, e] = sum_n softmax(k)[d, n] v[e, n] with v = W_v x: W_v leaves the sum over n, W_o joins a. Equal up to
///   the order of the sums.
///
/// Why: OpenVINO 2026.4 computes convolutions channels-last and these Reshapes only channels-first. A convolution with
/// computed weights runs on its fastest kernels.
/// Source of the operator: Katharopoulos et al. 2020, arXiv:2006.16236; with a softmax over q and k as in Shen et al. 2018,
/// arXiv:1812.01243, eq. 4 and sec. 3.2, and constant memory columns.
PassResult linear_attention(graph::Graph& graph, const PassContext& context);

}  // namespace tempera::pass
