#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tempera/graph/graph.h"

namespace tempera::compress {

/// A node whose cost is a product with weights: Conv, ConvTranspose, Gemm, MatMul; or a MatMul of two activations.
struct Layer {
  std::string name;      ///< the node's, or its first output's when it has none; unique in the list
  graph::NodeId node;
  std::string op_type;
  graph::ValueId input;    ///< activation
  graph::ValueId second;   ///< of a MatMul of two activations; else invalid
  graph::ValueId weight;   ///< a float initialiser, maybe read by other nodes too; invalid for two activations
  std::size_t weight_input = 1;
  graph::ValueId bias;          ///< constant; invalid: none, or added by another node
  std::int64_t channel_axis = 0;  ///< of the weight: output channels (ConvTranspose: within one group)
  std::int64_t reduced_axis = 1;  ///< of the weight: the first axis summed over
  std::int64_t group = 1;
  std::int64_t multiplications = 0;  ///< of one run; 0 when shapes are not known
};

/// Every such layer of the main graph, in order. Nodes in bodies are not among them.
[[nodiscard]] std::vector<Layer> find_layers(const graph::Graph& graph);

}  // namespace tempera::compress
