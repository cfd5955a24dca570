#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "tempera/engine/engine.h"
#include "tempera/engine/evaluator.h"

namespace tempera::engine {

/// Sees each value that a node of the main graph makes, by name, at the moment it is made. Sequences are left out.
using Observer = std::function<void(std::string_view name, const graph::Tensor& tensor)>;

/// A session of the torch engine: also shows inner values.
class TorchSession : public Session {
 public:
  /// Replaces the observer of the runs to come; empty: none.
  virtual void set_observer(Observer observer) = 0;

  /// Seed of random operators without one of their own. Each run starts from it.
  virtual void set_seed(std::uint64_t seed) = 0;
};

/// The reference engine: interprets the graph on ATen, one kernel an operator, each operator as the ONNX standard says.
/// Computes in the graph's own types (Precision::kFloat32 means: as they are). Devices "cpu" and, where CUDA is there,
/// "cuda:N".
class TorchEngine : public Engine {
 public:
  [[nodiscard]] virtual std::unique_ptr<TorchSession> compile_torch(const graph::Model& model,
                                                                    const CompileOptions& options) const = 0;
};

[[nodiscard]] std::unique_ptr<TorchEngine> make_torch_engine();

/// The torch engine's Evaluator, on the CPU.
[[nodiscard]] std::unique_ptr<Evaluator> make_torch_evaluator();

}  // namespace tempera::engine
