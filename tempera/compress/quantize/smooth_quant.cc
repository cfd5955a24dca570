#include "tempera/compress/quantize/smooth_quant.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "tempera/base/error.h"
#include "tempera/compress/calibrate/taps.h"
#include "tempera/compress/quantize/channel_scaling.h"
#include "tempera/onnx/infer.h"
#include "tempera/ops/access.h"
#include "tempera/ops/builder.h"

namespace tempera::compress {
namespace {

// Largest magnitude of each channel of each tensor over the samples, computed inside the model.
std::vector<std::vector<double>> measure_magnitudes(const graph::Model& model,
                                                    const std::vector<ScalableTensor>& tensors,
                                                    const data::Dataset& dataset,
                                                    const std::vector<std::size_t>& samples,
                                                    const engine::Engine& engine,
                                                    const engine::CompileOptions& options, const Host& host) {
  graph::Model watched = model;
  std::vector<std::string> names;
  for (const ScalableTensor& tensor : tensors) {
    graph::Dims others;
    for (std::int64_t i = 0; i < ops::rank_of(watched.graph, tensor.value).value(); ++i) {
      if (i != tensor.axis) {
        others.push_back(i);
      }
    }
    ops::Builder builder(watched.graph, watched.opset(),
                         watched.graph.value(tensor.value).name + "_magnitude");
    const graph::ValueId largest =
        builder.reduce("ReduceMax", builder.node("Abs", {tensor.value}), others, false);
    names.push_back(watched.graph.value(largest).name);
  }
  onnx::infer_types(watched, options.input_shapes);
  TapSession session(engine, watched, names, options);
  std::vector<std::vector<double>> magnitudes(tensors.size());
  for (const std::size_t index : samples) {
    host.cancel.throw_if_cancelled();
    const std::vector<data::Sample> one = {dataset.load(index)};
    session.run(one, [&](const TappedSample& tapped) {
      for (std::size_t i = 0; i < magnitudes.size(); ++i) {
        magnitudes[i].resize(tapped.values[i].size(), 0.0);
        std::transform(magnitudes[i].begin(), magnitudes[i].end(), tapped.values[i].begin(),
                       magnitudes[i].begin(),
                       [](double a, float b) { return std::max(a, static_cast<double>(b)); });
      }
    });
  }
  return magnitudes;
}

// s of eq. 4 to the power, relative to the geometric mean of those channels that have one.
std::vector<double> factors_of(const std::vector<double>& activation, const std::vector<double>& weight,
                               const SmoothQuantOptions& settings) {
  std::vector<double> factors(activation.size(), 1.0);
  double sum = 0.0;
  std::size_t count = 0;
  const auto counts = [&](std::size_t j) {
    return std::isfinite(activation[j]) && activation[j] > 0.0 && weight[j] > 0.0;
  };
  for (std::size_t j = 0; j < factors.size(); ++j) {
    if (counts(j)) {
      factors[j] = std::pow(std::pow(activation[j], settings.alpha) / std::pow(weight[j], 1.0 - settings.alpha), settings.power);
      sum += std::log(factors[j]);
      ++count;
    }
  }
  const double mean = count > 0 ? std::exp(sum / static_cast<double>(count)) : 1.0;
  for (std::size_t j = 0; j < factors.size(); ++j) {
    if (counts(j)) {
      factors[j] /= mean;
    }
  }
  return factors;
}

}  // namespace

std::vector<std::string> smooth(graph::Model& model, const std::vector<std::string>& layers,
                                const data::Dataset& dataset, const std::vector<std::size_t>& samples,
                                const engine::Engine& engine, const engine::CompileOptions& options,
                                const Host& host, const SmoothQuantOptions& settings) {
  if (!(settings.alpha >= 0.0 && settings.alpha <= 1.0)) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("alpha of SmoothQuant must be from 0 to 1, got {}", settings.alpha));
  }
  if (samples.empty()) {
    throw Error(ErrorCode::kInvalidArgument, "no samples were given to measure activations on");
  }
  onnx::infer_types(model, options.input_shapes);
  const std::set<std::string> wanted(layers.begin(), layers.end());
  std::vector<ScalableTensor> tensors = find_scalable(model.graph);
  std::erase_if(tensors, [&](const ScalableTensor& tensor) {
    return !std::all_of(tensor.readers.begin(), tensor.readers.end(),
                        [&](const ChannelReader& reader) { return wanted.contains(reader.layer.name); });
  });
  std::vector<std::string> smoothed;
  if (tensors.empty()) {
    return smoothed;
  }
  const std::vector<std::vector<double>> magnitudes =
      measure_magnitudes(model, tensors, dataset, samples, engine, options, host);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    // The factors of one tensor change the values of no other, so all were measured at once.
    const std::vector<double> factors =
        factors_of(magnitudes[i], reader_ranges(model.graph, tensors[i]), settings);
    if (scale_channels(model.graph, tensors[i], factors)) {
      smoothed.push_back(model.graph.value(tensors[i].value).name);
    }
  }
  return smoothed;
}

}  // namespace tempera::compress
