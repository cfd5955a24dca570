#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tempera/graph/graph.h"

namespace tempera::compress {

/// A layer as a product: output row = input row times weights, for every place of its output.
struct RowForm {
  std::int64_t places = 0;  ///< of one output tensor: N times pixels, or rows
  std::int64_t inputs = 0;  ///< length of an input row: C k.. (in the order of the weight), or K
  std::int64_t outputs = 0;
};

/// The form of a Conv without groups or of a Gemm or MatMul with a weight in input 1, for the shapes of these
/// tensors. Nothing for any other node.
[[nodiscard]] std::optional<RowForm> row_form(const graph::Graph& graph, graph::NodeId id,
                                              const graph::Dims& input, const graph::Dims& output);

/// Input row `place`, zeros where a convolution reaches beyond the edge. \param row  of RowForm::inputs
/// numbers
void input_row(const graph::Graph& graph, graph::NodeId id, const graph::Tensor& input,
               const graph::Dims& output, std::int64_t place, float* row);

/// Output row `place`. \param row  of RowForm::outputs numbers
void output_row(const graph::Graph& graph, graph::NodeId id, const graph::Tensor& output, std::int64_t place,
                float* row);

/// The weight as [inputs, outputs] and back.
[[nodiscard]] std::vector<double> weight_columns(const graph::Graph& graph, graph::NodeId id);
[[nodiscard]] std::vector<double> weight_from_columns(const graph::Graph& graph, graph::NodeId id,
                                                      const std::vector<double>& columns);

}  // namespace tempera::compress
