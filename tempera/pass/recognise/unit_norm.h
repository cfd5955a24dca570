#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tempera/graph/graph.h"

namespace tempera::pass {

/// The scale of a value that was divided by its own Euclidean norm over the channels.
///
/// \param x  [N, C, ...]
/// \return s [C] such that x[n, c, ...] = s[c] u[n, c, ...] with sum_c u^2 <= 1 at every place (up to rounding); nothing
///   when x is not seen to be made so
///
/// Seen are LpNormalization (p = 2, axis 1) and v / d where d is ReduceL2(v, axis 1) or that raised by Clip, Max or an Add
/// of a constant; each behind products and quotients by constants of each channel.
[[nodiscard]] std::optional<std::vector<double>> unit_norm_scale(const graph::Graph& graph, graph::ValueId x);

}  // namespace tempera::pass
