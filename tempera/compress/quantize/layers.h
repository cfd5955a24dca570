#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tempera/graph/graph.h"

namespace tempera::compress {

/// A node whose cost is a product with weights: Conv, ConvTranspose, Gemm, MatMul; or a MatMul of two
/// activations.
///
/// A weight may reach its node through Identity, Transpose and Reshape: `weight` is the constant at the root,
/// and both axes are those of the root. `weight_input` says where the chain ends in the node, so root and
/// chain together make graph.input(node, weight_input).
struct Layer {
  std::string name;  ///< the node's, or its first output's when it has none; unique in the list
  graph::NodeId node;
  std::string op_type;
  graph::ValueId input;   ///< activation; of a MatMul of two activations the left one
  graph::ValueId second;  ///< of a MatMul of two activations the right one; else invalid
  graph::ValueId weight;  ///< a float initialiser or Constant, maybe read by other nodes too; invalid for two
                          ///< activations
  std::size_t weight_input = 1;   ///< 0 when the constant is the left factor of a MatMul or Gemm
  graph::ValueId bias;            ///< constant; invalid: none, not constant, or added by another node
  std::int64_t channel_axis = 0;  ///< of the weight: output channels (ConvTranspose: within one group)
  std::int64_t reduced_axis = 1;  ///< of the weight: the first axis summed over
  std::int64_t group = 1;
  std::int64_t multiplications = 0;  ///< of one run; 0 when shapes are not known

  [[nodiscard]] bool has_weight() const { return weight.valid(); }
};

/// Every such layer of the main graph, in order. Nodes in bodies are not among them.
///
/// Left out: nodes whose weight varies (but for a MatMul of two float activations), whose weight is no float
/// constant (already quantised ones among them), whose weight is a vector (a MatMul without output channels),
/// and whose Reshape does not keep both axes whole.
///
/// \param graph  with inferred types
[[nodiscard]] std::vector<Layer> find_layers(const graph::Graph& graph);

/// How many Conv, ConvTranspose, Gemm and MatMul nodes lie in the bodies of If, Loop and Scan, at any depth: they stay as they are.
[[nodiscard]] std::size_t count_layers_in_bodies(const graph::Graph& graph);

}  // namespace tempera::compress
