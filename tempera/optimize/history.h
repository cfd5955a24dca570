#pragma once

#include <string>
#include <vector>

#include "tempera/graph/model.h"

namespace tempera::optimize {

/// What was done to a model, oldest first: "prune: channels, ratio 0.3", "quantize: int8 x int8". Kept in the model's
/// metadata, so that the report of a later step tells the order.
[[nodiscard]] std::vector<std::string> history_of(const graph::Model& model);

/// \param step  one line
void add_to_history(graph::Model& model, const std::string& step);

}  // namespace tempera::optimize
