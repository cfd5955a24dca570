#include "tempera/engine/torch/interpreter.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <fmt/format.h>

#include <chrono>
#include <string>
#include <utility>

#include "tempera/base/error.h"
#include "tempera/engine/torch/kernels/kernels.h"
#include "tempera/onnx/schema_function.h"

namespace tempera::engine::aten {
namespace {

using Frame = std::vector<Value>;  // by slot

/// Element type and rank, as a context-dependent function body asks for them. Not the dimensions: a body is expanded
/// once for each type, and a loop may well see a new length every time.
graph::ValueType type_of(const Value& value) {
  if (const Array* array = value.array()) {
    return graph::ValueType::tensor(array->type, graph::Shape(static_cast<std::size_t>(array->data.dim())));
  }
  if (const graph::Tensor* strings = value.strings()) {
    return graph::ValueType::tensor(DataType::kString, graph::Shape(strings->dims().size()));
  }
  graph::ValueType type;
  if (const Sequence* sequence = value.sequence()) {
    type.kind = graph::ValueType::Kind::kSequence;
    // An empty sequence has no element to ask; float is what the operators default to.
    type.inner = std::make_shared<graph::ValueType>(
        sequence->empty() ? graph::ValueType::tensor(DataType::kFloat32) : type_of(sequence->front()));
  }
  return type;
}

/// An operator's function body for one set of input types.
struct Expansion {
  graph::Function function;
  std::unique_ptr<Plan> plan;
};

/// Runs `function`, turning every foreign exception into an Error.
template <typename Function>
auto translated(Function&& function) {
  try {
    return function();
  } catch (const c10::OutOfMemoryError& error) {
    throw Error(ErrorCode::kOutOfMemory, error.what_without_backtrace());
  } catch (const c10::Error& error) {
    const std::string message = error.what_without_backtrace();
    // The CPU allocator throws the general type.
    const bool is_memory = message.find("can't allocate memory") != std::string::npos;
    throw Error(is_memory ? ErrorCode::kOutOfMemory : ErrorCode::kEngineFailed, message);
  } catch (const std::bad_alloc&) {
    throw Error(ErrorCode::kOutOfMemory, "not enough memory");
  }
}

/// What runs plans, bodies and expanded functions of one interpreter.
class Runner {
 public:
  explicit Runner(RunState& state) : state_(state) {}

  std::vector<Value> run(const Plan& plan, Frame& frame, const InterpreterOptions* watch) {
    for (const Step& step : plan.steps()) {
      const auto start = std::chrono::steady_clock::now();
      std::vector<Value> outputs;
      try {
        outputs = run_step(plan, step, frame);
      } catch (Error& error) {
        error.in(plan.graph().describe(step.id));
        throw;
      }
      if (watch != nullptr && watch->on_time) {
        const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - start;
        watch->on_time(step, time.count());
      }
      for (std::size_t i = 0; i < step.outputs.size(); ++i) {
        if (step.outputs[i] == Step::kNone) {
          continue;
        }
        if (watch != nullptr && watch->on_value) {
          watch->on_value(step.node->outputs[i], outputs[i]);
        }
        frame[step.outputs[i]] = std::move(outputs[i]);
      }
      for (const std::uint32_t slot : step.release) {
        frame[slot] = Value();
      }
    }
    std::vector<Value> results;
    for (const graph::ValueId output : plan.graph().outputs()) {
      results.push_back(frame[output.index]);
    }
    return results;
  }

  std::vector<Value> compute(const graph::Node& node, const Kernel* kernel, std::int64_t opset,
                             const graph::Opsets& opsets, std::span<const Value> inputs,
                             KernelContext::RunBody run_body) {
    if (kernel == nullptr) {
      return run_function(node, opsets, inputs);
    }
    return translated([&] {
      KernelContext context(node, opset, inputs, state_, std::move(run_body));
      kernel->function(context);
      return context.take_outputs();
    });
  }

  std::vector<Value> run_body(const Plan& body, std::vector<Value> inputs, const Frame* outer) {
    Frame frame(body.slots());
    for (const auto& [slot, constant] : body.constants()) {
      frame[slot] = constant;
    }
    for (const graph::Capture& capture : body.graph().captures()) {
      TEMPERA_CHECK(outer != nullptr, "a body that captures runs inside its graph");
      frame[capture.inner.index] = (*outer)[capture.outer.index];
    }
    const std::vector<graph::ValueId>& ports = body.graph().inputs();
    if (inputs.size() > ports.size()) {
      throw Error(ErrorCode::kBadModel, fmt::format("graph '{}' takes {} inputs and was given {}", body.graph().name,
                                                    ports.size(), inputs.size()));
    }
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      frame[ports[i].index] = std::move(inputs[i]);
    }
    return run(body, frame, nullptr);
  }

 private:
  std::vector<Value> run_step(const Plan& plan, const Step& step, Frame& frame) {
    std::vector<Value> inputs;
    inputs.reserve(step.inputs.size());
    for (const std::uint32_t slot : step.inputs) {
      inputs.push_back(slot == Step::kNone ? Value() : frame[slot]);
    }
    return compute(*step.node, step.kernel, step.opset, plan.opsets(), inputs,
                   [&](const graph::Graph& body, std::vector<Value> body_inputs) {
                     return run_body(*step.bodies.at(&body), std::move(body_inputs), &frame);
                   });
  }

  std::vector<Value> run_function(const graph::Node& node, const graph::Opsets& opsets,
                                  std::span<const Value> inputs) {
    std::vector<graph::ValueType> types;
    std::string key;
    for (const Value& input : inputs) {
      types.push_back(type_of(input));
      key += graph::to_string(types.back()) + ";";
    }
    Expansion& expansion = expansions_[{&node, key}];
    if (expansion.plan == nullptr) {
      std::optional<graph::Function> function = onnx::schema_function(node, opsets, types);
      if (!function) {
        throw Error(ErrorCode::kUnsupported,
                    fmt::format("the torch engine has no kernel for operator {}{}{} (opset {})", node.domain,
                                node.domain.empty() ? "" : ".", node.op_type, opset_of(opsets, node.domain)));
      }
      expansion.function = std::move(*function);
      expansion.plan = std::make_unique<Plan>(expansion.function.body, expansion.function.opsets, state_.device);
    }
    std::vector<Value> arguments(inputs.begin(), inputs.end());
    std::vector<Value> outputs = run_body(*expansion.plan, std::move(arguments), nullptr);
    outputs.resize(node.outputs.size());
    return outputs;
  }

  RunState& state_;
  std::map<std::pair<const graph::Node*, std::string>, Expansion> expansions_;
};

}  // namespace

class Interpreter::Machine {
 public:
  Machine(const graph::Graph& graph, const graph::Opsets& opsets, InterpreterOptions options)
      : options_(std::move(options)), plan_(graph, opsets, options_.device), runner_(state_) {
    state_.device = options_.device;
    constants_.resize(plan_.slots());
    for (const auto& [slot, constant] : plan_.constants()) {
      constants_[slot] = constant;
    }
  }

  std::vector<Value> run(std::span<const Value> inputs) {
    state_.generator = at::make_generator<at::CPUGeneratorImpl>(options_.seed);
    Frame frame = constants_;
    const std::vector<graph::ValueId>& ports = plan_.graph().inputs();
    if (inputs.size() != ports.size()) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("the model takes {} inputs and was given {}", ports.size(), inputs.size()));
    }
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!inputs[i].empty()) {
        frame[ports[i].index] = inputs[i];
      }
    }
    return runner_.run(plan_, frame, &options_);
  }

  void set_constant(graph::ValueId id, Value value) {
    TEMPERA_CHECK(plan_.graph().value(id).constant.has_value(), "only an initialiser can be replaced");
    constants_[id.index] = std::move(value);
  }

  InterpreterOptions& options() { return options_; }

 private:
  InterpreterOptions options_;
  RunState state_;
  Plan plan_;
  Runner runner_;
  Frame constants_;  // what a run starts from
};

Interpreter::Interpreter(const graph::Graph& graph, const graph::Opsets& opsets, InterpreterOptions options)
    : machine_(std::make_unique<Machine>(graph, opsets, std::move(options))) {}
Interpreter::~Interpreter() = default;

std::vector<Value> Interpreter::run(std::span<const Value> inputs) { return machine_->run(inputs); }
void Interpreter::set_constant(graph::ValueId id, Value value) { machine_->set_constant(id, std::move(value)); }
InterpreterOptions& Interpreter::options() { return machine_->options(); }

std::vector<Value> run_node(const graph::Node& node, std::int64_t opset, std::span<const Value> inputs,
                            RunState& state) {
  Runner runner(state);
  const Kernel* kernel = find_kernel(node.domain, node.op_type);
  const graph::Opsets opsets = {{node.domain, opset}};
  return runner.compute(node, kernel, opset, opsets, inputs,
                        [&](const graph::Graph& body, std::vector<Value> body_inputs) {
                          const Plan plan(body, opsets, state.device);
                          return runner.run_body(plan, std::move(body_inputs), nullptr);
                        });
}

}  // namespace tempera::engine::aten
