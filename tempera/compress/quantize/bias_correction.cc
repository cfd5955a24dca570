#include "tempera/compress/quantize/bias_correction.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "tempera/base/error.h"
#include "tempera/compress/calibrate/taps.h"
#include "tempera/compress/quantize/layers.h"
#include "tempera/compress/quantize/placement.h"
#include "tempera/onnx/infer.h"
#include "tempera/onnx/opset.h"
#include "tempera/ops/access.h"
#include "tempera/ops/builder.h"
#include "tempera/pass/weights.h"

namespace tempera::compress {
namespace {

using graph::DataType;
using graph::Graph;
using graph::NodeId;
using graph::Tensor;
using graph::ValueId;

// Builds, inside a copy of the float graph, what a node of the quantised graph computes from float inputs.
class Twins {
 public:
  Twins(Graph& watched, const Graph& quantized, std::int64_t opset)
      : watched_(watched), quantized_(quantized), opset_(opset) {}

  // The quantised node with every input decoded from codes as in its own graph, and float inputs read from
  // the float graph.
  ValueId add(NodeId node) {
    std::vector<ValueId> inputs;
    for (const ValueId input : quantized_.node(node).inputs) {
      inputs.push_back(copy(input));
    }
    return copy_node(node, std::move(inputs));
  }

  [[nodiscard]] bool is_decoded(ValueId id) const {
    const NodeId producer = quantized_.producer(id);
    if (!producer.valid()) {
      return false;
    }
    const graph::Node& node = quantized_.node(producer);
    if (node.is("DequantizeLinear") || is_unpacked(producer)) {
      return true;
    }
    if (node.is("Concat")) {
      return std::any_of(node.inputs.begin(), node.inputs.end(),
                         [&](ValueId input) { return is_decoded(input); });
    }
    return only_moves_values(quantized_, producer) && is_decoded(node.inputs.front());
  }

 private:
  // Whether a node computes with constants alone: weights in formats that ONNX lacks are unpacked so.
  [[nodiscard]] bool is_unpacked(NodeId id) const {
    const std::vector<ValueId>& inputs = quantized_.node(id).inputs;
    return !inputs.empty() && std::all_of(inputs.begin(), inputs.end(), [&](ValueId input) {
      return !input.valid() || quantized_.constant(input) ||
             (quantized_.producer(input).valid() && is_unpacked(quantized_.producer(input)));
    });
  }

  ValueId copy(ValueId id) {
    if (!id.valid()) {
      return id;
    }
    const auto [place, fresh] = copies_.emplace(id, ValueId{});
    if (fresh) {
      const ValueId made = make(id);
      copies_[id] = made;
      return made;
    }
    return place->second;
  }

  ValueId make(ValueId id) {
    if (const std::optional<Tensor> constant = quantized_.constant(id)) {
      return watched_.add_initializer(quantized_.value(id).name + "_twin", *constant);
    }
    const NodeId producer = quantized_.producer(id);
    const bool coder = producer.valid() && quantized_.node(producer).is("QuantizeLinear");
    if (!coder && !is_decoded(id)) {
      const std::string& name = quantized_.value(id).name;
      const std::optional<ValueId> source = watched_.find_value(name);
      TEMPERA_CHECK(source.has_value(),
                    "the float model has no tensor '" + name + "' that the quantised one reads");
      return *source;
    }
    std::vector<ValueId> inputs;
    for (const ValueId input : quantized_.node(producer).inputs) {
      inputs.push_back(copy(input));
    }
    return copy_node(producer, std::move(inputs));
  }

  ValueId copy_node(NodeId id, std::vector<ValueId> inputs) {
    const graph::Node& node = quantized_.node(id);
    ops::Builder builder(watched_, opset_, quantized_.value(quantized_.output(id)).name + "_twin");
    return builder.node(node.op_type, std::move(inputs), node.attributes);
  }

  Graph& watched_;
  const Graph& quantized_;
  std::int64_t opset_;
  std::map<ValueId, ValueId> copies_;
};

// The axis of output channels in the layer's output, where biases are added; nothing when the weight is the
// left factor.
std::optional<std::int64_t> output_channels(const Graph& graph, const Layer& layer) {
  const std::optional<std::int64_t> rank = ops::rank_of(graph, graph.output(layer.node));
  if (!rank || *rank < 2 || !layer.has_weight() || layer.weight_input != 1 ||
      ops::element_of(graph, graph.output(layer.node)) != DataType::kFloat32) {
    return std::nullopt;
  }
  return layer.op_type == "MatMul" ? *rank - 1 : 1;
}

// What to tap: the layer and the name of its mean error.
struct Watch {
  std::string layer;
  std::string output;
  std::string mean;
};

std::vector<Watch> add_twins(graph::Model& watched, const graph::Model& quantized) {
  Twins twins(watched.graph, quantized.graph, watched.opset());
  std::vector<Watch> watches;
  for (const Layer& layer : find_layers(watched.graph)) {
    const ValueId output = watched.graph.output(layer.node);
    const std::string name = watched.graph.value(output).name;
    const std::optional<std::int64_t> axis = output_channels(watched.graph, layer);
    const std::optional<ValueId> counterpart = quantized.graph.find_value(name);
    const NodeId node = counterpart ? quantized.graph.producer(*counterpart) : NodeId{};
    if (!axis || !node.valid() || quantized.graph.node(node).op_type != layer.op_type ||
        !(twins.is_decoded(quantized.graph.input(node, 0)) ||
          twins.is_decoded(quantized.graph.input(node, 1)))) {
      continue;
    }
    graph::Dims others;
    for (std::int64_t i = 0; i < *ops::rank_of(watched.graph, output); ++i) {
      if (i != *axis) {
        others.push_back(i);
      }
    }
    ops::Builder builder(watched.graph, watched.opset(), name + "_error");
    const ValueId error = builder.node("Sub", {output, twins.add(node)});
    const ValueId mean = builder.reduce("ReduceMean", error, others, false);
    watches.push_back({layer.name, name, watched.graph.value(mean).name});
  }
  watched.graph.sort();
  return watches;
}

// bias + shift as a float constant of one element for each channel; nothing when the bias has another form.
std::optional<Tensor> shifted(const std::optional<Tensor>& bias, const std::vector<double>& shift) {
  const auto channels = static_cast<std::int64_t>(shift.size());
  std::vector<double> values = shift;
  if (bias) {
    const std::optional<std::vector<double>> spread =
        bias->type() == DataType::kFloat32
            ? pass::spread_along(*bias, std::max<std::int64_t>(bias->rank(), 1),
                                 std::max<std::int64_t>(bias->rank(), 1) - 1, channels)
            : std::nullopt;
    if (!spread) {
      return std::nullopt;
    }
    std::transform(values.begin(), values.end(), spread->begin(), values.begin(), std::plus<>());
  }
  return pass::encode_weights(DataType::kFloat32, {channels}, values);
}

// An int32 bias b ~ s q: its codes moved by shift / s.
bool shift_codes(Graph& graph, NodeId decoder, const std::vector<double>& shift) {
  const std::optional<Tensor> codes = graph.constant(graph.input(decoder, 0));
  const std::optional<Tensor> scales = graph.constant(graph.input(decoder, 1));
  if (!codes || !scales || codes->type() != DataType::kInt32 ||
      codes->size() != static_cast<std::int64_t>(shift.size()) || scales->size() != codes->size()) {
    return false;
  }
  const std::vector<double> scale = graph::to_doubles(*scales);
  std::vector<std::int32_t> moved;
  for (std::size_t i = 0; i < shift.size(); ++i) {
    const double code =
        static_cast<double>(codes->values<std::int32_t>()[i]) + std::nearbyint(shift[i] / scale[i]);
    moved.push_back(static_cast<std::int32_t>(std::clamp(code, -0x1p31, 0x1p31 - 1)));
  }
  const ValueId fresh =
      graph.add_initializer(graph.value(graph.input(decoder, 0)).name,
                            Tensor::from<std::int32_t>(codes->dims(), std::span<const std::int32_t>(moved)));
  graph.set_input(decoder, 0, fresh);
  return true;
}

// Replaces input `input` of a node by its constant plus the shift, or gives it one when it is left out.
bool shift_constant(Graph& graph, NodeId node, std::size_t input, const std::vector<double>& shift) {
  const ValueId bias = graph.input(node, input);
  const std::optional<Tensor> constant = bias.valid() ? graph.constant(bias) : std::nullopt;
  if (bias.valid() && !constant) {
    const NodeId producer = graph.producer(bias);
    return producer.valid() && graph.node(producer).is("DequantizeLinear") && graph.has_single_use(bias) &&
           shift_codes(graph, producer, shift);
  }
  const std::optional<Tensor> moved = shifted(constant, shift);
  if (!moved) {
    return false;
  }
  const std::string name =
      bias.valid() ? graph.value(bias).name : graph.value(graph.output(node)).name + "_bias";
  std::vector<ValueId> inputs = graph.node(node).inputs;
  inputs.resize(std::max(inputs.size(), input + 1));
  inputs[input] = graph.add_initializer(name, *moved);
  graph.set_inputs(node, std::move(inputs));
  return true;
}

// The input of an Add through which a MatMul's output alone goes, and which adds a constant to its last axis; Reshapes that
// keep that axis may lie between.
std::optional<graph::Use> added_bias(const Graph& graph, NodeId matmul) {
  const auto channels = [&](ValueId id) -> std::int64_t {
    const std::optional<graph::Dims> dims = ops::dims_of(graph, id);
    return dims && !dims->empty() ? dims->back() : -1;
  };
  ValueId output = graph.output(matmul);
  const std::int64_t last = channels(output);
  while (graph.has_single_use(output)) {
    const graph::Use use = graph.uses(output).front();
    const graph::Node& reader = graph.node(use.node);
    if (reader.is("Add")) {
      const graph::Use bias{use.node, 1 - use.input};
      return graph.constant(graph.input(bias.node, bias.input)) ? std::optional(bias) : std::nullopt;
    }
    if (!reader.is("Reshape") || use.input != 0 || last < 0 || channels(graph.output(use.node)) != last) {
      return std::nullopt;
    }
    output = graph.output(use.node);
  }
  return std::nullopt;
}

bool correct(Graph& graph, NodeId node, const std::vector<double>& shift) {
  const graph::Node& layer = graph.node(node);
  if (layer.is("MatMul")) {
    const std::optional<graph::Use> bias = added_bias(graph, node);
    return bias && shift_constant(graph, bias->node, bias->input, shift);
  }
  if (layer.is("Gemm") && graph.attribute<float>(node, "beta", 1.0F) != 1.0F) {
    return false;
  }
  return shift_constant(graph, node, 2, shift);
}

}  // namespace

std::vector<BiasError> measure_bias_errors(const graph::Model& original, const graph::Model& quantized,
                                           const data::Dataset& dataset,
                                           const std::vector<std::size_t>& samples,
                                           const engine::Engine& engine,
                                           const engine::CompileOptions& options, const Host& host) {
  if (samples.empty()) {
    throw Error(ErrorCode::kInvalidArgument, "no samples were given to measure mean errors on");
  }
  graph::Model watched =
      original.opset() < quantized.opset() ? onnx::convert_opset(original, quantized.opset()) : original;
  onnx::infer_types(watched, options.input_shapes);
  const std::vector<Watch> watches = add_twins(watched, quantized);
  std::vector<BiasError> errors;
  std::vector<std::string> tensors;
  for (const Watch& watch : watches) {
    errors.push_back({watch.layer, watch.output, {}});
    tensors.push_back(watch.mean);
  }
  if (errors.empty()) {
    return errors;
  }
  onnx::infer_types(watched, options.input_shapes);
  TapSession session(engine, watched, tensors, options);
  for (const std::size_t index : samples) {
    host.cancel.throw_if_cancelled();
    const std::vector<data::Sample> one = {dataset.load(index)};
    session.run(one, [&](const TappedSample& tapped) {
      for (std::size_t i = 0; i < errors.size(); ++i) {
        std::vector<double>& sum = errors[i].missing;
        sum.resize(tapped.values[i].size(), 0.0);
        std::transform(sum.begin(), sum.end(), tapped.values[i].begin(), sum.begin(), std::plus<>());
      }
    });
  }
  for (BiasError& error : errors) {
    for (double& value : error.missing) {
      value /= static_cast<double>(samples.size());
    }
  }
  return errors;
}

std::size_t correct_biases(graph::Model& quantized, const std::vector<BiasError>& errors) {
  Graph& graph = quantized.graph;
  std::size_t corrected = 0;
  for (const BiasError& error : errors) {
    const std::optional<ValueId> output = graph.find_value(error.output);
    if (!output || !graph.producer(*output).valid()) {
      throw Error(ErrorCode::kInvalidArgument,
                  "the quantised model has no layer that makes '" + error.output + "'");
    }
    corrected += correct(graph, graph.producer(*output), error.missing) ? 1 : 0;
  }
  graph.remove_dead();
  return corrected;
}

}  // namespace tempera::compress
