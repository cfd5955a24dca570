#include "tempera/engine/openvino/layer_names.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>
#include <openvino/op/constant.hpp>
#include <openvino/op/parameter.hpp>
#include <openvino/op/util/multi_subgraph_base.hpp>

namespace tempera::engine::openvino {
namespace {

template <typename Map>
const std::size_t* lookup(const Map& map, std::string_view key) {
  const auto found = map.find(key);
  return found == map.end() ? nullptr : &found->second;
}

// Layers of the graph made for one ONNX node, "conv1/WithoutBiases", carry its name before the last slash.
std::string_view without_suffix(std::string_view layer) { return layer.substr(0, layer.rfind('/')); }

}  // namespace

LayerNames::LayerNames(const graph::Graph& graph, const ov::Model& model) {
  add_graph(graph);
  add_model(model);
}

void LayerNames::add_graph(const graph::Graph& graph) {
  for (const graph::NodeId id : graph.nodes()) {
    const graph::Node& node = graph.node(id);
    const std::size_t index = nodes_.size();
    NodeName entry{node.name, node.op_type};
    for (const graph::ValueId output : node.outputs) {
      if (output.valid()) {
        const std::string& name = graph.value(output).name;
        by_output_.emplace(name, index);
        if (entry.name.empty()) {
          entry.name = name;
        }
      }
    }
    by_name_.emplace(entry.name, index);
    nodes_.push_back(std::move(entry));
    for_each_body(node, [this](const std::string&, const graph::Graph& body) { add_graph(body); });
  }
}

const std::size_t* LayerNames::named(const ov::Node& layer) const {
  // An Identity adds its output's name to the layer before it: the first node in order is the one that computes.
  std::optional<std::size_t> best;
  const std::size_t* result = nullptr;
  for (const auto& output : layer.outputs()) {
    for (const std::string& name : output.get_names()) {
      if (const std::size_t* index = lookup(by_output_, name); index != nullptr && (!best || *index < *best)) {
        best = *index;
        result = index;
      }
    }
  }
  if (result != nullptr) {
    return result;
  }
  const std::string& name = layer.get_friendly_name();
  for (const std::string_view candidate : {std::string_view(name), without_suffix(name)}) {
    if (const std::size_t* index = lookup(by_name_, candidate)) {
      return index;
    }
    if (const std::size_t* index = lookup(by_output_, candidate)) {
      return index;
    }
  }
  return nullptr;
}

void LayerNames::add_model(const ov::Model& model) {
  auto layers = model.get_ordered_ops();
  std::reverse(layers.begin(), layers.end());  // a layer's readers come before it
  for (const auto& layer : layers) {
    if (const auto* owner = dynamic_cast<const ov::op::util::MultiSubGraphOp*>(layer.get())) {
      for (std::size_t i = 0; i < owner->get_internal_subgraphs_size(); ++i) {
        add_model(*owner->get_function(static_cast<int>(i)));
      }
    }
    const bool source = ov::is_type<ov::op::v0::Parameter>(layer) || ov::is_type<ov::op::v0::Constant>(layer);
    const std::size_t* index = source ? nullptr : named(*layer);
    if (index == nullptr && !source) {
      for (const auto& output : layer->outputs()) {
        for (const auto& reader : output.get_target_inputs()) {
          index = index == nullptr ? lookup(by_layer_, reader.get_node()->get_friendly_name()) : index;
        }
      }
    }
    if (index != nullptr) {
      by_layer_.emplace(layer->get_friendly_name(), *index);
    }
  }
}

const LayerNames::NodeName* LayerNames::find(std::string_view layer) const {
  for (const auto* map : {&by_layer_, &by_name_, &by_output_}) {
    if (const std::size_t* index = lookup(*map, layer)) {
      return &nodes_[*index];
    }
  }
  return nullptr;
}

std::string LayerNames::describe(std::string_view layer) const {
  const NodeName* node = find(layer);
  return node == nullptr ? std::string{} : fmt::format("node '{}' ({})", node->name, node->op_type);
}

}  // namespace tempera::engine::openvino
