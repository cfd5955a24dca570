#include "tempera/compress/quantize/placement.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "tempera/ops/access.h"

namespace tempera::compress {
namespace {

using graph::Graph;
using graph::NodeId;
using graph::Use;
using graph::ValueId;

class Placer {
 public:
  explicit Placer(const Graph& graph) : graph_(graph) {}

  void add(const Use& use, ActivationFormat format, bool symmetric = false) {
    Readers& readers = tensors_[{graph_.input(use.node, use.input), format}];
    readers.uses.insert(use);
    readers.symmetric = readers.symmetric || symmetric;
  }

  // Every reader of a value, so that its producer writes codes alone.
  void add_all_readers(ValueId value, ActivationFormat format) {
    for (const Use& use : graph_.uses(value)) {
      add(use, format);
    }
  }

  void move_up() {
    for (bool moved = true; moved;) {
      moved = false;
      for (const auto& [key, readers] : tensors_) {
        if (can_move(key.first, readers.uses)) {
          move(key);
          moved = true;
          break;  // the map has changed
        }
      }
    }
  }

  // Codes for the parts of each Concat that reads one of `written`, or another such Concat.
  void join_codes(const std::set<ValueId>& written, ActivationFormat format) {
    std::set<ValueId> joined;
    for (const NodeId id : graph_.nodes()) {
      const graph::Node& node = graph_.node(id);
      if (!node.is("Concat") || std::none_of(node.inputs.begin(), node.inputs.end(), [&](ValueId part) {
            return written.contains(part) || joined.contains(part);
          })) {
        continue;
      }
      const ValueId whole = graph_.output(id);
      joined.insert(whole);
      for (std::uint32_t i = 0; i < node.inputs.size(); ++i) {
        join(whole, node.inputs[i]);
        if (!joined.contains(node.inputs[i])) {
          add({id, i}, format);
        }
      }
    }
  }

  Placement take() {
    Placement placement;
    std::map<ValueId, std::size_t> groups;
    for (auto& [key, readers] : tensors_) {
      const std::size_t group = groups.emplace(leader(key.first), groups.size()).first->second;
      placement.tensors.push_back(
          {key.first, key.second, group, readers.symmetric, {readers.uses.begin(), readers.uses.end()}});
    }
    return placement;
  }

 private:
  using Key = std::pair<ValueId, ActivationFormat>;
  struct Readers {
    std::set<Use> uses;
    bool symmetric = false;
  };

  [[nodiscard]] bool can_move(ValueId value, const std::set<Use>& readers) const {
    const NodeId producer = graph_.producer(value);
    if (!producer.valid() || graph_.is_pinned(value) || readers.size() != graph_.uses(value).size()) {
      return false;
    }
    if (graph_.node(producer).is("MaxPool") && is_moved_input(graph_.input(producer, 0))) {
      return false;  // an input comes in floats in any case, and behind the pool there are fewer to quantise
    }
    return only_moves_values(graph_, producer) || graph_.node(producer).is("Concat");
  }

  // A graph input, as it is or with its values moved.
  [[nodiscard]] bool is_moved_input(ValueId value) const {
    while (!graph_.value(value).is_input) {
      const NodeId producer = graph_.producer(value);
      if (!producer.valid() || !only_moves_values(graph_, producer)) {
        return false;
      }
      value = graph_.input(producer, 0);
    }
    return true;
  }

  void move(Key key) {
    const NodeId producer = graph_.producer(key.first);
    const bool symmetric = tensors_.at(key).symmetric;
    tensors_.erase(key);
    const bool concat = graph_.node(producer).is("Concat");
    const std::size_t count = concat ? graph_.node(producer).inputs.size() : 1;
    for (std::size_t i = 0; i < count; ++i) {
      add({producer, static_cast<std::uint32_t>(i)}, key.second, symmetric);
      join(key.first, graph_.input(producer, i));
    }
  }

  // Union-find over values that share a scale.
  [[nodiscard]] ValueId leader(ValueId id) const {
    for (auto found = parent_.find(id); found != parent_.end(); found = parent_.find(id)) {
      id = found->second;
    }
    return id;
  }
  void join(ValueId a, ValueId b) {
    const ValueId first = leader(a);
    const ValueId second = leader(b);
    if (first != second) {
      parent_[second] = first;
    }
  }

  const Graph& graph_;
  std::map<Key, Readers> tensors_;
  std::map<ValueId, ValueId> parent_;
};

// Where the result of a layer is complete: after the Relu or Clip that alone reads it.
ValueId after_activation(const Graph& graph, ValueId output) {
  if (graph.has_single_use(output)) {
    const NodeId reader = graph.uses(output).front().node;
    if (graph.node(reader).is("Relu") || graph.node(reader).is("Clip")) {
      return graph.output(reader);
    }
  }
  return output;
}

// The Add that alone reads a convolution's output and sums it with another activation.
std::optional<Use> fusible_add(const Graph& graph, const Layer& layer) {
  const ValueId output = graph.output(layer.node);
  if (layer.op_type.substr(0, 4) != "Conv" || !graph.has_single_use(output)) {
    return std::nullopt;
  }
  const Use use = graph.uses(output).front();
  const bool residual =
      graph.node(use.node).is("Add") && !graph.constant(graph.input(use.node, 1 - use.input));
  return residual ? std::optional(use) : std::nullopt;
}

}  // namespace

// Whether each element of the output is an element of input 0, or zero: quantising before comes to the same
// as after.
bool only_moves_values(const Graph& graph, NodeId id) {
  static constexpr std::string_view kMoves[] = {
      "Identity", "Reshape", "Transpose", "Flatten",      "Squeeze",      "Unsqueeze",    "Slice",
      "MaxPool",  "Expand",  "Tile",      "DepthToSpace", "SpaceToDepth", "GlobalMaxPool"};
  const graph::Node& node = graph.node(id);
  if (!node.domain.empty() || node.outputs.size() != 1) {
    return false;
  }
  if (node.op_type == "Pad") {
    const std::optional<ops::PadForm> form = ops::pad_form(graph, id);
    return form && (form->mode != "constant" || form->value == 0.0);
  }
  if (node.op_type == "Resize" || node.op_type == "Upsample") {
    return graph.attribute<std::string>(id, "mode", "nearest") == "nearest" &&
           graph.attribute<std::string>(id, "coordinate_transformation_mode", "half_pixel") !=
               "tf_crop_and_resize";
  }
  return std::find(std::begin(kMoves), std::end(kMoves), node.op_type) != std::end(kMoves);
}

std::string reason_to_stay_float(const Graph& graph, const Layer& layer, Target target) {
  if (layer.op_type == "Conv" && layer.group > 1 && layer.has_weight() &&
      graph.constant(layer.weight)->dims()[static_cast<std::size_t>(layer.reduced_axis)] == 1) {
    return "a depthwise convolution: one scale for all its channels costs more than 8 bits save";
  }
  if (layer.op_type == "ConvTranspose" && layer.group > 1 && target == Target::kOpenvino) {
    return "OpenVINO computes a grouped ConvTranspose in float whatever it reads";
  }
  return "";
}

Placement place(const Graph& graph, const std::vector<Layer>& layers,
                const std::vector<ActivationFormat>& formats, const QuantizeOptions& options) {
  const Target target = options.target;
  Placer placer(graph);
  std::set<ValueId> written;  // by planned layers, in int8
  std::map<NodeId, std::uint32_t> fused;  // Add -> its operand that a planned convolution computes last
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const Layer& layer = layers[i];
    const bool symmetric = !options.zero_points || !layer.has_weight() || layer.op_type == "ConvTranspose";
    for (std::uint32_t input = 0; input < 2; ++input) {
      if (!layer.has_weight() || input != layer.weight_input) {
        placer.add({layer.node, input}, formats[i], symmetric);
      }
    }
    const ValueId output = graph.output(layer.node);
    if (formats[i] == ActivationFormat::kInt8) {
      written.insert(after_activation(graph, output));
    }
    if (target == Target::kOnnxruntime && !graph.is_pinned(after_activation(graph, output))) {
      placer.add_all_readers(after_activation(graph, output), formats[i]);
    }
    const std::optional<Use> add = target == Target::kTensorrt ? fusible_add(graph, layer) : std::nullopt;
    if (add) {
      fused[add->node] = add->input;
    }
  }
  for (const auto& [add, operand] : fused) {
    placer.add({add, 1 - operand}, ActivationFormat::kInt8);
  }
  if (options.join_codes) {
    placer.join_codes(written, ActivationFormat::kInt8);
  }
  if (target != Target::kOnnxruntime) {
    placer.move_up();
  }
  return placer.take();
}

}  // namespace tempera::compress
