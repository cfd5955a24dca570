#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "tempera/compress/prune/coupling.h"

/// What each operator couples. A rule reads the labels of a node's inputs, unites and freezes, and labels its
/// outputs; an operator without a rule freezes what it reads.
namespace tempera::compress {

struct Rule {
  std::string_view op_type;
  void (*apply)(Coupling& c, graph::NodeId id);
};

[[nodiscard]] std::span<const Rule> layer_rules();   ///< products with weights
[[nodiscard]] std::span<const Rule> norm_rules();    ///< normalisations, reductions, pooling
[[nodiscard]] std::span<const Rule> layout_rules();  ///< what moves elements about, and tensors of sizes

/// Element-wise over all inputs, broadcasting as numpy does.
void couple_broadcast(Coupling& c, graph::NodeId id);
/// Every output has the shape of input 0.
void couple_unary(Coupling& c, graph::NodeId id);

/// Dimensions of an input, constant or not; nothing when the rank is not known.
[[nodiscard]] std::optional<graph::Shape> input_shape(const graph::Graph& graph, graph::NodeId id,
                                                      std::size_t i);

/// Broadcasts axes [0, leading) of inputs 0.. with each other; for products, whose last axes mean something
/// else.
[[nodiscard]] Labels couple_leading(Coupling& c, graph::NodeId id, const std::vector<Labels>& inputs,
                                    const std::vector<graph::Shape>& shapes);

}  // namespace tempera::compress
