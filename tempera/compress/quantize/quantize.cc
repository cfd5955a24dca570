#include "tempera/compress/quantize/quantize.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "tempera/base/error.h"
#include "tempera/compress/quantize/activations.h"
#include "tempera/compress/quantize/layers.h"
#include "tempera/compress/quantize/weights.h"
#include "tempera/onnx/infer.h"
#include "tempera/onnx/opset.h"

namespace tempera::compress {
namespace {

void require_known(const QuantizationPlan& plan, const std::vector<Layer>& layers) {
  std::vector<std::string> names;
  for (const Layer& layer : layers) {
    names.push_back(layer.name);
  }
  for (const auto& [name, format] : plan) {
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      throw Error(ErrorCode::kInvalidArgument, unknown_name("layer", name, names));
    }
  }
}

LayerFormat planned(const QuantizationPlan& plan, const Layer& layer) {
  const auto found = plan.find(layer.name);
  return found == plan.end() ? LayerFormat{} : found->second;
}

bool has_activations(const QuantizationPlan& plan) {
  return std::any_of(plan.begin(), plan.end(),
                     [](const auto& entry) { return entry.second.activations != ActivationFormat::kFloat; });
}

// quantize_activations() stores the weights of these itself.
bool is_stored_with_activations(const LayerFormat& format) {
  return format.activations != ActivationFormat::kFloat &&
         (format.weights == WeightFormat::kInt8 || format.weights == WeightFormat::kFloat8E4M3FN);
}

std::int64_t opset_for_plan(const graph::Model& model, const QuantizationPlan& plan, const QuantizeOptions& options) {
  std::int64_t opset = opset_for_activations(model, plan);
  for (const Layer& layer : find_layers(model.graph)) {
    const LayerFormat format = planned(plan, layer);
    if (!is_stored_with_activations(format)) {
      opset = std::max(opset, opset_for(model.graph, layer, format, options));
    }
  }
  return opset;
}

// The model at an opset that has the types the plan stores. Where a node stands in the way, the weights are packed.
graph::Model raised(const graph::Model& model, const QuantizationPlan& plan, QuantizeOptions& options,
                    std::string& refused) {
  graph::Model typed = model;
  onnx::infer_types(typed);
  const std::int64_t wanted = opset_for_plan(typed, plan, options);
  if (wanted <= model.opset()) {
    return typed;
  }
  try {
    typed = onnx::convert_opset(model, wanted);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUnsupported || options.older_readers) {
      throw;
    }
    refused = fmt::format("packed, since the model cannot be raised to opset {}: {}", wanted, error.what());
    options.older_readers = true;
    return raised(model, plan, options, refused);
  }
  onnx::infer_types(typed);
  return typed;
}

// The layers of one model in the graph's order, each stored as planned.
class PlanWriter {
 public:
  PlanWriter(graph::Model& model, const QuantizationPlan& plan, const QuantizeOptions& options)
      : graph_(model.graph), layers_(find_layers(model.graph)), plan_(plan), options_(options), writer_(model, options) {
    require_known(plan, layers_);
    for (const Layer& layer : layers_) {
      const auto weight = layer.has_weight() ? graph_.constant(layer.weight) : std::nullopt;
      bytes_.push_back(weight ? static_cast<std::int64_t>(weight->bytes().size()) : 0);
    }
  }

  /// \param done     what quantize_activations() has done with some of them
  /// \param refused  why weights are packed though the types were wanted; empty: they are not
  std::vector<LayerRecord> write(std::vector<LayerRecord> done, const std::string& refused) {
    std::map<std::string, LayerRecord> by_name;
    for (LayerRecord& record : done) {
      by_name.emplace(record.layer, std::move(record));
    }
    std::vector<LayerRecord> records(layers_.size());
    // Those that are to be stored come first: a layer left in float then learns that its weight is another's.
    for (const bool stored : {true, false}) {
      for (std::size_t i = 0; i < layers_.size(); ++i) {
        if ((planned(plan_, layers_[i]).weights != WeightFormat::kFloat) == stored) {
          const auto found = by_name.find(layers_[i].name);
          records[i] = write_layer(i, found == by_name.end() ? nullptr : &found->second);
          if (stored && records[i].why.empty()) {
            records[i].why = refused;
          }
        }
      }
    }
    return records;
  }

 private:
  LayerRecord write_layer(std::size_t i, const LayerRecord* activations) {
    const Layer& layer = layers_[i];
    const LayerFormat format = planned(plan_, layer);
    if (activations != nullptr && is_stored_with_activations(activations->format)) {
      return *activations;
    }
    if (activations != nullptr && activations->format.activations == ActivationFormat::kFloat) {  // declined
      LayerRecord record = *activations;
      record.bytes_before = record.bytes_after = bytes_[i];
      return record;
    }
    if (layer.has_weight() && !graph_.alive(layer.weight)) {
      LayerRecord record;
      record.layer = layer.name;
      record.op_type = layer.op_type;
      record.why = "its weight is that of a layer whose activations are quantised too";
      return record;
    }
    EncodeOptions encode;
    if (options_.hessians != nullptr) {
      const auto found = options_.hessians->find(layer.name);
      encode.hessian = found == options_.hessians->end() ? nullptr : &found->second;
    }
    LayerRecord record = writer_.write(layer, format, encode);
    if (activations != nullptr) {
      record.format.activations = activations->format.activations;
    }
    return record;
  }

  graph::Graph& graph_;
  std::vector<Layer> layers_;
  const QuantizationPlan& plan_;
  const QuantizeOptions& options_;
  WeightWriter writer_;
  std::vector<std::int64_t> bytes_;  // of each layer's weight before anything changed
};

}  // namespace

Quantized quantize(const graph::Model& model, const QuantizationPlan& plan, const Calibration* calibration,
                   const QuantizeOptions& options) {
  QuantizeOptions settled = options;
  std::string refused;
  Quantized result;
  result.model = raised(model, plan, settled, refused);
  PlanWriter writer(result.model, plan, settled);
  std::vector<LayerRecord> done;
  if (has_activations(plan)) {
    if (calibration == nullptr) {
      throw Error(ErrorCode::kInvalidArgument, "the plan quantises activations, and no calibration was given");
    }
    done = quantize_activations(result.model, plan, *calibration, settled);
  }
  result.layers = writer.write(std::move(done), refused);
  result.model.graph.remove_dead();
  result.model.graph.sort();
  onnx::infer_types(result.model);
  graph::verify(result.model.graph);
  return result;
}

}  // namespace tempera::compress
