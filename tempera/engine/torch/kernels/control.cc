/// If, Loop and Scan.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <limits>

#include "tempera/engine/torch/kernels/families.h"

namespace tempera::engine::aten {
namespace {

bool is_true(const Value& value, const KernelContext& context) {
  const Array* array = value.array();
  if (array == nullptr || array->data.numel() != 1) {
    context.fail("a condition is not one boolean");
  }
  return array->data.item().toBool();
}

void if_kernel(KernelContext& context) {
  const bool condition = is_true(context.value(0), context);
  std::vector<Value> results = context.run_body(context.body(condition ? "then_branch" : "else_branch"), {});
  for (std::size_t i = 0; i < results.size(); ++i) {
    context.set(i, std::move(results[i]));
  }
}

/// What a scan output is when the body never ran: [0, ...] with the dimensions that the body declares, 0 for unknown.
Value no_steps(const graph::Graph& body, std::size_t output, const KernelContext& context) {
  const graph::ValueType& type = body.value(body.outputs()[output]).type;
  const DataType element = type.element == DataType::kUndefined ? DataType::kFloat32 : type.element;
  std::vector<std::int64_t> dims = {0};
  for (const graph::Dim& dim : type.shape.value_or(graph::Shape{})) {
    dims.push_back(dim.fixed() ? dim.value : 0);
  }
  if (element == DataType::kString) {
    return Value(graph::Tensor::strings(dims, {}));
  }
  return Value(Array{at::empty(dims, at::TensorOptions(context.device()).dtype(carrier(element))), element});
}

/// One value a step, stacked along a new first axis. \throws Error{kBadModel} when their shapes differ
Value stack(const std::vector<Value>& steps, std::int64_t axis, const KernelContext& context) {
  std::vector<at::Tensor> parts;
  for (const Value& step : steps) {
    if (step.array() == nullptr) {
      context.unsupported("a scan output that is no numeric tensor");
    }
    parts.push_back(step.array()->data);
  }
  return Value(Array{at::stack(parts, axis), steps.front().array()->type});
}

/// Inputs M, cond, state...; body (i, cond, state...) -> (cond, state..., scan...); outputs state..., scan...
void loop(KernelContext& context) {
  const graph::Graph& body = context.body("body");
  const std::int64_t limit = context.has(0) ? context.scalar_int(0) : std::numeric_limits<std::int64_t>::max();
  Value condition = context.has(1) ? context.value(1) : Value(at::ones({}, at::kBool));
  std::vector<Value> states;
  for (std::size_t i = 2; i < context.input_count(); ++i) {
    states.push_back(context.has(i) ? context.value(i) : Value());
  }
  if (body.outputs().size() < states.size() + 1) {
    context.fail(fmt::format("the body gives {} outputs, expected at least {}", body.outputs().size(), states.size() + 1));
  }
  std::vector<std::vector<Value>> scans(body.outputs().size() - 1 - states.size());
  for (std::int64_t i = 0; i < limit && is_true(condition, context); ++i) {
    std::vector<Value> inputs;
    inputs.emplace_back(at::full({}, i, at::TensorOptions(context.device()).dtype(at::kLong)));
    inputs.push_back(condition);
    inputs.insert(inputs.end(), states.begin(), states.end());
    std::vector<Value> results = context.run_body(body, std::move(inputs));
    condition = std::move(results[0]);
    for (std::size_t j = 0; j < states.size(); ++j) {
      states[j] = std::move(results[1 + j]);
    }
    for (std::size_t j = 0; j < scans.size(); ++j) {
      scans[j].push_back(std::move(results[1 + states.size() + j]));
    }
  }
  for (std::size_t j = 0; j < states.size(); ++j) {
    context.set(j, std::move(states[j]));
  }
  for (std::size_t j = 0; j < scans.size(); ++j) {
    context.set(states.size() + j, scans[j].empty() ? no_steps(body, 1 + states.size() + j, context)
                                                    : stack(scans[j], 0, context));
  }
}

/// Entry i of an attribute list that may be absent: `fallback` then.
std::int64_t entry(const std::vector<std::int64_t>& list, std::size_t i, std::int64_t fallback) {
  return i < list.size() ? list[i] : fallback;
}

/// The scanned inputs' element `step` of `length`, from the end when the direction is 1.
Array element(const Array& x, std::int64_t axis, std::int64_t step, std::int64_t length, bool backward) {
  return {at::select(x.data, axis, backward ? length - 1 - step : step), x.type};
}

/// Runs the body over `sequences`; returns final states, then stacked outputs along `output_axes`.
std::vector<Value> scan_over(const KernelContext& context, std::vector<Value> states, const std::vector<Array>& sequences,
                             const std::vector<std::int64_t>& axes, std::int64_t length) {
  const graph::Graph& body = context.body("body");
  const std::vector<std::int64_t> input_directions =
      context.integers(context.has_attribute("directions") ? "directions" : "scan_input_directions");
  const std::vector<std::int64_t> output_axes = context.integers("scan_output_axes");
  const std::vector<std::int64_t> output_directions = context.integers("scan_output_directions");
  if (body.outputs().size() < states.size()) {
    context.fail(fmt::format("the body gives {} outputs, expected at least {}", body.outputs().size(), states.size()));
  }
  std::vector<std::vector<Value>> scans(body.outputs().size() - states.size());
  for (std::int64_t step = 0; step < length; ++step) {
    std::vector<Value> inputs = states;
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      inputs.emplace_back(element(sequences[i], axes[i], step, length, entry(input_directions, i, 0) != 0));
    }
    std::vector<Value> results = context.run_body(body, std::move(inputs));
    for (std::size_t i = 0; i < states.size(); ++i) {
      states[i] = std::move(results[i]);
    }
    for (std::size_t i = 0; i < scans.size(); ++i) {
      scans[i].push_back(std::move(results[states.size() + i]));
    }
  }
  const std::size_t state_count = states.size();
  for (std::size_t i = 0; i < scans.size(); ++i) {
    if (scans[i].empty()) {
      states.push_back(no_steps(body, state_count + i, context));
      continue;
    }
    if (entry(output_directions, i, 0) != 0) {
      std::reverse(scans[i].begin(), scans[i].end());
    }
    const std::int64_t rank = scans[i].front().array() == nullptr ? 1 : scans[i].front().array()->data.dim() + 1;
    states.push_back(stack(scans[i], context.axis(entry(output_axes, i, 0), rank), context));
  }
  return states;
}

/// Opset 8: a leading input of sequence lengths (or none), and a batch axis before everything.
void scan_batched(KernelContext& context, std::size_t scanned) {
  const std::size_t state_count = context.input_count() - 1 - scanned;
  const std::int64_t batch = context.tensor(1).size(0);
  std::vector<std::int64_t> lengths;
  if (context.has(0)) {
    lengths = context.ints(0);
  }
  std::vector<std::vector<Value>> rows;
  for (std::int64_t b = 0; b < batch; ++b) {
    std::vector<Value> states;
    std::vector<Array> sequences;
    for (std::size_t i = 1; i < context.input_count(); ++i) {
      const Array& x = context.array(i);
      const Array row = {at::select(x.data, 0, b), x.type};
      if (i <= state_count) {
        states.emplace_back(row);
      } else {
        sequences.push_back(row);
      }
    }
    const std::int64_t longest = sequences.front().data.size(0);
    const std::int64_t length = entry(lengths, static_cast<std::size_t>(b), longest);
    rows.push_back(scan_over(context, states, sequences, std::vector<std::int64_t>(sequences.size(), 0), length));
  }
  for (std::size_t i = 0; i < context.output_count(); ++i) {
    std::vector<Value> column;
    for (const std::vector<Value>& row : rows) {
      column.push_back(row.at(i));
    }
    context.set(i, stack(column, 0, context));
  }
}

/// Inputs state..., sequence...; body (state..., element...) -> (state..., element...)
void scan(KernelContext& context) {
  const auto scanned = static_cast<std::size_t>(context.integer("num_scan_inputs", 0));
  const std::size_t lead = context.opset() < 9 ? 1 : 0;
  if (scanned == 0 || scanned + lead > context.input_count()) {
    context.fail(fmt::format("num_scan_inputs is {} of {} inputs", scanned, context.input_count()));
  }
  if (lead == 1) {
    scan_batched(context, scanned);
    return;
  }
  const std::size_t state_count = context.input_count() - scanned;
  const std::vector<std::int64_t> input_axes = context.integers("scan_input_axes");
  std::vector<Value> states;
  std::vector<Array> sequences;
  std::vector<std::int64_t> axes;
  for (std::size_t i = 0; i < context.input_count(); ++i) {
    if (i < state_count) {
      states.push_back(context.value(i));
      continue;
    }
    const Array& x = context.array(i);
    sequences.push_back(x);
    axes.push_back(context.axis(entry(input_axes, i - state_count, 0), x.data.dim()));
    if (x.data.size(axes.back()) != sequences.front().data.size(axes.front())) {
      context.fail(fmt::format("scanned inputs have lengths {} and {}", sequences.front().data.size(axes.front()),
                               x.data.size(axes.back())));
    }
  }
  std::vector<Value> results = scan_over(context, states, sequences, axes, sequences.front().data.size(axes.front()));
  for (std::size_t i = 0; i < results.size(); ++i) {
    context.set(i, std::move(results[i]));
  }
}

constexpr Kernel kKernels[] = {
    {"If", if_kernel},
    {"Loop", loop},
    {"Scan", scan},
};

}  // namespace

std::span<const Kernel> control_kernels() { return kKernels; }

}  // namespace tempera::engine::aten
