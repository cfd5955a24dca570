#pragma once

#include <cstdint>
#include <optional>

#include "tempera/graph/graph.h"

namespace tempera::ops {

/// Floating-point operations of one node, from the shapes: two for each multiply-accumulate of convolutions, matrix
/// products, Einsum, Attention and recurrent layers; 0 for every other operator (element-wise work is bound by memory, so
/// the customary count leaves it out).
///
/// \return nothing when a shape needed is not fixed
[[nodiscard]] std::optional<std::int64_t> flops(const graph::Graph& graph, graph::NodeId id);

/// Sum over a graph; bodies count once, whatever the number of iterations.
struct FlopCount {
  std::int64_t flops = 0;
  std::int64_t unknown_nodes = 0;  ///< multiplying nodes whose shapes are not fixed
};
[[nodiscard]] FlopCount count_flops(const graph::Graph& graph);

}  // namespace tempera::ops
