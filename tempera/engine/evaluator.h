#pragma once

#include <optional>
#include <span>
#include <vector>

#include "tempera/graph/graph.h"

namespace tempera::engine {

/// Computes single nodes from constant inputs: what constant folding needs. Implemented by the torch engine.
class Evaluator {
 public:
  virtual ~Evaluator() = default;

  /// Outputs of the node on these inputs (an undefined tensor is an input left out), exactly as the reference
  /// interpreter computes them; nothing when it does not know the operator or it is random.
  ///
  /// The node has no bodies that capture outer values.
  /// \param opset  version of the operator set of the node's domain
  [[nodiscard]] virtual std::optional<std::vector<graph::Tensor>> evaluate(
      const graph::Node& node, std::int64_t opset, std::span<const graph::Tensor> inputs) const = 0;
};

}  // namespace tempera::engine
