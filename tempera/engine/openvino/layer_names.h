#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <openvino/core/model.hpp>

#include "tempera/graph/graph.h"

namespace tempera::engine::openvino {

/// Which node of our graph each layer of an OpenVINO model comes from.
///
/// OpenVINO's reader names a layer after its node, or after the node's output when that is a graph output or the node has
/// no name; layers in the midst of a decomposed operator get numbers. Those belong to the node whose output they end in.
class LayerNames {
 public:
  struct NodeName {
    std::string name;  ///< the node's name; the name of its first output when it has none
    std::string op_type;
  };

  LayerNames() = default;
  LayerNames(const graph::Graph& graph, const ov::Model& model);
  /// By names alone: layers within decomposed operators are not found.
  explicit LayerNames(const graph::Graph& graph) { add_graph(graph); }

  /// Null when the layer comes from no node (constants, inputs, what OpenVINO inserted).
  [[nodiscard]] const NodeName* find(std::string_view layer) const;

  /// "node 'conv1' (Conv)", or empty.
  [[nodiscard]] std::string describe(std::string_view layer) const;

 private:
  void add_graph(const graph::Graph& graph);
  void add_model(const ov::Model& model);
  [[nodiscard]] const std::size_t* named(const ov::Node& layer) const;

  std::vector<NodeName> nodes_;
  std::map<std::string, std::size_t, std::less<>> by_output_;
  std::map<std::string, std::size_t, std::less<>> by_name_;
  std::map<std::string, std::size_t, std::less<>> by_layer_;
};

}  // namespace tempera::engine::openvino
