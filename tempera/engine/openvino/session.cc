#include "tempera/engine/openvino/session.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tempera/base/error.h"
#include "tempera/engine/openvino/ov_error.h"
#include "tempera/engine/openvino/ov_tensor.h"
#include "tempera/engine/openvino/profile.h"

namespace tempera::engine::openvino {
namespace {

bool fits(const graph::Shape& shape, const graph::Dims& dims) {
  if (shape.size() != dims.size()) {
    return false;
  }
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (shape[i].fixed() && shape[i].value != dims[i]) {
      return false;
    }
  }
  return true;
}

std::optional<std::string> input_problem(const Port& port, const graph::Tensor& tensor) {
  if (tensor.type() != port.type.element) {
    return fmt::format("input '{}' has type {}, expected {}", port.name, numeric::to_string(tensor.type()),
                       numeric::to_string(port.type.element));
  }
  if (port.type.shape && !fits(*port.type.shape, tensor.dims())) {
    return fmt::format("input '{}' has shape {}, expected {}", port.name, graph::to_string(tensor.dims()),
                       graph::to_string(*port.type.shape));
  }
  return std::nullopt;
}

void check_inputs(const std::vector<Port>& ports, std::span<const graph::Tensor> inputs) {
  if (inputs.size() != ports.size()) {
    throw Error(ErrorCode::kInvalidArgument, fmt::format("{} inputs given, expected {}", inputs.size(), ports.size()));
  }
  std::vector<std::string> problems;
  for (std::size_t i = 0; i < ports.size(); ++i) {
    if (auto problem = input_problem(ports[i], inputs[i])) {
      problems.push_back(std::move(*problem));
    }
  }
  if (!problems.empty()) {
    throw Error(ErrorCode::kInvalidArgument, fmt::format("{}", fmt::join(problems, "; ")));
  }
}

graph::ValueType port_type(const ov::Output<const ov::Node>& port, const std::string& name) {
  const auto element = from_openvino(port.get_element_type());
  if (!element) {
    throw Error(ErrorCode::kUnsupported, fmt::format("OpenVINO gives '{}' the type {}, which has no counterpart", name,
                                                     port.get_element_type().get_type_name()));
  }
  const ov::PartialShape& shape = port.get_partial_shape();
  return graph::ValueType::tensor(
      *element, shape.rank().is_static() ? std::optional(from_openvino(shape)) : std::nullopt);
}

}  // namespace

OpenvinoSession::OpenvinoSession(std::shared_ptr<ov::Core> core, ov::CompiledModel compiled, const graph::Graph& graph,
                                 LayerNames names, bool profile, std::shared_ptr<const std::byte> memory)
    : core_(std::move(core)),
      memory_(std::move(memory)),
      compiled_(std::move(compiled)),
      names_(std::move(names)),
      profile_(profile) {
  make_ports(graph);
  request_ = compiled_.create_infer_request();
  make_room_for_packed_outputs();
}

// The plugin writes a byte for each element of a type below 8 bits, past the end of a tensor that it made itself.
void OpenvinoSession::make_room_for_packed_outputs() {
  const auto& results = compiled_.outputs();
  padded_outputs_.resize(results.size());
  for (std::size_t i = 0; i < results.size(); ++i) {
    const ov::element::Type type = results[i].get_element_type();
    if (type.is_static() && type.bitwidth() < 8 && results[i].get_partial_shape().is_static()) {
      const ov::Shape shape = results[i].get_shape();
      padded_outputs_[i].resize(std::max<std::size_t>(ov::shape_size(shape), 1));
      request_.set_output_tensor(i, ov::Tensor(type, shape, static_cast<void*>(padded_outputs_[i].data())));
    }
  }
}

void OpenvinoSession::make_ports(const graph::Graph& graph) {
  std::map<std::string, std::size_t> index;
  const auto& parameters = compiled_.inputs();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    for (const std::string& name : parameters[i].get_names()) {
      index.emplace(name, i);
    }
  }
  for (const graph::ValueId id : graph.inputs()) {
    const graph::Value& value = graph.value(id);
    const auto found = index.find(value.name);
    if (found == index.end() && value.constant) {
      continue;  // an input with a default, which OpenVINO takes as a constant
    }
    input_index_.push_back(found == index.end() ? std::nullopt : std::optional(found->second));
    inputs_.push_back({value.name, found == index.end() ? value.type : port_type(parameters[found->second], value.name)});
  }
  const auto& results = compiled_.outputs();
  TEMPERA_CHECK(results.size() == graph.outputs().size(), "OpenVINO changed the number of outputs");
  for (std::size_t i = 0; i < results.size(); ++i) {
    const std::string& name = graph.value(graph.outputs()[i]).name;
    outputs_.push_back({name, port_type(results[i], name)});
    // An output that is an input under another name: OpenVINO may leave its own output tensor unwritten.
    const auto input = index.find(name);
    const auto given = input == index.end()
                           ? input_index_.end()
                           : std::find(input_index_.begin(), input_index_.end(), std::optional(input->second));
    passed_on_.push_back(given == input_index_.end()
                             ? std::nullopt
                             : std::optional(static_cast<std::size_t>(given - input_index_.begin())));
  }
}

void OpenvinoSession::prepare(std::span<const graph::Tensor> inputs) {
  check_inputs(inputs_, inputs);
  if (running_) {
    throw Error(ErrorCode::kInvalidArgument, "a run of this session is still under way", "call wait() first");
  }
  padded_.resize(inputs.size());
  try {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (input_index_[i]) {
        request_.set_input_tensor(*input_index_[i], borrow_input(inputs[i], padded_[i]));
      }
    }
  } catch (...) {
    rethrow(ErrorCode::kEngineFailed, "taking the inputs", nullptr);
  }
}

std::vector<graph::Tensor> OpenvinoSession::collect(std::span<const graph::Tensor> inputs, bool lend) {
  std::vector<graph::Tensor> results;
  results.reserve(outputs_.size());
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    if (passed_on_[i]) {
      results.push_back(inputs[*passed_on_[i]]);
    } else {
      const ov::Tensor output = request_.get_output_tensor(i);
      results.push_back(lend ? openvino::lend(output) : copy(output));
    }
  }
  return results;
}

std::vector<graph::Tensor> OpenvinoSession::run(std::span<const graph::Tensor> inputs) {
  prepare(inputs);
  try {
    request_.infer();
    return collect(inputs);
  } catch (...) {
    rethrow(ErrorCode::kEngineFailed, "running", [this](std::string_view layer) { return describe(layer); });
  }
}

void OpenvinoSession::run_and_show(std::span<const graph::Tensor> inputs,
                                   const std::function<void(std::span<const graph::Tensor>)>& see) {
  prepare(inputs);
  std::vector<graph::Tensor> outputs;
  try {
    request_.infer();
    outputs = collect(inputs, true);
  } catch (...) {
    rethrow(ErrorCode::kEngineFailed, "running", [this](std::string_view layer) { return describe(layer); });
  }
  see(outputs);
}

void OpenvinoSession::start(std::span<const graph::Tensor> inputs) {
  prepare(inputs);
  pending_inputs_.assign(inputs.begin(), inputs.end());
  try {
    request_.start_async();
    running_ = true;
  } catch (...) {
    rethrow(ErrorCode::kEngineFailed, "starting", [this](std::string_view layer) { return describe(layer); });
  }
}

std::vector<graph::Tensor> OpenvinoSession::wait() {
  if (!running_) {
    throw Error(ErrorCode::kInvalidArgument, "no run of this session is under way", "call start() first");
  }
  running_ = false;
  const std::vector<graph::Tensor> inputs = std::move(pending_inputs_);
  try {
    request_.wait();
    return collect(inputs);
  } catch (...) {
    rethrow(ErrorCode::kEngineFailed, "running", [this](std::string_view layer) { return describe(layer); });
  }
}

std::vector<NodeTime> OpenvinoSession::profile() const {
  if (!profile_) {
    return {};
  }
  try {
    return node_times(request_.get_profiling_info(), *compiled_.get_runtime_model(), names_);
  } catch (...) {
    rethrow(ErrorCode::kEngineFailed, "reading the profile", nullptr);
  }
}

std::map<std::string, std::string> OpenvinoSession::settings() const {
  std::map<std::string, std::string> result;
  try {
    for (const ov::PropertyName& name : compiled_.get_property(ov::supported_properties)) {
      if (name != ov::supported_properties.name()) {
        result[name] = compiled_.get_property(name).as<std::string>();
      }
    }
  } catch (...) {
    rethrow(ErrorCode::kEngineFailed, "reading the settings", nullptr);
  }
  return result;
}

}  // namespace tempera::engine::openvino
