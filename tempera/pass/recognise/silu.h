#pragma once

#include "tempera/pass/pass.h"

namespace tempera::pass {

/// SiLU in the form that OpenVINO computes fastest.
///
///   Before:  y = Mul(x, Sigmoid(x))   or Swish(x) with alpha 1
///   After:   h = Mul(x, 0.5);  y = Mul(h, Add(Tanh(h), 1))
///
/// Fires when:  the target is "openvino"; x is a float tensor of at least 4096 known elements.
/// Must not fire when:  the sigmoid has other readers, or is a graph output or captured; a convolution makes x and nothing
///   else reads it (OpenVINO then computes SiLU inside the convolution).
/// Formula:  x sigmoid(x) = x / 2 (1 + tanh(x / 2)).
///
/// Why: OpenVINO 2026.4 emits tanh as a table polynomial, its Swish as an exponential and a division.
PassResult silu_by_tanh(graph::Graph& graph, const PassContext& context);

}  // namespace tempera::pass
