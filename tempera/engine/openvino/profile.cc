#include "tempera/engine/openvino/profile.h"

#include <algorithm>
#include <map>
#include <sstream>
#include <string>
#include <utility>

namespace tempera::engine::openvino {
namespace {

std::string text_info(const ov::Node& layer, const char* key) {
  const auto& info = layer.get_rt_info();
  const auto found = info.find(key);
  return found == info.end() ? std::string{} : found->second.as<std::string>();
}

// Nodes of the graph that a layer computes, in OpenVINO's order and each once; names may hold commas, which OpenVINO also
// puts between them, so the longest run of pieces that is a known name wins.
std::vector<std::string> nodes_in(const std::string& originals, const LayerNames& names) {
  std::vector<std::string> pieces;
  std::istringstream stream(originals);
  for (std::string piece; std::getline(stream, piece, ',');) {
    pieces.push_back(piece);
  }
  std::vector<std::string> nodes;
  for (std::size_t begin = 0; begin < pieces.size();) {
    std::size_t next = begin + 1;
    std::string joined = pieces[begin];
    const auto* node = names.find(joined);
    for (std::size_t end = begin + 1; node == nullptr && end < pieces.size(); ++end) {
      joined += "," + pieces[end];
      node = names.find(joined);
      next = node != nullptr ? end + 1 : next;
    }
    if (node != nullptr && std::find(nodes.begin(), nodes.end(), node->name) == nodes.end()) {
      nodes.push_back(node->name);
    }
    begin = next;
  }
  return nodes;
}

}  // namespace

std::vector<NodeTime> node_times(const std::vector<ov::ProfilingInfo>& layers, const ov::Model& runtime,
                                 const LayerNames& names) {
  std::map<std::string, const ov::Node*> running;
  const auto ops = runtime.get_ops();
  for (const auto& layer : ops) {
    running.emplace(layer->get_friendly_name(), layer.get());
  }
  std::vector<NodeTime> times;
  for (const ov::ProfilingInfo& layer : layers) {
    if (layer.status != ov::ProfilingInfo::Status::EXECUTED) {
      continue;
    }
    NodeTime time;
    time.op_type = layer.node_type;
    time.kernel = layer.exec_type;
    time.time_us = static_cast<double>(layer.real_time.count());
    const auto found = running.find(layer.node_name);
    std::vector<std::string> nodes =
        found == running.end() ? std::vector<std::string>{} : nodes_in(text_info(*found->second, "originalLayersNames"), names);
    const bool inserted = found != running.end() && text_info(*found->second, "originalLayersNames").empty();
    if (const auto* node = inserted ? nullptr : names.find(layer.node_name)) {
      std::erase(nodes, node->name);
      nodes.insert(nodes.begin(), node->name);  // the layer is named after its main node
    }
    time.from_model = !nodes.empty();
    time.node = nodes.empty() ? layer.node_name : nodes.front();
    if (nodes.size() > 1) {
      time.fused.assign(nodes.begin() + 1, nodes.end());
    }
    times.push_back(std::move(time));
  }
  std::stable_sort(times.begin(), times.end(), [](const NodeTime& a, const NodeTime& b) { return a.time_us > b.time_us; });
  return times;
}

}  // namespace tempera::engine::openvino
