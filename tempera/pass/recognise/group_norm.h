#pragma once

#include "tempera/pass/pass.h"

namespace tempera::pass {

/// Group normalisation written as Reshape, InstanceNormalization, Reshape (as PyTorch's exporters leave it) becomes a form
/// that keeps the layout of its input.
///
///   Before:  r = Reshape(x, [N, G, -1])                            x [N, C, H, W], C = G k
///            i = InstanceNormalization(r, ones, zeros, epsilon)
///            y = Reshape(i, shape of x) * gamma + beta             gamma, beta constant for each channel, or absent
///            z = y * S + T                                         S, T [N, C, 1, 1], or absent
///
///   After, G = C:  y = InstanceNormalization(x, gamma, beta, epsilon)
///
///   After, G < C and the target is "openvino":
///            m  = mean of x over H, W, then over the k channels of a group                        [N, G, 1]
///            q  = the same mean of x^2, from ReduceL2                                              [N, G, 1]
///            a  = gamma / sqrt(max(q - m^2, 0) + epsilon)                                          [N, G, k]
///            b  = beta - m a;   with S and T:  a = a S,  b = b S + T
///            z  = x * Reshape(a, [N, C, 1, 1]) + Reshape(b, [N, C, 1, 1])
///
/// Fires when:  the values between have one reader each; x has rank 4 (any rank >= 3 when G = C) and a float32 type, with
///   C, H and W known.
/// Must not fire when:  a value between is a graph output, captured by a body or read elsewhere; scale and bias of the
///   InstanceNormalization are not ones and zeros; rounding may not change; half-precision types, whose sum of squares
///   overflows.
/// Formula:  var = E[x^2] - E[x]^2: loses digits when the mean is large beside the deviation (relative error of the variance
///   about 2^-23 mean^2 / var), so the result is measured like any other candidate.
///
/// Why: OpenVINO 2026.4 computes convolutions channels-last and this Reshape only channels-first; the reorders took a
/// third of a U-Net with 139 such norms at f32. The reshapes of a and b keep it from computing them for every pixel.
/// Source of the operator: Wu, He 2018, arXiv:1803.08494, eq. 1 to 7.
PassResult group_norm(graph::Graph& graph, const PassContext& context);

}  // namespace tempera::pass
