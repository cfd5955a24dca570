#pragma once

#include "tempera/pass/pass.h"

namespace tempera::pass {

/// Common subexpressions: equal work done twice is done once; equal initialisers are stored once.
///
///   Before:  a = Op(x); b = Op(x); y = Add(a, b)      After:  a = Op(x); y = Add(a, a)
///
/// Fires when:  operator, attributes and inputs are equal and the operator is pure.
/// Must not fire when:  the operator is random, unknown, in training mode or holds bodies; both results are graph outputs.
PassResult merge_common(graph::Graph& graph, const PassContext& context);

}  // namespace tempera::pass
