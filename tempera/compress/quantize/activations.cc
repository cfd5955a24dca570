#include "tempera/compress/quantize/activations.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "tempera/base/error.h"
#include "tempera/compress/quantize/codes.h"
#include "tempera/compress/quantize/layers.h"
#include "tempera/compress/quantize/placement.h"
#include "tempera/numeric/affine.h"
#include "tempera/numeric/convert.h"
#include "tempera/ops/access.h"
#include "tempera/ops/builder.h"
#include "tempera/pass/weights.h"

namespace tempera::compress {
namespace {

using graph::DataType;
using graph::Graph;
using graph::Tensor;
using graph::ValueId;

constexpr float kLargestE4M3 = 448.0F;  // OCP 8-bit Floating Point Specification 1.0, table 1
constexpr std::int64_t kPerAxisOpset = 13;
constexpr std::int64_t kFloat8Opset = 19;  // also the first with float16 and bfloat16 next to codes

bool is_half(DataType type) { return type == DataType::kFloat16 || type == DataType::kBfloat16; }

// Why the layer's activations cannot be quantised; empty when they can.
std::string reason_float(const Graph& graph, const Layer& layer, const LayerFormat& format) {
  for (const ValueId input : {layer.input, layer.second}) {
    const DataType type = input.valid() ? ops::element_of(graph, input) : DataType::kFloat32;
    if (type != DataType::kFloat32 && !is_half(type)) {
      return fmt::format("input '{}' is {}; QuantizeLinear reads float, float16 and bfloat16",
                         graph.value(input).name, numeric::to_string(type));
    }
  }
  if (layer.has_weight() && format.weights == WeightFormat::kFloat) {
    return "its weights stay float, and no engine multiplies 8-bit activations by float weights";
  }
  return "";
}

// The planned layers whose activations are quantised, and those that cannot be.
struct Selection {
  std::vector<Layer> layers;
  std::vector<ActivationFormat> formats;
  std::vector<LayerFormat> plans;
  std::vector<LayerRecord> declined;
};

Selection select(const Graph& graph, const QuantizationPlan& plan) {
  Selection selection;
  for (Layer& layer : find_layers(graph)) {
    const auto found = plan.find(layer.name);
    if (found == plan.end() || found->second.activations == ActivationFormat::kFloat) {
      continue;
    }
    std::string reason = reason_float(graph, layer, found->second);
    if (!reason.empty()) {
      LayerRecord record;
      record.layer = layer.name;
      record.op_type = layer.op_type;
      record.why = std::move(reason);
      selection.declined.push_back(std::move(record));
      continue;
    }
    selection.formats.push_back(found->second.activations);
    selection.plans.push_back(found->second);
    selection.layers.push_back(std::move(layer));
  }
  return selection;
}

struct Range {
  float lo = std::numeric_limits<float>::max();
  float hi = std::numeric_limits<float>::lowest();

  void include(float low, float high) {
    lo = std::min(lo, low);
    hi = std::max(hi, high);
  }
};

Range range_of(const Graph& graph, ValueId id, const Calibration& calibration) {
  Range range;
  const std::string& name = graph.value(id).name;
  if (const std::optional<Tensor> constant = graph.constant(id)) {
    for (const double value : graph::to_doubles(*constant)) {
      range.include(static_cast<float>(value), static_cast<float>(value));
    }
  } else if (const auto found = calibration.ranges.find(name); found != calibration.ranges.end()) {
    range.include(found->second.lo, found->second.hi);
  } else {
    throw Error(ErrorCode::kInvalidArgument, fmt::format("the calibration has no range of tensor '{}'", name),
                "calibrate every tensor that activation_tensors() names");
  }
  if (!std::isfinite(range.lo) || !std::isfinite(range.hi) || range.lo > range.hi) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("the range of tensor '{}' is [{}, {}], expected finite limits in order", name,
                            range.lo, range.hi));
  }
  return range;
}

// Scale and zero point as the file holds them.
struct ActivationCodes {
  float scale = 1.0F;
  std::int32_t zero_point = 0;
  DataType type = DataType::kInt8;
};

ActivationCodes codes_for(Range range, bool symmetric, ActivationFormat format, const QuantizeOptions& options) {
  const float largest = std::max(std::abs(range.lo), std::abs(range.hi));
  if (format == ActivationFormat::kFloat8) {
    const float scale =
        largest == 0.0F ? 1.0F : std::max(largest / kLargestE4M3, std::numeric_limits<float>::min());
    return {scale, 0, DataType::kFloat8E4M3FN};
  }
  numeric::AffineParams params;
  DataType type = DataType::kUint8;
  const bool always_unsigned = options.target == Target::kOnnxruntime && options.zero_points;
  if (options.target != Target::kTensorrt && (!symmetric || always_unsigned || range.lo >= 0.0F)) {
    params = numeric::affine_from_range(range.lo, range.hi, numeric::code_range(type));
  } else {
    type = DataType::kInt8;
    params = numeric::symmetric_from_magnitude(largest, numeric::code_range(type, true));
  }
  return {params.scale, params.zero_point, type};
}

class Writer {
 public:
  Writer(graph::Model& model, const QuantizeOptions& options)
      : graph_(model.graph), opset_(model.opset()), options_(options) {}

  // Puts the pairs in; afterwards scale_of() knows the scale of every decoded value.
  void write_tensors(const Placement& placement, const Calibration& calibration) {
    std::map<std::size_t, Range> ranges;
    std::set<std::size_t> symmetric;
    for (const QuantizedTensor& tensor : placement.tensors) {
      const Range range = range_of(graph_, tensor.value, calibration);
      ranges[tensor.group].include(range.lo, range.hi);
      if (tensor.symmetric) {
        symmetric.insert(tensor.group);
      }
    }
    for (const QuantizedTensor& tensor : placement.tensors) {
      write_pair(tensor, codes_for(ranges[tensor.group], symmetric.contains(tensor.group), tensor.format, options_));
    }
  }

  // Weights of all layers that share a constant get one set of codes, decoded for every reader of the
  // constant.
  void write_weights(const std::vector<Layer>& layers, const std::vector<LayerFormat>& plans,
                     std::vector<LayerRecord>& records) {
    for (std::size_t i = 0; i < layers.size(); ++i) {
      if (layers[i].has_weight() && weight_type(plans[i]) != DataType::kUndefined) {
        weights_[layers[i].weight].push_back(i);
      }
    }
    for (const auto& [weight, readers] : weights_) {
      write_weight(weight, readers, layers, plans, records);
    }
  }

 private:
  static DataType weight_type(const LayerFormat& plan) {
    return plan.weights == WeightFormat::kInt8           ? DataType::kInt8
           : plan.weights == WeightFormat::kFloat8E4M3FN ? DataType::kFloat8E4M3FN
                                                         : DataType::kUndefined;
  }

  ValueId zero_point(const ActivationCodes& codes, ops::Builder& builder) {
    if (codes.type == DataType::kUint8) {
      return builder.constant(Tensor::scalar(static_cast<std::uint8_t>(codes.zero_point)));
    }
    return builder.scalar(codes.zero_point, codes.type);
  }

  void write_pair(const QuantizedTensor& tensor, const ActivationCodes& codes) {
    const graph::Value value = graph_.value(tensor.value);
    ops::Builder builder(graph_, opset_, value.name + "_q8");
    const ValueId scale = builder.scalar(codes.scale, value.type.element);
    const ValueId zero = zero_point(codes, builder);
    const ValueId quantized = builder.node("QuantizeLinear", {tensor.value, scale, zero}, {},
                                           graph::ValueType::tensor(codes.type, value.type.shape));
    const ValueId decoded = builder.node("DequantizeLinear", {quantized, scale, zero}, {}, value.type);
    if (value.origin) {
      graph_.set_origin(decoded, {value.origin->tensor, false});
    }
    for (const graph::Use& use : tensor.readers) {
      graph_.set_input(use.node, use.input, decoded);
    }
    scales_[decoded] = codes.scale;
  }

  // Least scale of each weight channel for which every reader's int32 bias, in units of input scale times
  // weight scale, stays below 2^30. Empty when no reader has such a bias.
  std::vector<float> least_scales(const std::vector<std::size_t>& readers, const std::vector<Layer>& layers,
                                  std::size_t channels) const {
    std::vector<float> least;
    for (const std::size_t i : readers) {
      const std::optional<std::vector<double>> bias = integer_bias(layers[i], channels);
      if (!bias) {
        continue;
      }
      least.resize(channels, 0.0F);
      const double input_scale = scale_of(layers[i]);
      for (std::size_t k = 0; k < bias->size(); ++k) {
        const double wanted = std::abs(bias->at(k)) / (input_scale * 0x1p30);
        least[k % channels] = std::max(least[k % channels], static_cast<float>(wanted));
      }
    }
    return least;
  }

  [[nodiscard]] float scale_of(const Layer& layer) const {
    const auto found = scales_.find(graph_.input(layer.node, 1 - layer.weight_input));
    return found == scales_.end() ? 0.0F : found->second;
  }

  // The bias spread over output channels when the target wants it as int32 and it has a form that allows it.
  // \param channels  scales of the weight: 1, or output channels of a group
  std::optional<std::vector<double>> integer_bias(const Layer& layer, std::size_t channels) const {
    if (options_.target != Target::kOnnxruntime || !layer.bias.valid() || layer.weight_input != 1 ||
        scale_of(layer) == 0.0F) {
      return std::nullopt;
    }
    const std::optional<Tensor> bias = graph_.constant(layer.bias);
    if (!bias || bias->type() != DataType::kFloat32) {
      return std::nullopt;
    }
    if (layer.op_type != "Gemm") {
      return graph::to_doubles(*bias);
    }
    if (graph_.attribute<float>(layer.node, "beta", 1.0F) != 1.0F ||
        graph_.attribute<float>(layer.node, "alpha", 1.0F) != 1.0F) {
      return std::nullopt;
    }
    const auto dims = ops::dims_of(graph_, graph_.output(layer.node));
    const std::int64_t columns = dims ? dims->back() : static_cast<std::int64_t>(channels);
    return channels == 1 && !dims ? std::nullopt : pass::spread_along(*bias, 2, 1, columns);
  }

  void write_weight(ValueId weight, const std::vector<std::size_t>& readers, const std::vector<Layer>& layers,
                    const std::vector<LayerFormat>& plans, std::vector<LayerRecord>& records) {
    const Layer& first = layers[readers.front()];
    const LayerFormat& plan = plans[readers.front()];
    const Tensor constant = *graph_.constant(weight);
    WeightCodesOptions wanted;
    wanted.type = weight_type(plan);
    wanted.seven_bit = options_.seven_bit_weights;
    bool per_axis = plan.granularity.kind != Granularity::Kind::kTensor;
    for (const std::size_t i : readers) {
      per_axis = per_axis && layers[i].channel_axis == first.channel_axis &&
                 !(options_.target == Target::kTensorrt && layers[i].op_type == "ConvTranspose");
    }
    if (per_axis) {
      wanted.channel_axis = first.channel_axis;
    }
    const std::size_t channels =
        per_axis ? static_cast<std::size_t>(constant.dims()[static_cast<std::size_t>(first.channel_axis)])
                 : 1;
    const std::vector<float> least =
        wanted.type == DataType::kInt8 ? least_scales(readers, layers, channels) : std::vector<float>{};
    const WeightCodes codes = quantize_weights(constant, wanted, least);

    const std::string name = graph_.value(weight).name;
    ops::Builder builder(graph_, opset_, name + "_q8");
    const ValueId stored = builder.constant(codes.codes);
    const ValueId scale = builder.constant(codes.scales);
    const ValueId zero = builder.constant(Tensor::allocate(wanted.type, codes.scales.dims()).tensor);
    ops::Builder::Attributes attributes;
    if (per_axis) {
      attributes.emplace("axis", first.channel_axis);
    }
    const graph::Value before = graph_.value(weight);
    const ValueId decoded =
        builder.node("DequantizeLinear", {stored, scale, zero}, std::move(attributes), before.type);
    if (before.origin) {
      graph_.set_origin(decoded, {before.origin->tensor, false});
    }
    for (const graph::Use& use : std::vector<graph::Use>(graph_.uses(weight))) {
      graph_.set_input(use.node, use.input, decoded);
    }
    const auto bytes = static_cast<std::int64_t>(codes.codes.bytes().size() + codes.scales.bytes().size() +
                                                 static_cast<std::size_t>(codes.scales.size()));
    for (const std::size_t i : readers) {
      LayerRecord& record = records[i];
      record.weight_relative_l2 = codes.relative_l2;
      record.bytes_before = static_cast<std::int64_t>(constant.bytes().size());
      record.bytes_after = bytes;
      record.format.granularity.kind = per_axis ? Granularity::Kind::kAxis : Granularity::Kind::kTensor;
      if (plans[i].weights != plan.weights) {
        record.format.weights = plan.weights;
        record.why = fmt::format("it shares weight '{}' with layer '{}'", name, first.name);
      } else if (record.format.granularity.kind != plans[i].granularity.kind) {
        record.why =
            plans[i].granularity.kind == Granularity::Kind::kBlock
                ? "kernels of 8-bit products take one scale for each output channel, not blocks"
                : "one scale for the whole weight: its readers or the target allow no scale for each channel";
      }
      if (wanted.type == DataType::kInt8) {
        write_bias(layers[i], codes.scale_values);
      }
    }
  }

  void write_bias(const Layer& layer, const std::vector<float>& weight_scales) {
    const std::optional<std::vector<double>> bias = integer_bias(layer, weight_scales.size());
    if (!bias) {
      return;
    }
    const auto count = static_cast<std::int64_t>(bias->size());
    std::vector<std::int32_t> codes;
    std::vector<float> scales;
    for (std::size_t k = 0; k < bias->size(); ++k) {
      const float scale = scale_of(layer) * weight_scales[k % weight_scales.size()];
      scales.push_back(std::max(scale, std::numeric_limits<float>::min()));
      codes.push_back(static_cast<std::int32_t>(
          std::clamp(std::nearbyint(bias->at(k) / scales.back()), -0x1p31, 0x1p31 - 1)));
    }
    ops::Builder builder(graph_, opset_, graph_.value(layer.bias).name + "_q32");
    const ValueId stored =
        builder.constant(Tensor::from<std::int32_t>({count}, std::span<const std::int32_t>(codes)));
    const ValueId scale = builder.constant(Tensor::from<float>({count}, std::span<const float>(scales)));
    const ValueId decoded =
        builder.node("DequantizeLinear", {stored, scale}, {{"axis", std::int64_t{0}}},
                     graph::ValueType::tensor(DataType::kFloat32, graph::shape_of({count})));
    graph_.set_input(layer.node, 2, decoded);
  }

  Graph& graph_;
  std::int64_t opset_;
  QuantizeOptions options_;
  std::map<ValueId, float> scales_;                      // of decoded values
  std::map<ValueId, std::vector<std::size_t>> weights_;  // readers among the layers
};

}  // namespace

std::int64_t opset_for_activations(const graph::Model& model, const QuantizationPlan& plan) {
  std::int64_t opset = 0;
  const Selection selection = select(model.graph, plan);
  for (std::size_t i = 0; i < selection.layers.size(); ++i) {
    const bool newer = selection.formats[i] == ActivationFormat::kFloat8 ||
                       is_half(ops::element_of(model.graph, selection.layers[i].input));
    opset = std::max(opset, newer ? kFloat8Opset : kPerAxisOpset);
  }
  return opset;
}

std::vector<LayerRecord> quantize_activations(graph::Model& model, const QuantizationPlan& plan,
                                              const Calibration& calibration,
                                              const QuantizeOptions& options) {
  Graph& graph = model.graph;
  Selection selection = select(graph, plan);
  std::vector<LayerRecord> records;
  for (std::size_t i = 0; i < selection.layers.size(); ++i) {
    LayerRecord record;
    record.layer = selection.layers[i].name;
    record.op_type = selection.layers[i].op_type;
    record.format = selection.plans[i];
    records.push_back(std::move(record));
  }
  Writer writer(model, options);
  writer.write_tensors(place(graph, selection.layers, selection.formats, options), calibration);
  writer.write_weights(selection.layers, selection.plans, records);
  graph.remove_dead();
  graph.sort();
  std::move(selection.declined.begin(), selection.declined.end(), std::back_inserter(records));
  return records;
}

std::vector<std::string> activation_tensors(const graph::Model& model, const QuantizationPlan& plan,
                                            const QuantizeOptions& options) {
  const Selection selection = select(model.graph, plan);
  std::vector<std::string> names;
  for (const QuantizedTensor& tensor :
       place(model.graph, selection.layers, selection.formats, options).tensors) {
    if (!model.graph.constant(tensor.value)) {
      names.push_back(model.graph.value(tensor.value).name);
    }
  }
  return names;
}

std::vector<std::string> activation_tensors_whole_and_alone(const graph::Model& model, const QuantizationPlan& plan,
                                                            const QuantizeOptions& options) {
  std::set<std::string> tensors;
  const auto add = [&](const QuantizationPlan& part) {
    for (std::string& name : activation_tensors(model, part, options)) {
      tensors.insert(std::move(name));
    }
  };
  add(plan);
  for (const auto& entry : plan) {
    add({entry});
  }
  return {tensors.begin(), tensors.end()};
}

std::size_t quantized_inputs(const graph::Model& model, const QuantizationPlan& plan, const QuantizeOptions& options) {
  const Selection selection = select(model.graph, plan);
  std::size_t count = 0;
  for (const QuantizedTensor& tensor : place(model.graph, selection.layers, selection.formats, options).tensors) {
    count += tensor.readers.size();
  }
  return count;
}

}  // namespace tempera::compress
