#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tempera/engine/compare.h"
#include "tempera/engine/engine.h"

namespace tempera::engine {

/// The first element of a tensor that is NaN, else the first that is infinite.
struct NonFinite {
  graph::Dims index;
  double value = 0.0;
};

/// Nothing for tensors whose numbers are all finite, and for types that hold no NaN or infinity.
[[nodiscard]] std::optional<NonFinite> find_non_finite(const graph::Tensor& tensor);

/// Where a NaN or infinity comes from.
struct NonFiniteSource {
  std::string tensor;
  std::string node;  ///< that makes it, by name or first output; empty: an input or initialiser
  std::string op_type;
  NonFinite element;
};

/// Follows a NaN or infinity in an output back to where it comes from, by running the model once more with the tensors
/// before it as further outputs, in batches.
///
/// The source is the first node, in topological order of those the output depends on, whose output holds a NaN (when the
/// output does, else an infinity) while none of its inputs does. A NaN that comes of infinities (inf - inf, 0 inf) has two
/// entries: the node that makes the first infinity, then the node that makes the NaN of it. Constants that are infinite, as
/// in attention masks, are nobody's fault and no source.
///
/// Tensors asked for keep an engine from fusing: when the numbers then stay finite the result is empty.
///
/// \param inputs  in the order of the inputs of a session that `side` compiles to
/// \param output  name of an output of the model that holds a NaN or infinity for these inputs
[[nodiscard]] std::vector<NonFiniteSource> trace_non_finite(const Side& side, std::span<const graph::Tensor> inputs,
                                                            const std::string& output);

/// Checks what a session of `side` gave. \throws Error{kEngineFailed} naming the output, the element, and the node where it
/// comes from
void require_finite_outputs(const Side& side, std::span<const graph::Tensor> inputs,
                            std::span<const Port> ports, std::span<const graph::Tensor> outputs);

}  // namespace tempera::engine
