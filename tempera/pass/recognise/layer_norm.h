#pragma once

#include "tempera/pass/pass.h"

/// Normalisation over the last axes written out becomes the operator, which engines compute in one pass over memory.
namespace tempera::pass {

///   Before:  d = Sub(x, ReduceMean(x));  v = ReduceMean(d d);  y = d / Sqrt(v + eps) * gamma + beta
///   After:   y = LayerNormalization(x, gamma, beta, axis, epsilon)
///
/// d d may be a Pow by 2; gamma and beta may be absent.
///
/// Fires when:  opset 17 or higher; both means are over the same last axes with keepdims; gamma and beta are constant and
///   shaped like those axes (fixed sizes).
/// Must not fire when:  other axes; x is float64 (the operator's statistics would be float32); a value between is read
///   elsewhere, a graph output or captured.
/// Formula:  the same. In float16 the written-out form overflows where |x - mean| exceeds 255 (its square is beyond 65504); the
///   operator computes its statistics in float32 and does not.
/// Source: Ba, Kiros, Hinton 2016, arXiv:1607.06450, eq. 3 and 4; ONNX LayerNormalization-17 with stash_type 1.
PassResult layer_norm(graph::Graph& graph, const PassContext& context);

///   Before:  y = x / Sqrt(ReduceMean(x x) + eps) * gamma          (or times the Reciprocal)
///   After:   y = RMSNormalization(x, gamma, axis, epsilon)
///
/// Fires when, must not fire when:  as above, with opset 23 or higher and a gamma.
/// Source: Zhang, Sennrich 2019, arXiv:1910.07467, eq. 4.
PassResult rms_norm(graph::Graph& graph, const PassContext& context);

}  // namespace tempera::pass
