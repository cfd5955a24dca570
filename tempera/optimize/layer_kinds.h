#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tempera/compress/quantize/layers.h"
#include "tempera/compress/quantize/plan.h"
#include "tempera/graph/graph.h"

namespace tempera::optimize {

/// The plan's layers by kind ("Conv 3x3", "grouped Conv 5x5", "Gemm", "MatMul of activations"), which an engine is likely to
/// treat alike, the kind with most multiplications first: (kind, names of its layers in the order of `layers`).
[[nodiscard]] std::vector<std::pair<std::string, std::vector<std::string>>> kinds_of(
    const std::vector<compress::Layer>& layers, const compress::QuantizationPlan& plan, const graph::Graph& graph);

}  // namespace tempera::optimize
