#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tempera/graph/model.h"

namespace tempera::onnx {

/// One node on its way from one version of its operator to the next.
class Step {
 public:
  using Added = std::vector<std::pair<graph::NodeId, std::int64_t>>;

  /// \param typed  the graph with inferred types under the same value ids
  /// \param added  receives new nodes with the opset they are written for
  Step(graph::Graph& graph, const graph::Graph& typed, graph::NodeId id, std::int64_t version, Added& added)
      : g(graph), id(id), version(version), typed_(typed), added_(added) {}

  graph::Graph& g;
  const graph::NodeId id;
  const std::int64_t version;  ///< the opset being entered

  [[nodiscard]] const graph::Node& node() const { return g.node(id); }
  [[nodiscard]] graph::ValueId input(std::size_t i) const { return g.input(id, i); }
  [[nodiscard]] bool has(std::string_view attribute) const { return g.has_attribute(id, attribute); }

  /// What is known of a value's type, by declaration or inference.
  [[nodiscard]] graph::ValueType type(graph::ValueId value) const;
  [[nodiscard]] std::int64_t rank(graph::ValueId value) const;  ///< \throws Error{kUnsupported} when unknown

  /// A new initialiser whose name derives from the node's.
  graph::ValueId constant(graph::Tensor tensor, std::string_view suffix);
  /// A new node with one output, written for `version`; goes through the later steps, too.
  graph::ValueId add(std::string_view op_type, std::vector<graph::ValueId> inputs, std::string_view suffix,
                     std::map<std::string, graph::Attribute, std::less<>> attributes = {});

  [[noreturn]] void refuse(const std::string& why) const;

 private:
  [[nodiscard]] std::string stem(std::string_view suffix) const;

  const graph::Graph& typed_;
  Added& added_;
};

using StepFunction = void (*)(Step&);

/// How a node enters version `version` of its operator from the one before; null when it is the same in both.
[[nodiscard]] StepFunction raise_step(std::string_view op_type, std::int64_t version);

/// How a node leaves version `version` of its operator for the one before; null when nothing but the schema decides.
[[nodiscard]] StepFunction lower_step(std::string_view op_type, std::int64_t version);

/// Attributes that become an input as they are, both ways.
struct MovedAttribute {
  std::string_view op_type;
  std::int64_t version;  ///< the first in which it is an input
  std::string_view attribute;
  std::size_t input;
};
[[nodiscard]] const std::vector<MovedAttribute>& moved_attributes();
void attribute_to_input(Step& step, std::string_view attribute, std::size_t input);

}  // namespace tempera::onnx
