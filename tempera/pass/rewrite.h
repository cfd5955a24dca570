#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tempera/graph/graph.h"
#include "tempera/pass/pass.h"

/// Small things that every pass needs.
namespace tempera::pass {

/// The node's name, or that of its first output: how results name a place.
[[nodiscard]] std::string site(const graph::Graph& graph, graph::NodeId id);

void note(PassResult& result, const graph::Graph& graph, graph::NodeId id, std::string what);
void decline(PassResult& result, const graph::Graph& graph, graph::NodeId id, std::string reason);

/// Whether every reader of `from` may read `to` instead without an Identity between: not when `from` is a graph output
/// and `to` cannot take its name (an input, an initialiser, a capture, or an output itself).
[[nodiscard]] bool can_substitute(const graph::Graph& graph, graph::ValueId from, graph::ValueId to);

/// Graph::replace_uses, keeping the declared type of a graph output and giving `to` a type when it has none.
void substitute(graph::Graph& graph, graph::ValueId from, graph::ValueId to);

/// Removes what a rewrite left without readers, and sorts. Does nothing when nothing was rewritten.
PassResult finish(graph::Graph& graph, PassResult result);

/// Both known, of one rank, and each dimension the same number or the same symbol.
[[nodiscard]] bool same_shape(const graph::Graph& graph, graph::ValueId a, graph::ValueId b);

/// Why a value must not disappear: "'x' is a graph output", "'x' has 2 readers"; empty when exactly one node input reads it.
[[nodiscard]] std::string reason_kept(const graph::Graph& graph, graph::ValueId id);

/// The producer of `id` when it is the operator named (of ai.onnx) and the value may disappear with it.
[[nodiscard]] graph::NodeId sole_producer(const graph::Graph& graph, graph::ValueId id, std::string_view op_type);

/// The producer of `id` when it is the operator named, however many read the value.
[[nodiscard]] graph::NodeId producer_of(const graph::Graph& graph, graph::ValueId id, std::string_view op_type);

/// The node that alone reads `id`, or none when it is read otherwise.
[[nodiscard]] graph::NodeId sole_reader(const graph::Graph& graph, graph::ValueId id);

/// The input of a two-input node that is not `one`; an invalid id when both or neither are.
[[nodiscard]] graph::ValueId other_input(const graph::Graph& graph, graph::NodeId id, graph::ValueId one);

}  // namespace tempera::pass
