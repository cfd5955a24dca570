#include "tempera/tempera.h"

#include <algorithm>
#include <filesystem>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include "tempera/base/host.h"
#include "tempera/engine/engines.h"
#include "tempera/graph/model.h"
#include "tempera/onnx/read.h"
#include "tempera/onnx/write.h"
#include "tempera/optimize/optimize.h"
#include "tempera/quality/loss_budget.h"

namespace tempera {
namespace {

template <typename T>
Array array_of(const char* type, Shape shape, std::span<const T> values) {
  const auto bytes = std::as_bytes(values);
  if (graph::element_count(shape) != static_cast<std::int64_t>(values.size())) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{} values given for shape {}", values.size(), graph::to_string(shape)));
  }
  return {type, std::move(shape), {bytes.begin(), bytes.end()}};
}

graph::Tensor to_tensor(const Array& array) {
  const auto type = numeric::data_type_from_string(array.type);
  if (!type.has_value() || *type == numeric::DataType::kString) {
    throw Error(ErrorCode::kInvalidArgument, fmt::format("unknown element type '{}'", array.type));
  }
  return graph::Tensor::from_bytes(*type, array.shape, array.bytes);
}

Array to_array(const graph::Tensor& tensor) {
  const auto bytes = tensor.bytes();
  return {std::string(numeric::to_string(tensor.type())), tensor.dims(), {bytes.begin(), bytes.end()}};
}

Port port_of(const std::string& name, const graph::ValueType& type) {
  Port port{name, std::string(numeric::to_string(type.element)), {}};
  for (const graph::Dim& dim : type.shape.value_or(graph::Shape{})) {
    port.shape.push_back(dim.value);
  }
  return port;
}

std::vector<Port> ports_of(const graph::Graph& graph, const std::vector<graph::ValueId>& ids) {
  std::vector<Port> ports;
  for (const graph::ValueId id : ids) {
    ports.push_back(port_of(graph.value(id).name, graph.value(id).type));
  }
  return ports;
}

std::vector<Port> ports_of(const std::vector<engine::Port>& ports) {
  std::vector<Port> result;
  for (const engine::Port& port : ports) {
    result.push_back(port_of(port.name, port.type));
  }
  return result;
}

engine::Precision precision_of(const std::string& name) {
  const auto precision = engine::precision_from_string(name);
  if (!precision.has_value()) {
    throw Error(ErrorCode::kInvalidArgument, unknown_name("precision", name, {"f32", "bf16", "f16"}));
  }
  return *precision;
}

// Hands progress on to the caller's function.
class CallbackProgress : public Progress {
 public:
  explicit CallbackProgress(std::function<void(const std::string&, std::int64_t, std::int64_t)> tell)
      : tell_(std::move(tell)) {}

  void begin(std::string_view stage, std::int64_t total) override {
    const std::scoped_lock lock(mutex_);
    stage_ = stage;
    done_ = 0;
    total_ = total;
    report();
  }
  void advance(std::int64_t steps) override {
    const std::scoped_lock lock(mutex_);
    done_ += steps;
    report();
  }
  void end() override {}

 private:
  void report() {
    if (tell_) {
      tell_(stage_, done_, total_);
    }
  }

  std::function<void(const std::string&, std::int64_t, std::int64_t)> tell_;
  std::mutex mutex_;
  std::string stage_;
  std::int64_t done_ = 0;
  std::int64_t total_ = 0;
};

}  // namespace

Array Array::of(Shape shape, std::span<const float> values) {
  return array_of("float", std::move(shape), values);
}
Array Array::of(Shape shape, std::span<const std::int64_t> values) {
  return array_of("int64", std::move(shape), values);
}

std::span<const float> Array::floats() const {
  if (type != "float") {
    throw Error(ErrorCode::kInvalidArgument, fmt::format("an array of type {} was read as float", type));
  }
  return {reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float)};
}

struct Program::State {
  std::unique_ptr<engine::Engine> engine;  // outlives the session
  std::unique_ptr<engine::Session> session;
  std::vector<Port> inputs;
  std::vector<Port> outputs;
};

Program::Program(std::unique_ptr<State> state) : state_(std::move(state)) {}
Program::Program(Program&&) noexcept = default;
Program& Program::operator=(Program&&) noexcept = default;
Program::~Program() = default;
const std::vector<Port>& Program::inputs() const { return state_->inputs; }
const std::vector<Port>& Program::outputs() const { return state_->outputs; }

std::vector<Array> Program::run(std::span<const Array> inputs) {
  std::vector<graph::Tensor> tensors;
  std::transform(inputs.begin(), inputs.end(), std::back_inserter(tensors), to_tensor);
  std::vector<Array> outputs;
  for (const graph::Tensor& tensor : state_->session->run(tensors)) {
    outputs.push_back(to_array(tensor));
  }
  return outputs;
}

struct Model::State {
  graph::Model model;
};

Model::Model(std::shared_ptr<const State> state) : state_(std::move(state)) {}
Model Model::load(const std::string& path) {
  return Model(std::make_shared<const State>(State{onnx::read_model(std::filesystem::path(path))}));
}
void Model::save(const std::string& path) const { onnx::write_model(state_->model, path); }
std::vector<Port> Model::inputs() const {
  return ports_of(state_->model.graph, state_->model.graph.inputs());
}
std::vector<Port> Model::outputs() const {
  return ports_of(state_->model.graph, state_->model.graph.outputs());
}
std::int64_t Model::parameters() const { return graph::weight_size(state_->model.graph).elements; }

Program Model::compile(const RunOptions& options) const {
  engine::CompileOptions compile;
  compile.device = options.device;
  compile.precision = precision_of(options.precision);
  compile.threads = options.threads;
  compile.input_shapes = options.shapes;
  auto state = std::make_unique<Program::State>();
  state->engine = engine::make_engine(options.engine);
  state->session = state->engine->compile(state_->model, compile);
  state->inputs = ports_of(state->session->inputs());
  state->outputs = ports_of(state->session->outputs());
  return Program(std::move(state));
}

OptimizeResult optimize_model(const OptimizeOptions& options) {
  optimize::OptimizeOptions inner;
  inner.subject.model = options.model;
  optimize::set_data(inner.subject, options.data);
  inner.out = options.out;
  inner.engine = options.engine;
  inner.budget = quality::LossBudget::parse_max_loss(options.max_loss);
  if (!options.precision.empty()) {
    inner.precision = precision_of(options.precision);
  }
  inner.threads = options.threads;
  inner.force = options.force;
  inner.subject.seed = options.seed;
  inner.command = "tempera::optimize_model " + options.model;
  const auto log = make_null_logger();
  CallbackProgress progress(options.progress);
  const report::Report report = optimize::optimize(inner, {*log, progress, {}});
  OptimizeResult result;
  result.changed = report.changed;
  result.summary = report.summary;
  result.json = report::to_json(report);
  for (const report::Candidate& candidate : report.candidates) {
    if (candidate.chosen) {
      result.speedup = candidate.speedup.median;
      result.speedup_lower95 = candidate.speedup.lower95;
    }
  }
  return result;
}

}  // namespace tempera
