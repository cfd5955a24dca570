#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tempera/graph/graph.h"

/// What the fusions into a multiplying node share.
namespace tempera::pass {

/// y[c] = scale[c] x[c] + shift[c] along one channel axis.
struct ChannelAffine {
  std::vector<double> scale;
  std::vector<double> shift;
};

/// A multiplying node with constant weights whose output channels can be scaled and shifted.
struct ScalableNode {
  graph::NodeId node;
  std::int64_t rank = 0;      ///< of the output
  std::int64_t axis = 0;      ///< of the channels in the output
  std::int64_t channels = 0;
  bool takes_shift = true;    ///< false: MatMul, which has no bias
};

/// Conv, ConvTranspose, Gemm or MatMul (by a constant on the right) with constant float weights and bias. Nothing otherwise.
[[nodiscard]] std::optional<ScalableNode> match_scalable(const graph::Graph& graph, graph::NodeId id);

/// Puts the affine step behind `target` into its weights and bias, as new initialisers: the old ones may be shared.
///
///   Conv           W'[m, ...] = scale[m] W[m, ...]
///   ConvTranspose  W'[c, j, ...] = scale[g(c) M/G + j] W[c, j, ...],  g(c) = c / (C/G)
///   Gemm           B'[.., n] = scale[n] B[.., n];  MatMul likewise
///   bias'[m] = scale[m] bias[m] + shift[m]
///
/// \return a reason when it cannot be done (the numbers leave the type's range); empty when done
[[nodiscard]] std::string apply_affine(graph::Graph& graph, const ScalableNode& target, const ChannelAffine& affine);

/// The affine step that a Mul, Div, Add or Sub by a constant, or a BatchNormalization, makes of its varying input, when it
/// varies along the channel axis alone.
///
/// \param x  the varying input
[[nodiscard]] std::optional<ChannelAffine> match_affine(const graph::Graph& graph, graph::NodeId id, graph::ValueId x,
                                                        std::int64_t rank, std::int64_t axis, std::int64_t channels);

}  // namespace tempera::pass
