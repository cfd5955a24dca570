#pragma once

#include "tempera/pass/pass.h"

/// Steps that scale and shift channels go into the weights of the node before them, or behind a BatchNormalization.
namespace tempera::pass {

///   Before:  y = BatchNormalization(Conv(x, W, B), gamma, beta, mean, var)      After:  y = Conv(x, W', B')
///
/// Also behind ConvTranspose (with groups) and Gemm.
///
/// Fires when:  weights and statistics are constant and nothing else reads the middle value. The new weights are new
///   initialisers, so weights shared with other nodes stay what they are.
/// Must not fire when:  the norm is in training mode; the middle value is a graph output, captured, or read twice; the new
///   numbers leave the weights' type (float16). A BatchNormalization *before* a Conv is the matter of fuse_batch_norm_before.
/// Formula:  s = gamma / sqrt(var + eps);  W'[m] = s[m] W[m];  B'[m] = s[m] (B[m] - mean[m]) + beta[m].
PassResult fuse_batch_norm(graph::Graph& graph, const PassContext& context);

///   Before:  y = Add(Mul(Conv(x, W, B), a), b)      After:  y = Conv(x, W', B')
///
/// Mul, Div, Add or Sub by a constant that varies along the output channels alone, behind Conv, ConvTranspose, Gemm, or
/// (scales only) MatMul.
///
/// Fires when, must not fire when:  as above; also not when the constant would enlarge the output.
/// Formula:  W'[m] = a[m] W[m];  B'[m] = a[m] B[m] + b[m].
PassResult fuse_scale(graph::Graph& graph, const PassContext& context);

}  // namespace tempera::pass
