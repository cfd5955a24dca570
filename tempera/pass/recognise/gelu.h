#pragma once

#include "tempera/pass/pass.h"

namespace tempera::pass {

/// GELU written out becomes the operator.
///
///   Before:  y = x * 0.5 * (1 + Erf(x / sqrt(2)))                                     After:  y = Gelu(x)
///   Before:  y = x * 0.5 * (1 + Tanh(sqrt(2 / pi) (x + 0.044715 x^3)))                After:  y = Gelu(x, approximate tanh)
///
/// The factors may stand in any order; x / sqrt(2) may be a product, x^3 a Pow or two products.
///
/// Fires when:  the opset is 20 or higher; the constants are those above, to three digits (half-precision files round them).
/// Must not fire when:  a value between is read elsewhere, a graph output or captured.
/// Source: Hendrycks, Gimpel 2016, arXiv:1606.08415, sec. 2.
PassResult gelu(graph::Graph& graph, const PassContext& context);

}  // namespace tempera::pass
