#pragma once

#include "tempera/graph/graph.h"

/// Which tensor of the original model each value stands for, kept up while passes rewrite.
///
/// Graph::replace_uses hands the origin on to what takes a value's place; these say the rest.
namespace tempera::pass {

/// An initialiser made from another value's numbers: named after it, with an origin derived from it.
graph::ValueId add_derived(graph::Graph& graph, graph::ValueId from, graph::Tensor tensor);

/// `changed` now holds the numbers of `target`, which is about to go: its origin becomes that of `target`.
void take_over_origin(graph::Graph& graph, graph::ValueId changed, graph::ValueId target);

/// The value's numbers have changed: it is derived from the tensor it stood for, and equal to it no more.
void no_longer_equal(graph::Graph& graph, graph::ValueId changed);

/// Gives every node output without an origin a derived one: that of the first input of its node that varies, else of the
/// first that has one. What is made from new constants alone keeps none.
///
/// \param graph  sorted
void derive_origins(graph::Graph& graph);

}  // namespace tempera::pass
