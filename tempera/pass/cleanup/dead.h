#pragma once

#include "tempera/pass/pass.h"

namespace tempera::pass {

/// Removes nodes none of whose outputs are read, and unread initialisers.
///
///   Before:  a = Op(x); b = Op(x); output a      After:  a = Op(x); output a
///
/// Fires when:  nothing reads the outputs.
/// Must not fire when:  an output is a graph output or captured by a body. Unread graph inputs stay: they are the interface.
PassResult remove_dead(graph::Graph& graph, const PassContext& context);

}  // namespace tempera::pass
