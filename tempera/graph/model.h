#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "tempera/graph/graph.h"

namespace tempera::graph {

/// Version of a domain's operator set; domain "" is ai.onnx.
using Opsets = std::map<std::string, std::int64_t, std::less<>>;

/// A function defined inside the model (ONNX FunctionProto): inputs and outputs are those of `body`.
struct Function {
  std::string domain;
  std::string name;
  std::string overload;
  std::string doc;
  std::vector<std::string> attributes;                        ///< those a caller must give
  std::map<std::string, Attribute, std::less<>> defaults;     ///< those with a default
  Opsets opsets;
  Graph body;
  Metadata metadata;
};

/// A model as read from a file: the main graph with everything around it.
struct Model {
  std::int64_t ir_version = 0;
  std::string producer_name;
  std::string producer_version;
  std::string domain;
  std::int64_t model_version = 0;
  std::string doc;
  Opsets opsets;
  Metadata metadata;
  std::vector<Function> functions;
  Graph graph;
  std::string unmodelled;        ///< serialised ModelProto fields not modelled here, written back as they came
  std::filesystem::path source;  ///< the file it was read from; empty when made in memory

  /// The opset of ai.onnx. \throws Error{kBadModel} when the model names none.
  [[nodiscard]] std::int64_t opset() const;
};

/// Checks what every pass must leave true, in the graph and all bodies: edges, use lists, names unique and not shadowing,
/// topological order, outputs defined. \throws Error{kInternal} naming the first thing broken and where.
void verify(const Graph& graph);

/// Sum of elements and bytes over all initialisers and Constant nodes, bodies included; shared tensors once.
struct WeightSize {
  std::int64_t elements = 0;
  std::int64_t bytes = 0;
};
[[nodiscard]] WeightSize weight_size(const Graph& graph);

}  // namespace tempera::graph
