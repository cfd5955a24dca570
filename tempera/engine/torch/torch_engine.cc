#include "tempera/engine/torch/torch_engine.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <torch/version.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "tempera/base/error.h"
#include "tempera/engine/torch/interpreter.h"
#include "tempera/engine/torch/kernels/kernels.h"
#include "tempera/onnx/opset.h"
#include "tempera/onnx/schema_function.h"

namespace tempera::engine {
namespace {

int threads_of(const CompileOptions& options) {
  return options.threads > 0 ? options.threads : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
}

at::Device device_of(const CompileOptions& options, const Attributes& attributes) {
  if (std::find(attributes.devices.begin(), attributes.devices.end(), options.device) == attributes.devices.end()) {
    throw Error(ErrorCode::kEngineUnavailable, fmt::format("the torch engine has no device '{}' here", options.device),
                fmt::format("one of: {}", fmt::join(attributes.devices, ", ")));
  }
  return at::Device(options.device);
}

/// The model as it is interpreted: local functions inlined. Kernels take every form of their operator from opset 7 on;
/// older models, whose broadcasting was another, are raised.
graph::Model prepare(const graph::Model& model) {
  constexpr std::int64_t kOldestOpset = 7;
  graph::Model prepared = onnx::inline_functions(model);
  const bool has_standard = prepared.opsets.contains("") || prepared.opsets.contains("ai.onnx");
  return has_standard && prepared.opset() < kOldestOpset ? onnx::convert_opset(prepared, onnx::kNewestOpset) : prepared;
}

/// Inputs and outputs in the order of the graph, with the shapes that the options fix.
std::vector<Port> input_ports(const graph::Graph& graph, const std::map<std::string, graph::Dims>& shapes) {
  std::vector<Port> ports;
  std::vector<std::string> names;
  for (const graph::ValueId id : graph.inputs()) {
    const graph::Value& value = graph.value(id);
    names.push_back(value.name);
    ports.push_back({value.name, value.type});
    if (const auto fixed = shapes.find(value.name); fixed != shapes.end()) {
      ports.back().type.shape = graph::shape_of(fixed->second);
    }
  }
  for (const auto& [name, dims] : shapes) {
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      throw Error(ErrorCode::kNotFound, unknown_name("input", name, names));
    }
  }
  return ports;
}

/// \throws Error{kInvalidArgument} when the tensor is not one that the port takes
void check_input(const Port& port, const graph::Tensor& tensor) {
  if (!port.type.is_tensor()) {
    return;
  }
  const bool known = port.type.element != graph::DataType::kUndefined;
  if (known && tensor.type() != port.type.element) {
    throw Error(ErrorCode::kInvalidArgument, fmt::format("input '{}' is {}, expected {}", port.name,
                                                         numeric::to_string(tensor.type()),
                                                         numeric::to_string(port.type.element)));
  }
  if (!port.type.shape) {
    return;
  }
  const graph::Shape& expected = *port.type.shape;
  bool fits = expected.size() == tensor.dims().size();
  for (std::size_t i = 0; fits && i < expected.size(); ++i) {
    fits = !expected[i].fixed() || expected[i].value == tensor.dims()[i];
  }
  if (!fits) {
    throw Error(ErrorCode::kInvalidArgument, fmt::format("input '{}' has shape {}, expected {}", port.name,
                                                         graph::to_string(tensor.dims()), graph::to_string(expected)));
  }
}

class Session final : public TorchSession {
 public:
  Session(graph::Model model, const CompileOptions& options, at::Device device)
      : model_(std::move(model)), device_(device), threads_(threads_of(options)),
        inputs_(input_ports(model_.graph, options.input_shapes)),
        interpreter_(model_.graph, model_.opsets, {.device = device, .seed = 0, .on_value = {}, .on_time = {}}) {
    for (const graph::ValueId id : model_.graph.outputs()) {
      outputs_.push_back({model_.graph.value(id).name, model_.graph.value(id).type});
    }
    if (options.profile) {
      interpreter_.options().on_time = [this](const aten::Step& step, double time_us) {
        const std::string& name = step.node->name;
        times_.push_back({.node = name.empty() ? model_.graph.describe(step.id) : name, .op_type = step.node->op_type,
                          .kernel = std::string("aten ") + device_.str(), .time_us = time_us, .from_model = true, .fused = {}});
      };
    }
  }

  [[nodiscard]] const std::vector<Port>& inputs() const override { return inputs_; }
  [[nodiscard]] const std::vector<Port>& outputs() const override { return outputs_; }

  std::vector<graph::Tensor> run(std::span<const graph::Tensor> inputs) override {
    const at::NoGradGuard no_grad;
    if (at::get_num_threads() != threads_) {
      at::set_num_threads(threads_);
    }
    if (inputs.size() != inputs_.size()) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("the model takes {} inputs and was given {}", inputs_.size(), inputs.size()));
    }
    times_.clear();
    std::vector<aten::Value> values;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].defined()) {
        check_input(inputs_[i], inputs[i]);
      }
      values.push_back(aten::to_value(inputs[i], device_));
    }
    const std::vector<aten::Value> results = interpreter_.run(values);
    std::vector<graph::Tensor> outputs;
    for (std::size_t i = 0; i < results.size(); ++i) {
      try {
        outputs.push_back(aten::to_tensor(results[i]));
      } catch (Error& error) {
        error.in(fmt::format("output '{}'", outputs_[i].name));
        throw;
      }
    }
    std::sort(times_.begin(), times_.end(), [](const NodeTime& a, const NodeTime& b) { return a.time_us > b.time_us; });
    return outputs;
  }

  [[nodiscard]] std::vector<NodeTime> profile() const override { return times_; }

  [[nodiscard]] std::map<std::string, std::string> settings() const override {
    return {{"device", device_.str()}, {"threads", std::to_string(threads_)}, {"precision", "the graph's own types"}};
  }

  void set_observer(Observer observer) override {
    if (!observer) {
      interpreter_.options().on_value = {};
      return;
    }
    interpreter_.options().on_value = [this, observer = std::move(observer)](graph::ValueId id,
                                                                             const aten::Value& value) {
      if (value.array() != nullptr || value.strings() != nullptr) {
        observer(model_.graph.value(id).name, aten::to_tensor(value));
      }
    };
  }

  void set_seed(std::uint64_t seed) override { interpreter_.options().seed = seed; }

 private:
  graph::Model model_;
  at::Device device_;
  int threads_;
  std::vector<Port> inputs_;
  std::vector<Port> outputs_;
  aten::Interpreter interpreter_;
  std::vector<NodeTime> times_;
};

class TorchEngineImpl final : public TorchEngine {
 public:
  TorchEngineImpl() {
    attributes_.name = "torch";
    attributes_.version = TORCH_VERSION;
    attributes_.devices = {"cpu"};
    attributes_.precisions = {Precision::kFloat32};
    attributes_.max_opset = onnx::kNewestOpset;
  }

  [[nodiscard]] const Attributes& attributes() const override { return attributes_; }

  [[nodiscard]] std::vector<Unsupported> unsupported(const graph::Model& model) const override {
    std::vector<Unsupported> found;
    const graph::Model inlined = prepare(model);
    graph::for_each_graph(inlined.graph, [&](const graph::Graph& graph) {
      for (const graph::NodeId id : graph.nodes()) {
        const graph::Node& node = graph.node(id);
        if (aten::find_kernel(node.domain, node.op_type) == nullptr &&
            !onnx::has_schema_function(node, inlined.opsets)) {
          found.push_back({graph.describe(id), node.op_type, "no kernel and no function body"});
        }
      }
    });
    return found;
  }

  [[nodiscard]] std::unique_ptr<engine::Session> compile(const graph::Model& model,
                                                         const CompileOptions& options) const override {
    return compile_torch(model, options);
  }

  [[nodiscard]] std::unique_ptr<TorchSession> compile_torch(const graph::Model& model,
                                                            const CompileOptions& options) const override {
    if (options.precision != Precision::kFloat32) {
      throw Error(ErrorCode::kUnsupported,
                  fmt::format("the torch engine computes in the graph's own types, not in {}", to_string(options.precision)),
                  "leave the precision at f32, or use the openvino engine");
    }
    if (!options.properties.empty()) {
      throw Error(ErrorCode::kInvalidArgument, unknown_name("property of the torch engine", options.properties.begin()->first, {}));
    }
    const at::Device device = device_of(options, attributes_);
    if (const std::vector<Unsupported> missing = unsupported(model); !missing.empty()) {
      std::string list;
      for (const Unsupported& node : missing) {
        list += fmt::format("{}{}: {}", list.empty() ? "" : "; ", node.node, node.reason);
      }
      throw Error(ErrorCode::kUnsupported, fmt::format("the torch engine cannot run {}", list));
    }
    return std::make_unique<Session>(prepare(model), options, device);
  }

 private:
  Attributes attributes_;
};

}  // namespace

std::unique_ptr<TorchEngine> make_torch_engine() { return std::make_unique<TorchEngineImpl>(); }

}  // namespace tempera::engine
