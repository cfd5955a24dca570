#include "tempera/compress/calibrate/taps.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "tempera/base/error.h"
#include "tempera/compress/calibrate/calibrate.h"
#include "tempera/numeric/convert.h"
#include "tempera/onnx/infer.h"
#include "tempera/ops/builder.h"

namespace tempera::compress {
namespace {

using graph::Dims;
using graph::Graph;
using graph::Tensor;
using graph::ValueId;

bool is_tappable(graph::DataType type) {
  switch (type) {
    case graph::DataType::kFloat32:
    case graph::DataType::kFloat16:
    case graph::DataType::kBfloat16:
    case graph::DataType::kFloat64: return true;
    default: return false;
  }
}

Error no_floats(const std::string& name, const std::string& what) {
  return {ErrorCode::kInvalidArgument,
          fmt::format("tensor '{}' is {}, which has no range to calibrate", name, what)};
}

ValueId find_tensor(const Graph& graph, const std::string& name) {
  const std::optional<ValueId> id = graph.find_value(name);
  if (!id) {
    std::vector<std::string> names;
    for (const ValueId value : graph.values()) {
      names.push_back(graph.value(value).name);
    }
    throw Error(ErrorCode::kInvalidArgument, unknown_name("tensor", name, names));
  }
  const graph::Value& value = graph.value(*id);
  if (value.constant && !value.is_input) {
    throw no_floats(name, "a constant");
  }
  if (value.type.kind != graph::ValueType::Kind::kUnknown &&
      (!value.type.is_tensor() || !is_tappable(value.type.element))) {
    throw no_floats(name, graph::to_string(value.type));
  }
  return *id;
}

// `parts` one after the other along their first axis; the last one is repeated up to `count`.
Tensor join(std::span<const Tensor> parts, std::size_t count) {
  Dims dims = parts[0].dims();
  dims.at(0) *= static_cast<std::int64_t>(count);
  Tensor::Writable joined = Tensor::allocate(parts[0].type(), dims);
  auto out = joined.bytes.begin();
  for (std::size_t i = 0; i < count; ++i) {
    const Tensor& part = parts[std::min(i, parts.size() - 1)];
    if (part.dims() != parts[0].dims()) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("samples of shapes {} and {} cannot run in one batch",
                              graph::to_string(parts[0].dims()), graph::to_string(part.dims())),
                  "use a batch of 1");
    }
    out = std::copy(part.bytes().begin(), part.bytes().end(), out);
  }
  return std::move(joined.tensor);
}

// The tensor with axis 1 moved last; nothing where that changes nothing or its rank is not known.
std::optional<ValueId> channels_last(graph::Model& model, ValueId id) {
  Graph& graph = model.graph;
  const std::optional<std::int64_t> rank = graph.value(id).type.rank();
  if (!rank || *rank < 3) {
    return std::nullopt;
  }
  Dims perm(static_cast<std::size_t>(*rank));
  std::iota(perm.begin(), perm.end(), std::int64_t{0});
  std::rotate(perm.begin() + 1, perm.begin() + 2, perm.end());
  ops::Builder builder(graph, model.opset(), graph.value(id).name + "_shown");
  return builder.node("Transpose", {id}, {{"perm", perm}});
}

std::int64_t bytes_of_value(const Graph& graph, const std::string& name) {
  constexpr std::int64_t kUnknown = 16 << 20;
  const graph::Value& value = graph.value(find_tensor(graph, name));
  const std::optional<Dims> dims = value.type.dims();
  return dims ? static_cast<std::int64_t>(
                    numeric::bytes_of(graph::DataType::kFloat32, graph::element_count(*dims)))
              : kUnknown;
}

}  // namespace

std::vector<std::string> activation_names(const Graph& graph) {
  std::vector<std::string> names;
  const auto add = [&](ValueId id) {
    const graph::Value& value = graph.value(id);
    if (value.type.is_tensor() && is_tappable(value.type.element) && !value.constant && !graph.constant(id)) {
      names.push_back(value.name);
    }
  };
  for (const ValueId id : graph.inputs()) {
    add(id);
  }
  for (const graph::NodeId node : graph.nodes()) {
    for (const ValueId id : graph.node(node).outputs) {
      if (id.valid()) {
        add(id);
      }
    }
  }
  return names;
}

TapSession::TapSession(const engine::Engine& engine, const graph::Model& model,
                       const std::vector<std::string>& tensors, const engine::CompileOptions& options,
                       int batch, TapOrder order)
    : model_(model), tensors_(tensors), batch_(static_cast<std::size_t>(batch)) {
  Graph& graph = model_.graph;
  for (const std::string& name : tensors) {
    const ValueId id = find_tensor(graph, name);
    if (graph.value(id).is_input) {
      places_.push_back({.input = true});
      continue;
    }
    if (const auto moved = order == TapOrder::kAny ? channels_last(model_, id) : std::nullopt) {
      places_.push_back({.index = graph.outputs().size(), .channels_last = true});
      graph.add_output(*moved);
      continue;
    }
    auto at = std::find(graph.outputs().begin(), graph.outputs().end(), id);
    if (at == graph.outputs().end()) {
      graph.add_output(id);
      at = std::prev(graph.outputs().end());
    }
    places_.push_back({.index = static_cast<std::size_t>(at - graph.outputs().begin())});
  }
  engine::CompileOptions compile = options;
  if (batch > 1) {
    const auto shapes = batched_shapes(graph, options.input_shapes, batch);
    if (!shapes) {
      throw Error(ErrorCode::kInvalidArgument, "the inputs of the model take one sample at a time",
                  "use a batch of 1");
    }
    compile.input_shapes = *shapes;
  }
  session_ = engine.compile(model_, compile);
  for (const engine::Port& port : session_->inputs()) {
    input_names_.push_back(port.name);
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (places_[i].input) {
      const auto port = std::find(input_names_.begin(), input_names_.end(), tensors[i]);
      if (port == input_names_.end()) {
        throw no_floats(tensors[i], "an input that stays at its default");
      }
      places_[i].index = static_cast<std::size_t>(port - input_names_.begin());
    }
    const auto& ports = places_[i].input ? session_->inputs() : session_->outputs();
    const graph::ValueType& type = ports[places_[i].index].type;
    if (!is_tappable(type.element)) {
      throw no_floats(tensors[i], graph::to_string(type));
    }
    const std::optional<Dims> dims = type.dims();
    divides_ = divides_ && dims && !dims->empty() && dims->front() == batch;
  }
}

std::vector<Tensor> TapSession::arrange(std::span<const data::Sample> samples) const {
  if (batch_ == 1) {
    return data::arrange_inputs(samples[0], model_.graph, input_names_);
  }
  std::vector<std::vector<Tensor>> by_input(input_names_.size());
  for (const data::Sample& sample : samples) {
    const std::vector<Tensor> inputs = data::arrange_inputs(sample, model_.graph, input_names_);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      by_input[i].push_back(inputs[i]);
    }
  }
  std::vector<Tensor> joined;
  for (const std::vector<Tensor>& parts : by_input) {
    joined.push_back(join(parts, batch_));
  }
  return joined;
}

void TapSession::show(std::span<const Tensor> inputs, std::span<const Tensor> outputs, std::size_t count,
                      const std::function<void(const TappedSample&)>& see) {
  std::vector<std::vector<float>> converted(places_.size());
  std::vector<std::span<const float>> whole(places_.size());
  for (std::size_t i = 0; i < places_.size(); ++i) {
    const Tensor& tensor = places_[i].input ? inputs[places_[i].index] : outputs[places_[i].index];
    if (tensor.type() == graph::DataType::kFloat32) {
      whole[i] = tensor.values<float>();
    } else {
      converted[i].resize(static_cast<std::size_t>(tensor.size()));
      numeric::decode(tensor.type(), tensor.bytes(), std::span<float>(converted[i]));
      whole[i] = converted[i];
    }
    places_[i].size = whole[i].size() / batch_;
    if (places_[i].channels_last) {
      places_[i].channels = static_cast<std::size_t>(tensor.dims().back());
    }
  }
  std::vector<std::span<const float>> values(whole.size());
  for (std::size_t place = 0; place < count; ++place) {
    for (std::size_t i = 0; i < whole.size(); ++i) {
      const std::size_t size = places_[i].size;
      values[i] = whole[i].subspan(place * size, size);
    }
    see({place, values});
  }
}

std::size_t TapSession::element(std::size_t tensor, std::size_t shown) const {
  const Place& place = places_[tensor];
  return shown % place.channels * (place.size / place.channels) + shown / place.channels;
}

void TapSession::run(std::span<const data::Sample> samples,
                     const std::function<void(const TappedSample&)>& see) {
  TEMPERA_CHECK(!samples.empty() && samples.size() <= batch_, "samples of a batch");
  const std::vector<Tensor> inputs = arrange(samples);
  session_->run_and_show(
      inputs, [&](std::span<const Tensor> outputs) { show(inputs, outputs, samples.size(), see); });
}

std::optional<std::map<std::string, Dims>> batched_shapes(const Graph& graph,
                                                          const std::map<std::string, Dims>& input_shapes,
                                                          int batch) {
  std::map<std::string, Dims> shapes;
  for (const std::string& name : data::required_inputs(graph)) {
    const graph::ValueType& type = graph.value(*graph.find_value(name)).type;
    if (!type.shape || type.shape->empty() || type.shape->front().fixed()) {
      return std::nullopt;
    }
    Dims dims;
    if (const auto given = input_shapes.find(name); given != input_shapes.end()) {
      dims = given->second;
    } else {
      graph::Shape rest = *type.shape;
      rest.front() = 1;
      const std::optional<Dims> known = graph::fixed_dims(rest);
      if (!known) {
        return std::nullopt;
      }
      dims = *known;
    }
    if (dims.empty() || dims.front() != 1) {
      return std::nullopt;
    }
    dims.front() = batch;
    shapes.emplace(name, std::move(dims));
  }
  return shapes.empty() ? std::nullopt : std::optional(std::move(shapes));
}

std::vector<std::int64_t> tap_bytes(const graph::Model& model, const std::vector<std::string>& tensors,
                                    const std::map<std::string, graph::Dims>& input_shapes) {
  graph::Model typed = model;
  onnx::infer_types(typed, input_shapes);
  std::vector<std::int64_t> bytes;
  bytes.reserve(tensors.size());
  for (const std::string& name : tensors) {
    bytes.push_back(bytes_of_value(typed.graph, name));
  }
  return bytes;
}

std::vector<std::vector<std::string>> group_taps(const std::vector<std::string>& tensors,
                                                 const std::vector<std::int64_t>& bytes, std::int64_t max_bytes) {
  std::vector<std::vector<std::string>> groups;
  std::int64_t held = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (groups.empty() || held + bytes[i] > max_bytes) {
      groups.emplace_back();
      held = 0;
    }
    groups.back().push_back(tensors[i]);
    held += bytes[i];
  }
  return groups;
}

}  // namespace tempera::compress
