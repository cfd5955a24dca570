#pragma once

#include "tempera/pass/pass.h"

namespace tempera::pass {

/// An Einsum of two operands that is a (batched) matrix product becomes a MatMul.
///
///   Before:  y = Einsum("bhid,bhjd->bhij")(q, k)      After:  y = MatMul(q, Transpose(k, 0,1,3,2))
///
/// Labels fall into four groups: batch (in both operands and the result), left and right (in one operand and the result),
/// summed (in both operands alone). Operands are transposed to [batch, left, summed] and [batch, summed, right], groups of
/// other than one label are merged by Reshape, and the product is turned into the order of the result. Where the result
/// names right before left, the operands change places, which saves transposing it.
///
/// Fires when:  two operands, no ellipsis, no label twice in one operand.
/// Must not fire when:  a label is summed within one operand; sizes that have to be merged are not known; the two sizes of a
///   label differ (broadcasting).
/// Formula:  y[b,l,r] = sum over s of x[b,l,s] z[b,s,r].
PassResult einsum_to_matmul(graph::Graph& graph, const PassContext& context);

}  // namespace tempera::pass
