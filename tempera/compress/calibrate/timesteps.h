#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tempera/base/host.h"
#include "tempera/data/dataset.h"
#include "tempera/graph/graph.h"

namespace tempera::compress {

/// Places in `samples` sorted by the first element of an input; equal ones in their order. Loads every sample
/// once. \throws Error{kNotFound} with the nearest names when samples have no such input
[[nodiscard]] std::vector<std::size_t> places_by_timestep(const data::Dataset& dataset,
                                                          const graph::Graph& graph,
                                                          const std::vector<std::size_t>& samples,
                                                          const std::string& input, const Host& host);

}  // namespace tempera::compress
