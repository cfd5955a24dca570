#pragma once

#include "tempera/pass/pass.h"

namespace tempera::pass {

/// Constant nodes become initialisers, so that other passes and engines see one kind of constant.
///
///   Before:  c = Constant<value = t>()      After:  initialiser c = t
///
/// Fires when:  the node holds a dense tensor, number or list.
/// Must not fire when:  the value is a graph output (an initialiser there is read badly by some engines), or is of another kind (sparse).
PassResult constants_to_initializers(graph::Graph& graph, const PassContext& context);

}  // namespace tempera::pass
