#include "tempera/compress/quantize/channel_scaling.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "tempera/ops/access.h"
#include "tempera/pass/origins.h"
#include "tempera/pass/weights.h"

namespace tempera::compress {
namespace {

using graph::DataType;
using graph::Dims;
using graph::Graph;
using graph::NodeId;
using graph::Tensor;
using graph::ValueId;

bool is_one_of(const graph::Node& node, std::initializer_list<std::string_view> types) {
  return node.domain.empty() && std::find(types.begin(), types.end(), node.op_type) != types.end();
}

// f(x / s) = f(x) / s for positive s of each channel.
bool is_homogeneous(const Graph& graph, NodeId id) {
  const graph::Node& node = graph.node(id);
  if (node.is("Pad")) {
    const std::optional<ops::PadForm> form = ops::pad_form(graph, id);
    return form && (form->mode != "constant" || form->value == 0.0);
  }
  return node.outputs.size() == 1 &&
         is_one_of(node, {"Relu", "LeakyRelu", "PRelu", "Identity", "MaxPool", "AveragePool",
                          "GlobalAveragePool", "GlobalMaxPool", "Resize"});
}

// [N, C, 1, ..] becomes [N, C].
bool drops_single_pixels(const Graph& graph, NodeId id) {
  if (!is_one_of(graph.node(id), {"Reshape", "Flatten", "Squeeze"})) {
    return false;
  }
  const std::optional<Dims> before = ops::dims_of(graph, graph.input(id, 0));
  const std::optional<Dims> after = ops::dims_of(graph, graph.output(id));
  return before && after && before->size() >= 2 && after->size() == 2 && before->at(1) == after->at(1) &&
         std::all_of(before->begin() + 2, before->end(), [](std::int64_t d) { return d == 1; });
}

// Whether factors of the channels along `axis` go through the node from input 0 to the output, or back.
bool lets_factors_through(const Graph& graph, NodeId id, std::int64_t axis) {
  return is_homogeneous(graph, id) || (axis == 1 && drops_single_pixels(graph, id));
}

bool joins_channels(const Graph& graph, NodeId id, std::int64_t axis) {
  const graph::Node& node = graph.node(id);
  const std::int64_t rank = ops::rank_of(graph, graph.output(id)).value_or(0);
  const auto along = graph.attribute<std::int64_t>(id, "axis", 1);
  return node.is("Concat") && rank > 0 && (along < 0 ? along + rank : along) == axis;
}

bool is_norm(const graph::Node& node) {
  return is_one_of(node,
                   {"BatchNormalization", "InstanceNormalization", "LayerNormalization", "RMSNormalization"});
}

// The channel of the layer's output (or input) that each element of its weight belongs to.
std::vector<std::size_t> channels_of_weight(const Graph& graph, const Layer& layer, bool output) {
  const Dims dims = graph.constant(layer.weight)->dims();
  const bool transposed = layer.op_type == "ConvTranspose";
  const std::int64_t axis = output ? layer.channel_axis : layer.reduced_axis;
  const std::int64_t other = output ? layer.reduced_axis : layer.channel_axis;
  const std::int64_t count = graph::element_count(dims);
  std::vector<std::size_t> channels(static_cast<std::size_t>(count));
  std::vector<std::int64_t> strides(dims.size(), 1);
  for (std::size_t i = dims.size() - 1; i-- > 0;) {
    strides[i] = strides[i + 1] * dims[i + 1];
  }
  const auto index = [&](std::int64_t element, std::int64_t along) {
    return element / strides[static_cast<std::size_t>(along)] % dims[static_cast<std::size_t>(along)];
  };
  // A grouped Conv holds [M, C/group], a grouped ConvTranspose [C, M/group]: the short axis counts within the
  // group that the index along the long axis, 0, falls in.
  const bool within_group = layer.group > 1 && (output == transposed);
  const std::int64_t long_size = dims[static_cast<std::size_t>(other)];
  const std::int64_t short_size = dims[static_cast<std::size_t>(axis)];
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t channel = index(i, axis);
    if (within_group) {
      channel += index(i, other) / (long_size / layer.group) * short_size;
    }
    channels[static_cast<std::size_t>(i)] = static_cast<std::size_t>(channel);
  }
  return channels;
}

std::int64_t channel_count(const Graph& graph, const Layer& layer, bool output) {
  const Dims dims = graph.constant(layer.weight)->dims();
  const std::int64_t size = dims[static_cast<std::size_t>(output ? layer.channel_axis : layer.reduced_axis)];
  const bool within_group = layer.group > 1 && (output == (layer.op_type == "ConvTranspose"));
  return within_group ? size * layer.group : size;
}

// Whether the layer's weight is its own: rank 2 for products, read by this node directly and by nothing else.
bool owns_weight(const Graph& graph, const Layer& layer) {
  if (!layer.has_weight() || layer.weight_input != 1 || graph.input(layer.node, 1) != layer.weight ||
      !graph.has_single_use(layer.weight)) {
    return false;
  }
  const Tensor weight = *graph.constant(layer.weight);
  const bool product = layer.op_type == "Gemm" || layer.op_type == "MatMul";
  return weight.type() == DataType::kFloat32 && (!product || weight.rank() == 2) &&
         !(layer.op_type == "Gemm" && graph.attribute<std::int64_t>(layer.node, "transA", 0) != 0);
}

// The axis of channels in what the layer reads.
std::optional<std::int64_t> input_axis(const Graph& graph, const Layer& layer) {
  const std::optional<std::int64_t> rank = ops::rank_of(graph, layer.input);
  if (!rank || *rank < 2) {
    return std::nullopt;
  }
  return layer.op_type == "MatMul" ? *rank - 1 : 1;
}

Tensor scaled(const Tensor& tensor, const std::vector<std::size_t>& channels,
              const std::vector<double>& factors, bool divide, bool& fits) {
  std::vector<double> values = graph::to_doubles(tensor);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = divide ? values[i] / factors[channels[i]] : values[i] * factors[channels[i]];
  }
  const std::optional<Tensor> encoded = pass::encode_weights(tensor.type(), tensor.dims(), values);
  fits = fits && encoded.has_value();
  return encoded.value_or(tensor);
}

// The same for a constant that varies along other axes as well, in its own form.
std::optional<Tensor> divided_map(const Tensor& constant, std::int64_t rank, std::int64_t axis, const std::vector<double>& factors,
                                  bool multiply) {
  const auto channels = static_cast<std::int64_t>(factors.size());
  if (constant.rank() != rank || constant.dims()[static_cast<std::size_t>(axis)] != channels) {
    return std::nullopt;
  }
  std::int64_t stride = 1;
  for (std::int64_t i = axis + 1; i < rank; ++i) {
    stride *= constant.dims()[static_cast<std::size_t>(i)];
  }
  std::vector<double> values = graph::to_doubles(constant);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double factor = factors[static_cast<std::size_t>(static_cast<std::int64_t>(i) / stride % channels)];
    values[i] = multiply ? values[i] * factor : values[i] / factor;
  }
  return pass::encode_weights(DataType::kFloat32, constant.dims(), values);
}

// A constant operand spread over the channels of a value of this rank, divided by the factors (or multiplied,
// of a divisor), in the form [C, 1, ..] that broadcasts along `axis`.
std::optional<Tensor> divided_operand(const Graph& graph, ValueId operand, std::int64_t rank,
                                      std::int64_t axis, const std::vector<double>& factors, bool multiply) {
  const std::optional<Tensor> constant = graph.constant(operand);
  if (!constant || constant->type() != DataType::kFloat32) {
    return std::nullopt;
  }
  const auto channels = static_cast<std::int64_t>(factors.size());
  std::optional<std::vector<double>> values = pass::spread_along(*constant, rank, axis, channels);
  if (!values) {
    return divided_map(*constant, rank, axis, factors, multiply);
  }
  for (std::size_t i = 0; i < factors.size(); ++i) {
    (*values)[i] = multiply ? values->at(i) * factors[i] : values->at(i) / factors[i];
  }
  Dims dims(static_cast<std::size_t>(rank - axis), 1);
  dims.front() = static_cast<std::int64_t>(factors.size());
  return pass::encode_weights(DataType::kFloat32, dims, *values);
}

// One constant to put in the place of a node's input.
struct Replacement {
  NodeId node;
  std::size_t input = 0;
  Tensor tensor;
};

// Walks up from a tensor to what takes the factors up. With factors it also computes the constants that do
// so.
class Divider {
 public:
  Divider(const Graph& graph, const std::map<NodeId, Layer>& layers, std::int64_t axis, std::int64_t channels)
      : graph_(graph),
        layers_(layers),
        axis_(axis),
        channels_(channels),
        factors_(static_cast<std::size_t>(channels), 1.0) {}

  void set_factors(const std::vector<double>& factors) { factors_ = factors; }

  // False when nothing above can take the factors, or a constant leaves the range of its type.
  bool walk(ValueId value) {
    for (;;) {
      const NodeId producer = graph_.producer(value);
      changed_.push_back(value);
      if (!producer.valid() || graph_.is_pinned(value) ||
          ops::element_of(graph_, value) != DataType::kFloat32) {
        return false;
      }
      const graph::Node& node = graph_.node(producer);
      if (const auto layer = layers_.find(producer); layer != layers_.end()) {
        return take_up(layer->second);
      }
      if (is_norm(node)) {
        return take_up_in_norm(producer);
      }
      if (node.is("Mul") || node.is("Div")) {
        return replace_operand(producer, value, node.is("Div")).valid();
      }
      if (node.is("Add") || node.is("Sub")) {
        value = replace_operand(producer, value, false);
        if (!value.valid()) {
          return false;
        }
      } else if (lets_factors_through(graph_, producer, axis_)) {
        value = graph_.input(producer, 0);
      } else {
        return false;
      }
      if (!graph_.has_single_use(value)) {
        return false;
      }
    }
  }

  [[nodiscard]] const std::optional<Layer>& maker() const { return maker_; }
  std::vector<Replacement> take() { return std::move(replacements_); }
  /// The values that hold other numbers afterwards: the tensor and those between it and what takes up the factors.
  [[nodiscard]] const std::vector<ValueId>& changed() const { return changed_; }

 private:
  bool take_up(const Layer& layer) {
    const std::int64_t made_axis =
        layer.op_type == "MatMul" ? ops::rank_of(graph_, graph_.output(layer.node)).value_or(0) - 1 : 1;
    if (!owns_weight(graph_, layer) || made_axis != axis_ ||
        channel_count(graph_, layer, true) != channels_ ||
        (layer.op_type == "Gemm" && graph_.attribute<float>(layer.node, "beta", 1.0F) != 1.0F)) {
      return false;
    }
    bool fits = true;
    replacements_.push_back({layer.node, 1,
                             scaled(*graph_.constant(layer.weight), channels_of_weight(graph_, layer, true),
                                    factors_, true, fits)});
    if (const ValueId bias = graph_.input(layer.node, 2); bias.valid()) {
      const std::optional<Tensor> constant = graph_.constant(bias);
      const std::int64_t rank = constant ? std::max<std::int64_t>(constant->rank(), 1) : 1;
      const std::optional<Tensor> divided = divided_operand(graph_, bias, rank, rank - 1, factors_, false);
      if (!divided) {
        return false;
      }
      replacements_.push_back({layer.node, 2, *divided});
    }
    maker_ = layer;
    return fits;
  }

  bool take_up_in_norm(NodeId id) {
    const bool last = is_one_of(graph_.node(id), {"LayerNormalization", "RMSNormalization"});
    const std::int64_t rank = ops::rank_of(graph_, graph_.output(id)).value_or(0);
    if (axis_ != (last ? rank - 1 : 1) || ops::is_training(graph_, id)) {
      return false;
    }
    for (std::size_t input = 1; input < std::min<std::size_t>(graph_.node(id).inputs.size(), 3); ++input) {
      const ValueId operand = graph_.input(id, input);
      const auto constant = operand.valid() ? graph_.constant(operand) : std::nullopt;
      if (!operand.valid() && input == 2) {
        continue;
      }
      if (!constant || constant->rank() != 1 || constant->size() != channels_) {
        return false;
      }
      const std::optional<Tensor> divided = divided_operand(graph_, operand, 1, 0, factors_, false);
      if (!divided) {
        return false;
      }
      replacements_.push_back({id, input, *divided});
    }
    return true;
  }

  // Divides the constant operand of a two-input node; the other operand, or none when neither is a constant
  // along the axis.
  ValueId replace_operand(NodeId id, ValueId output, bool quotient) {
    const std::optional<std::int64_t> rank = ops::rank_of(graph_, output);
    for (const std::size_t i : {std::size_t{1}, std::size_t{0}}) {
      const ValueId other = graph_.input(id, 1 - i);
      if (!rank || (quotient && i == 0) || ops::rank_of(graph_, other) != rank) {
        continue;
      }
      const graph::Use stored = before_gathers({id, static_cast<std::uint32_t>(i)});
      const ValueId operand = graph_.input(stored.node, stored.input);
      if (const auto divided = divided_operand(graph_, operand, *rank, axis_, factors_, quotient)) {
        replacements_.push_back({stored.node, stored.input, *divided});
        return other;
      }
    }
    return {};
  }

  // Where what an input reads is stored: above the Gathers along other axes that spread it.
  [[nodiscard]] graph::Use before_gathers(graph::Use use) const {
    for (;;) {
      const ValueId value = graph_.input(use.node, use.input);
      const NodeId gather = graph_.producer(value);
      const std::int64_t rank = ops::rank_of(graph_, value).value_or(0);
      if (!gather.valid() || !graph_.node(gather).is("Gather") || !graph_.has_single_use(value)) {
        return use;
      }
      const auto along = graph_.attribute<std::int64_t>(gather, "axis", 0);
      if (ops::rank_of(graph_, graph_.input(gather, 1)) != 1 || (along < 0 ? along + rank : along) == axis_) {
        return use;
      }
      use = {gather, 0};
    }
  }

  const Graph& graph_;
  const std::map<NodeId, Layer>& layers_;
  std::int64_t axis_;
  std::int64_t channels_;
  std::vector<double> factors_;
  std::vector<Replacement> replacements_;
  std::vector<ValueId> changed_;
  std::optional<Layer> maker_;
};

std::map<NodeId, Layer> layers_by_node(const Graph& graph) {
  std::map<NodeId, Layer> layers;
  for (Layer& layer : find_layers(graph)) {
    const NodeId node = layer.node;
    layers.emplace(node, std::move(layer));
  }
  return layers;
}

// The tensors whose channels a layer reads as its own: its input, or the parts of the Concats above it.
std::vector<ValueId> parts_of(const Graph& graph, ValueId input, std::int64_t axis) {
  ValueId value = input;
  NodeId producer = graph.producer(value);
  while (producer.valid() && !joins_channels(graph, producer, axis) && lets_factors_through(graph, producer, axis)) {
    value = graph.input(producer, 0);
    producer = graph.producer(value);
  }
  if (!producer.valid() || !joins_channels(graph, producer, axis)) {
    return {input};
  }
  std::vector<ValueId> parts;
  for (const ValueId part : graph.node(producer).inputs) {
    const std::vector<ValueId> of_part = parts_of(graph, part, axis);
    parts.insert(parts.end(), of_part.begin(), of_part.end());
  }
  return parts;
}

// All layers that read the value, through what lets factors through and Concats. False when something else reads it.
bool find_readers(const Graph& graph, const std::map<NodeId, Layer>& layers, ValueId value, std::int64_t axis, std::int64_t first,
                  std::vector<ChannelReader>& readers) {
  if (graph.is_pinned(value)) {
    return false;
  }
  for (const graph::Use& use : graph.uses(value)) {
    std::int64_t before = 0;  // channels of earlier parts
    if (const auto reader = layers.find(use.node); reader != layers.end()) {
      if (use.input != 0 || !owns_weight(graph, reader->second) || input_axis(graph, reader->second) != axis) {
        return false;
      }
      readers.push_back({reader->second, first});
      continue;
    }
    if (joins_channels(graph, use.node, axis)) {
      for (std::uint32_t i = 0; i < use.input; ++i) {
        const std::optional<std::int64_t> channels = ops::dim_of(graph, graph.input(use.node, i), axis);
        if (!channels) {
          return false;
        }
        before += *channels;
      }
    } else if (use.input != 0 || !lets_factors_through(graph, use.node, axis)) {
      return false;
    }
    if (!find_readers(graph, layers, graph.output(use.node), axis, first + before, readers)) {
      return false;
    }
  }
  return true;
}

// Scaling gives a layer a new weight.
Layer with_weight_of_now(const Graph& graph, Layer layer) {
  layer.weight = graph.input(layer.node, 1);
  return layer;
}

// What the value becomes on its way to its readers holds other numbers, too.
void scale_below(Graph& graph, const std::map<NodeId, Layer>& layers, ValueId value) {
  for (const graph::Use& use : std::vector<graph::Use>(graph.uses(value))) {
    if (!layers.contains(use.node)) {
      pass::no_longer_equal(graph, graph.output(use.node));
      scale_below(graph, layers, graph.output(use.node));
    }
  }
}

// Raises `largest` to the magnitudes of the weights of the layer, which must be those that it has now.
std::vector<double> ranges(const Graph& graph, const Layer& layer, bool output, std::vector<double> largest) {
  const std::vector<std::size_t> channels = channels_of_weight(graph, layer, output);
  const std::vector<double> values = graph::to_doubles(*graph.constant(layer.weight));
  for (std::size_t i = 0; i < values.size(); ++i) {
    largest[channels[i]] = std::max(largest[channels[i]], std::abs(values[i]));
  }
  return largest;
}

}  // namespace

std::vector<ScalableTensor> find_scalable(const graph::Graph& graph) {
  const std::map<NodeId, Layer> layers = layers_by_node(graph);
  std::vector<ScalableTensor> found;
  std::set<ValueId> seen;
  for (const Layer& layer : find_layers(graph)) {
    const std::optional<std::int64_t> axis = layer.has_weight() ? input_axis(graph, layer) : std::nullopt;
    if (!axis) {
      continue;
    }
    for (const ValueId value : parts_of(graph, layer.input, *axis)) {
      if (!seen.insert(value).second) {
        continue;
      }
      ScalableTensor tensor;
      tensor.value = value;
      tensor.axis = *axis;
      const std::optional<std::int64_t> channels = ops::dim_of(graph, value, *axis);
      if (!find_readers(graph, layers, value, *axis, 0, tensor.readers) || tensor.readers.empty()) {
        continue;
      }
      const ChannelReader& first = tensor.readers.front();
      tensor.channels = channels.value_or(channel_count(graph, first.layer, false));
      const bool fit = std::all_of(tensor.readers.begin(), tensor.readers.end(), [&](const ChannelReader& reader) {
        return reader.first + tensor.channels <= channel_count(graph, reader.layer, false);
      });
      Divider divider(graph, layers, tensor.axis, tensor.channels);
      if (fit && divider.walk(tensor.value)) {
        tensor.maker = divider.maker();
        found.push_back(std::move(tensor));
      }
    }
  }
  return found;
}

std::vector<double> maker_ranges(const graph::Graph& graph, const ScalableTensor& tensor) {
  return ranges(graph, with_weight_of_now(graph, tensor.maker.value()), true,
                std::vector<double>(static_cast<std::size_t>(tensor.channels), 0.0));
}

std::vector<double> reader_ranges(const graph::Graph& graph, const ScalableTensor& tensor) {
  std::vector<double> largest(static_cast<std::size_t>(tensor.channels), 0.0);
  for (const ChannelReader& reader : tensor.readers) {
    const Layer now = with_weight_of_now(graph, reader.layer);
    const auto count = static_cast<std::size_t>(channel_count(graph, now, false));
    const std::vector<double> all = ranges(graph, now, false, std::vector<double>(count, 0.0));
    for (std::size_t i = 0; i < largest.size(); ++i) {
      largest[i] = std::max(largest[i], all[static_cast<std::size_t>(reader.first) + i]);
    }
  }
  return largest;
}

bool scale_channels(graph::Graph& graph, const ScalableTensor& tensor, const std::vector<double>& factors) {
  const std::map<NodeId, Layer> layers = layers_by_node(graph);
  Divider divider(graph, layers, tensor.axis, tensor.channels);
  divider.set_factors(factors);
  if (!divider.walk(tensor.value)) {
    return false;
  }
  std::vector<Replacement> replacements = divider.take();
  bool fits = true;
  std::map<NodeId, std::vector<double>> of_readers;  // one factor for each input channel
  for (const ChannelReader& reader : tensor.readers) {
    std::vector<double>& all = of_readers[reader.layer.node];
    all.resize(static_cast<std::size_t>(channel_count(graph, layers.at(reader.layer.node), false)), 1.0);
    std::copy(factors.begin(), factors.end(), all.begin() + reader.first);
  }
  for (const auto& [node, all] : of_readers) {
    const Layer& now = layers.at(node);
    replacements.push_back(
        {now.node, 1, scaled(*graph.constant(now.weight), channels_of_weight(graph, now, false), all, false, fits)});
  }
  if (!fits) {
    return false;
  }
  for (Replacement& replacement : replacements) {
    const ValueId before = graph.input(replacement.node, replacement.input);
    graph.set_input(replacement.node, replacement.input, pass::add_derived(graph, before, std::move(replacement.tensor)));
  }
  for (const ValueId value : divider.changed()) {
    pass::no_longer_equal(graph, value);
  }
  scale_below(graph, layers, tensor.value);
  graph.remove_dead();
  return true;
}

}  // namespace tempera::compress
