#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <set>

#include "tempera/compress/quantize/activations.h"
#include "tempera/compress/quantize/encode.h"
#include "tempera/compress/quantize/layers.h"
#include "tempera/compress/quantize/weights.h"
#include "tempera/compress/quantize/quantize.h"
#include "tempera/engine/engines.h"
#include "tempera/ops/access.h"
#include "tempera/optimize/candidate.h"
#include "tempera/optimize/losses.h"
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

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

constexpr int kTries = 7;               // of refining: as it is, biases, ranges, equalisation, SmoothQuant
constexpr double kRunsToCalibrate = 8;  // of the original: two passes with inner tensors as outputs, biases by two models
constexpr double kRunsToRound = 3;      // for second moments of the inputs of layers
constexpr double kMultiplicationsPerSecond = 8e10;  // of second moments, on two cores
constexpr double kSecondsALayer = 0.25;             // to encode it in several ways and look at the loss
constexpr std::int64_t kTapped = 14;    // times the inner tensors of a run: sessions, what they hand out, readers' queues
constexpr int kLoads = 8;               // of models beside those tried: reference, written file, profiles, memory

// How often the original, or what is made of it, runs on all kinds of samples, and how often a model is loaded.
struct Work {
  double runs = 0.0;
  int loads = 0;
};

Work work_of(const QuantizeModelOptions& options, const data::Split& split, std::size_t judging) {
  const bool activations = options.format.activations != compress::ActivationFormat::kFloat;
  const auto calibrating = static_cast<double>(split.calibrate.size());
  const auto judged = static_cast<double>(judging);
  Work work;
  work.loads = kLoads + (activations ? 2 * kTries : 4);
  work.runs = judged + (activations ? kTries * (kRunsToCalibrate * calibrating + judged) : kRunsToRound * calibrating + 4 * judged);
  work.runs += 3.0 * static_cast<double>(split.verify.size());
  return work;
}

// Of GPTQ: multiplications for the second moments of each layer's inputs on each sample, and solving for each layer; bytes
// of the moments.
struct GptqWork {
  double multiplications = 0.0;
  std::int64_t bytes = 0;
};

GptqWork gptq_work(const graph::Graph& graph, const std::vector<compress::Layer>& layers, double samples) {
  GptqWork total;
  for (const compress::Layer& layer : layers) {
    if (layer.has_weight()) {
      const compress::WeightView view = compress::view_of(layer, graph.constant(layer.weight)->dims());
      const auto columns = static_cast<double>(view.columns);
      const auto rows = static_cast<double>(std::max<std::int64_t>(view.rows, 1));
      total.multiplications += samples * static_cast<double>(layer.multiplications) * columns / rows + columns * columns * (columns + rows);
      total.bytes += view.columns * view.columns * static_cast<std::int64_t>(sizeof(double));
    }
  }
  return total;
}

// Bytes of the inner tensors that calibrating hands out in one run.
std::int64_t bytes_of_taps(const graph::Model& model, const compress::QuantizationPlan& plan, const QuantizeModelOptions& options) {
  std::int64_t bytes = 0;
  for (const std::string& name : compress::activation_tensors(model, plan, options.quantize)) {
    const std::optional<graph::ValueId> value = model.graph.find_value(name);
    if (const auto dims = value.has_value() ? ops::dims_of(model.graph, *value) : std::nullopt) {
      bytes += 4 * graph::element_count(*dims);
    }
  }
  return bytes;
}

// Bytes of inputs and outputs of one sample.
std::int64_t bytes_of_sample(const std::vector<graph::Tensor>& inputs, const std::vector<graph::Tensor>& outputs) {
  std::size_t bytes = 0;
  for (const std::vector<graph::Tensor>* tensors : {&inputs, &outputs}) {
    for (const graph::Tensor& tensor : *tensors) {
      bytes += tensor.bytes().size();
    }
  }
  return static_cast<std::int64_t>(bytes);
}

// Time and memory of the whole job, by running the original here.
void forecast_work(QuantizeForecast& forecast, const Subject& subject, const std::vector<compress::Layer>& layers,
                   const compress::QuantizationPlan& plan, const QuantizeModelOptions& options, const Host& host) {
  host.progress.begin("running the original", 0);
  const std::unique_ptr<engine::Engine> engine = engine::make_engine(options.engine);
  const engine::CompileOptions compile = compile_options_of(options, subject);
  Clock::time_point start = Clock::now();
  const std::unique_ptr<engine::Session> session = engine->compile(subject.model, compile);
  const double load = seconds_since(start);
  const std::vector<graph::Tensor> inputs =
      input_sets(subject, load_samples(subject, subject.split.search, 1), *session).at(0);
  const std::vector<graph::Tensor> outputs = session->run(inputs);  // the first run is slower
  constexpr int kTimed = 3;
  start = Clock::now();
  for (int i = 0; i < kTimed; ++i) {
    (void)session->run(inputs);
  }
  const double run = seconds_since(start) / kTimed;
  const std::size_t judging = std::min(subject.split.search.size(), kLossSamples);
  const Work work = work_of(options, subject.split, judging);
  const double timing = std::min(options.max_seconds, 4.0 * static_cast<double>(options.pairs) * run);
  forecast.total_seconds = forecast.encode_seconds + run * work.runs + load * work.loads + timing;
  const bool activations = options.format.activations != compress::ActivationFormat::kFloat;
  GptqWork gptq;
  if (!activations && !options.subject.data.empty() && options.rounding != Rounding::kNearest) {
    const auto samples = static_cast<double>(std::min(subject.split.calibrate.size(), kHessianSamples));
    gptq = gptq_work(subject.model.graph, layers, samples);
    forecast.total_seconds += gptq.multiplications / kMultiplicationsPerSecond + kSecondsALayer * static_cast<double>(layers.size());
  }
  if (options.probe_memory) {
    const MemoryUse use = options.probe_memory(options.subject.model, compile);
    const std::int64_t held = std::min<std::int64_t>(static_cast<std::int64_t>(kHeldBytes),
                                                     static_cast<std::int64_t>(judging) * bytes_of_sample(inputs, outputs));
    // The reference, the original and the written model are open at once, beside their graphs.
    forecast.peak_memory_bytes = use.peak_bytes + 2 * forecast.bytes_before + 2 * forecast.bytes_after + held + gptq.bytes +
                                 (activations ? kTapped * (bytes_of_taps(subject.model, plan, options) + bytes_of_sample(inputs, outputs)) : 0);
  }
}

}  // namespace

QuantizeForecast forecast_quantize(const QuantizeModelOptions& options, const Host& host) {
  host.progress.begin("reading the model", 0);
  const Subject subject = load_subject(options.subject, host);
  const graph::Model& model = subject.model;
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
  forecast_work(forecast, subject, layers, plan, options, host);
  host.progress.end();
  return forecast;
}

}  // namespace tempera::optimize
