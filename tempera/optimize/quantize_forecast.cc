#include <algorithm>
#include <chrono>
#include <set>

#include "tempera/compress/quantize/activations.h"
#include "tempera/compress/quantize/encode.h"
#include "tempera/compress/quantize/layers.h"
#include "tempera/compress/quantize/weights.h"
#include "tempera/onnx/infer.h"
#include "tempera/onnx/read.h"
#include "tempera/optimize/quantize_model.h"
#include "tempera/optimize/quantize_plan.h"

namespace tempera::optimize {
namespace {

// Seconds to encode one element, from at most 2^18 made-up ones in rows as long as those of the layer.
double seconds_an_element(const graph::Graph& graph, const compress::Layer& layer, const compress::LayerFormat& format) {
  const compress::WeightView view = compress::view_of(layer, graph.constant(layer.weight)->dims());
  compress::WeightView part = view;
  part.rows = std::clamp<std::int64_t>((std::int64_t{1} << 18) / std::max<std::int64_t>(view.columns, 1), 1, view.rows);
  part.dims = {part.rows, part.columns};
  part.perm = {0, 1};
  std::vector<float> values(static_cast<std::size_t>(part.rows * part.columns));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(i * 2654435761U % 2048) / 1024.0F - 1.0F;
  }
  const auto start = std::chrono::steady_clock::now();
  (void)compress::encode_weight(part, values, format.weights, format.granularity);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() /
         static_cast<double>(values.size());
}

}  // namespace

QuantizeForecast forecast_quantize(const QuantizeModelOptions& options, const Host& host) {
  host.progress.begin("reading the model", 0);
  graph::Model model = onnx::read_model(options.subject.model);
  onnx::infer_types(model);
  const std::vector<compress::Layer> layers = compress::find_layers(model.graph);
  const compress::QuantizationPlan plan = plan_layers(model.graph, layers, options).formats;
  QuantizeForecast forecast;
  forecast.opset = std::max(model.opset(), compress::opset_for_activations(model, plan));
  forecast.bytes_before = graph::weight_size(model.graph).bytes;
  forecast.bytes_after = forecast.bytes_before;
  std::set<graph::ValueId> counted;
  std::int64_t elements = 0;
  const compress::Layer* largest = nullptr;
  for (const compress::Layer& layer : layers) {
    if (!layer.has_weight() || !counted.insert(layer.weight).second) {
      continue;
    }
    const graph::Tensor weight = *model.graph.constant(layer.weight);
    const auto planned = plan.find(layer.name);
    const compress::LayerFormat format = planned == plan.end() ? compress::LayerFormat{} : planned->second;
    report::LayerRecord record;
    record.layer = layer.name;
    record.op_type = layer.op_type;
    record.format = format.to_string();
    record.bytes_before = static_cast<std::int64_t>(weight.bytes().size());
    record.bytes_after = compress::stored_bytes(model.graph, layer, format);
    forecast.bytes_after += record.bytes_after - record.bytes_before;
    forecast.opset = std::max(forecast.opset, compress::opset_for(model.graph, layer, format, options.quantize));
    if (compress::has_scales(format.weights)) {
      elements += weight.size();
      if (largest == nullptr || weight.size() > model.graph.constant(largest->weight)->size()) {
        largest = &layer;
      }
    }
    forecast.layers.push_back(std::move(record));
  }
  if (largest != nullptr) {
    forecast.encode_seconds = static_cast<double>(elements) * seconds_an_element(model.graph, *largest, options.format);
  }
  host.progress.end();
  return forecast;
}

}  // namespace tempera::optimize
