#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tempera/engine/torch/kernels/kernel.h"
#include "tempera/graph/model.h"

namespace tempera::engine::aten {

class Plan;

/// One node, ready to run. Slots are numbers of values in the frame of its graph.
struct Step {
  static constexpr std::uint32_t kNone = 0xFFFFFFFF;

  graph::NodeId id;
  const graph::Node* node = nullptr;
  const Kernel* kernel = nullptr;      ///< null: the operator is a function of others, expanded when first run
  std::int64_t opset = 0;              ///< of the node's domain
  std::vector<std::uint32_t> inputs;   ///< kNone: left out
  std::vector<std::uint32_t> outputs;  ///< kNone: not asked for
  std::vector<std::uint32_t> release;  ///< values that nothing reads after this step
  std::map<const graph::Graph*, std::unique_ptr<Plan>> bodies;
};

/// The order in which a graph is computed, when each value dies, and its constants on the device. Made once; const
/// methods may be called together.
class Plan {
 public:
  /// \param graph   outlives the plan
  /// \throws Error{kUnsupported} naming every operator without a kernel or a function body
  Plan(const graph::Graph& graph, const graph::Opsets& opsets, at::Device device);

  [[nodiscard]] const graph::Graph& graph() const { return *graph_; }
  [[nodiscard]] const graph::Opsets& opsets() const { return *opsets_; }
  [[nodiscard]] const std::vector<Step>& steps() const { return steps_; }
  [[nodiscard]] std::size_t slots() const { return slots_; }
  [[nodiscard]] const std::vector<std::pair<std::uint32_t, Value>>& constants() const { return constants_; }

 private:
  const graph::Graph* graph_;
  const graph::Opsets* opsets_;
  std::vector<Step> steps_;
  std::size_t slots_ = 0;
  std::vector<std::pair<std::uint32_t, Value>> constants_;
};

/// Version of the domain's operator set. \throws Error{kBadModel} when the model imports none
[[nodiscard]] std::int64_t opset_of(const graph::Opsets& opsets, std::string_view domain);

}  // namespace tempera::engine::aten
