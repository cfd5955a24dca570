#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "tempera/engine/torch/plan.h"

namespace tempera::engine::aten {

struct InterpreterOptions {
  at::Device device = at::kCPU;
  std::uint64_t seed = 0;  ///< of random operators without a seed of their own; each run starts from it
  /// Sees each value that a node of the main graph makes, at once.
  std::function<void(graph::ValueId id, const Value& value)> on_value;
  /// Sees how long each node of the main graph took, in microseconds.
  std::function<void(const Step& step, double time_us)> on_time;
};

/// Computes a graph node by node in ATen; a value is freed after its last use.
///
/// Records gradients when the caller's thread does: it sets no guard. One run at a time.
class Interpreter {
 public:
  /// \param graph,opsets  outlive the interpreter
  /// \throws Error{kUnsupported, kBadModel} naming a node that cannot be planned
  Interpreter(const graph::Graph& graph, const graph::Opsets& opsets, InterpreterOptions options = {});
  ~Interpreter();
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  /// \param inputs  one for each input of the graph; an empty value leaves an input to its default
  /// \return one for each output of the graph
  /// \throws Error with the failing node as context
  [[nodiscard]] std::vector<Value> run(std::span<const Value> inputs);

  /// What an initialiser holds in the runs to come (a weight being trained).
  void set_constant(graph::ValueId id, Value value);

  [[nodiscard]] InterpreterOptions& options();

 private:
  class Machine;
  std::unique_ptr<Machine> machine_;
};

/// Computes one node whose bodies capture nothing.
[[nodiscard]] std::vector<Value> run_node(const graph::Node& node, std::int64_t opset, std::span<const Value> inputs,
                                          RunState& state);

}  // namespace tempera::engine::aten
