#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "tempera/graph/graph.h"

namespace tempera::ops {

/// What an operator is, as far as rewrites care. One operator may have several.
enum Trait : std::uint16_t {
  kUnary = 1 << 0,       ///< element i of the output depends on element i of input 0 alone; same shape
  kBroadcast = 1 << 1,   ///< element-wise over two or more inputs, numpy broadcasting (from opset 7)
  kLayout = 1 << 2,      ///< moves, repeats or drops elements of input 0 without changing any
  kReduction = 1 << 3,   ///< combines the elements along some axes
  kMultiply = 1 << 4,    ///< multiply-accumulate: what flops() counts
  kRandom = 1 << 5,      ///< two equal nodes need not give equal numbers
  kShapeOnly = 1 << 6,   ///< looks at the shape of input 0, never at its elements
  kBodies = 1 << 7,      ///< holds graphs that may read outer values
  kSideEffect = 1 << 8,  ///< means more than its outputs (training state); never moved, merged or folded
  kNormalize = 1 << 9,   ///< softmax and the normalisations
  kBoolean = 1 << 10,    ///< gives bool whatever it reads
  kQuantize = 1 << 11,   ///< between real numbers and codes
};

/// One row of the operator table.
struct Operator {
  std::string_view op_type;
  std::string_view domain;  ///< "" is ai.onnx
  std::uint16_t traits = 0;

  [[nodiscard]] bool has(Trait trait) const { return (traits & trait) != 0; }
};

/// Every operator of the domain ai.onnx known to the pinned ONNX library, by name.
[[nodiscard]] std::span<const Operator> operators();

/// The row of an operator; null when it is not in the table (another domain, a local function, unknown).
[[nodiscard]] const Operator* find_operator(std::string_view op_type, std::string_view domain = {});

/// Whether the node's operator is in the table with this trait. False for unknown operators.
[[nodiscard]] bool has_trait(const graph::Node& node, Trait trait);

/// Whether two nodes with equal operator, attributes and inputs give equal outputs, and the node may be computed ahead of
/// time: a known operator that is neither random nor has side effects. (Dropout and BatchNormalization count as pure:
/// their training forms are told apart by ops::is_training.)
[[nodiscard]] bool is_pure(const graph::Node& node);

}  // namespace tempera::ops
