#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tempera/base/host.h"
#include "tempera/engine/engine.h"
#include "tempera/graph/tensor_error.h"

namespace tempera::engine {

/// One of the two that are run beside each other. Nothing is owned.
struct Side {
  const graph::Model* model = nullptr;
  const Engine* engine = nullptr;
  CompileOptions options;
};

struct CompareOptions {
  bool tensors = true;  ///< also compare inner tensors
  /// A tensor with a larger relative L2 error in any sample, or with an unequal NaN or infinity, diverges.
  double tolerance = 1e-3;
  /// Inner tensors are asked for in batches of about this many bytes a side; each batch is compiled and run anew.
  std::int64_t batch_bytes = std::int64_t{512} << 20;
};

/// One tensor on both sides.
struct Compared {
  std::string name;    ///< on side a
  std::string name_b;  ///< on side b
  std::string node;    ///< that makes it on side b; empty: an input or initialiser
  std::string op_type;
  std::vector<graph::TensorError> samples;  ///< error of b against a, one a sample
  bool diverges = false;

  [[nodiscard]] std::size_t worst_sample() const;  ///< the one with the largest relative L2 error
  [[nodiscard]] double mean_relative_l2() const;
};

struct CompareReport {
  std::vector<Compared> outputs;  ///< in the order of the graph's outputs, run without extra outputs
  std::vector<Compared> tensors;  ///< in the topological order of side b
  std::optional<std::size_t> first_divergence;  ///< in `tensors`; in `outputs` when inner tensors were not compared
  std::vector<std::string> derived;  ///< tensors of b made from one of a, holding other numbers (Origin::equal false)
  std::vector<std::string> only_a;   ///< node outputs without counterpart
  std::vector<std::string> only_b;

  [[nodiscard]] bool diverges() const;  ///< any output or tensor
};

/// Runs the same inputs through both sides and compares every output, and every tensor of the main graphs that stands for
/// the same tensor of the original model (Value::origin, else the name), by extra outputs added to copies of the graphs.
///
/// Extra outputs keep an engine from fusing across them, so inner tensors are those of a slightly different execution;
/// the outputs' own errors are measured without any. Tensors within bodies are not compared.
///
/// \param samples  each holds the inputs that have no default, in the order of side a's graph; side b takes them by name
/// \throws Error{kInvalidArgument} when inputs or outputs differ in name or number, or there are no samples;
///   Error{kCancelled}; what the engines throw, with the side as a context frame
[[nodiscard]] CompareReport compare(const Side& a, const Side& b, std::span<const std::vector<graph::Tensor>> samples,
                                    const CompareOptions& options, const Host& host);

}  // namespace tempera::engine
