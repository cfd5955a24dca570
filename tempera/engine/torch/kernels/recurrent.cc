#include <functional>
#include <optional>
#include <utility>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "tempera/engine/torch/kernels/compute.h"
#include "tempera/engine/torch/kernels/families.h"

namespace tempera::engine::aten {
namespace {

using Activation = std::function<at::Tensor(const at::Tensor&)>;

/// An activation by its ONNX name; alpha and beta stand for those that the node gives, in order.
class ActivationReader {
 public:
  explicit ActivationReader(const KernelContext& context)
      : context_(context),
        alphas_(context.reals("activation_alpha")),
        betas_(context.reals("activation_beta")),
        clip_(context.attribute<float>("clip")) {}

  /// \throws Error{kBadModel} on an unknown name
  Activation read(const std::string& name) {
    Activation function = lookup(name);
    if (!clip_) {
      return function;
    }
    return [function, limit = static_cast<double>(*clip_)](const at::Tensor& x) {
      return function(x.clamp(-limit, limit));
    };
  }

 private:
  Activation lookup(const std::string& name) {
    if (name == "Sigmoid") {
      return [](const at::Tensor& x) { return at::sigmoid(x); };
    }
    if (name == "Tanh") {
      return [](const at::Tensor& x) { return at::tanh(x); };
    }
    if (name == "Relu") {
      return [](const at::Tensor& x) { return at::relu(x); };
    }
    if (name == "Softsign") {
      return [](const at::Tensor& x) { return x / (x.abs() + 1); };
    }
    if (name == "Softplus") {
      return [](const at::Tensor& x) { return at::log1p(at::exp(-x.abs())) + x.clamp_min(0); };
    }
    if (name == "Affine") {
      return [a = alpha(1.0), b = beta(0.0)](const at::Tensor& x) { return x * a + b; };
    }
    if (name == "ScaledTanh") {
      return [a = alpha(1.0), b = beta(1.0)](const at::Tensor& x) { return at::tanh(x * b) * a; };
    }
    if (name == "HardSigmoid") {
      return [a = alpha(0.2F), b = beta(0.5)](const at::Tensor& x) { return (x * a + b).clamp(0, 1); };
    }
    if (name == "LeakyRelu") {
      return [a = alpha(0.01F)](const at::Tensor& x) { return at::where(x.ge(0), x, x * a); };
    }
    if (name == "ThresholdedRelu") {
      return
          [a = alpha(1.0)](const at::Tensor& x) { return at::where(x.ge(a), x, at::zeros({}, x.options())); };
    }
    if (name == "Elu") {
      return
          [a = alpha(1.0)](const at::Tensor& x) { return at::where(x.ge(0), x, x.clamp_max(0).expm1() * a); };
    }
    context_.fail(fmt::format("unknown activation '{}'", name));
  }

  double alpha(double fallback) { return next_alpha_ < alphas_.size() ? alphas_[next_alpha_++] : fallback; }
  double beta(double fallback) { return next_beta_ < betas_.size() ? betas_[next_beta_++] : fallback; }

  const KernelContext& context_;
  std::vector<float> alphas_;
  std::vector<float> betas_;
  std::optional<float> clip_;
  std::size_t next_alpha_ = 0;
  std::size_t next_beta_ = 0;
};

/// What a cell carries from step to step, each [N, H]; c is undefined but in LSTM.
struct State {
  at::Tensor h;
  at::Tensor c;
};

/// Parameters of one direction, gates stacked along the first axis as ONNX stacks them.
struct Parameters {
  at::Tensor input_weight;      // W  [G H, I]
  at::Tensor recurrent_weight;  // R  [G H, H]
  at::Tensor input_bias;        // Wb [G H]
  at::Tensor recurrent_bias;    // Rb [G H]
  at::Tensor peephole;          // P  [3 H], LSTM only, or undefined
  std::vector<Activation> activations;
};

/// One step: from X W^T + Wb at that step [N, G H] and the state before to the state after.
using Step = State (*)(const KernelContext& context, const Parameters& parameters,
                       const at::Tensor& projected, const State& before);

at::Tensor recur(const Parameters& p, const at::Tensor& h) {
  return at::matmul(h, p.recurrent_weight.t()) + p.recurrent_bias;
}

/// H_t = f(X W^T + Wb + H R^T + Rb)
State rnn_step(const KernelContext& /*context*/, const Parameters& p, const at::Tensor& projected,
               const State& before) {
  return {p.activations[0](projected + recur(p, before.h)), {}};
}

/// z = f(.), r = f(.), h~ = g(x W_h^T + Wb_h + (r * H) R_h^T + Rb_h), H_t = (1 - z) h~ + z H; with
/// linear_before_reset the recurrent term of h~ is r * (H R_h^T + Rb_h).
State gru_step(const KernelContext& context, const Parameters& p, const at::Tensor& projected,
               const State& before) {
  const std::int64_t hidden = before.h.size(-1);
  const std::vector<at::Tensor> x = projected.split(hidden, -1);  // z, r, h
  const std::vector<at::Tensor> weight = p.recurrent_weight.split(hidden, 0);
  const std::vector<at::Tensor> bias = p.recurrent_bias.split(hidden, 0);
  const auto gate = [&](std::size_t i, const at::Tensor& h) {
    return at::matmul(h, weight[i].t()) + bias[i];
  };
  const at::Tensor z = p.activations[0](x[0] + gate(0, before.h));
  const at::Tensor r = p.activations[0](x[1] + gate(1, before.h));
  const bool linear_before_reset = context.integer("linear_before_reset", 0) != 0;
  const at::Tensor recurrent = linear_before_reset ? r * gate(2, before.h) : gate(2, r * before.h);
  const at::Tensor candidate = p.activations[1](x[2] + recurrent);
  return {(1 - z) * candidate + z * before.h, {}};
}

/// i = f(. + P_i C), f = f(. + P_f C), c~ = g(.), C_t = f C + i c~, o = f(. + P_o C_t), H_t = o h(C_t); with
/// input_forget, f = 1 - i.
State lstm_step(const KernelContext& context, const Parameters& p, const at::Tensor& projected,
                const State& before) {
  const std::int64_t hidden = before.h.size(-1);
  const std::vector<at::Tensor> gates = (projected + recur(p, before.h)).split(hidden, -1);  // i, o, f, c
  const auto peep = [&](const at::Tensor& gate, std::int64_t part,
                        const at::Tensor& cell) {  // P holds i, o, f
    return p.peephole.defined() ? gate + p.peephole.slice(0, part * hidden, (part + 1) * hidden) * cell
                                : gate;
  };
  const at::Tensor input = p.activations[0](peep(gates[0], 0, before.c));
  const at::Tensor forget =
      context.integer("input_forget", 0) != 0 ? 1 - input : p.activations[0](peep(gates[2], 2, before.c));
  const at::Tensor cell = forget * before.c + input * p.activations[1](gates[3]);
  const at::Tensor output = p.activations[0](peep(gates[1], 1, cell));
  return {output * p.activations[2](cell), cell};
}

/// What differs between the three operators.
struct Cell {
  Step step;
  std::int64_t gates;
  std::vector<std::string> default_activations;
  bool has_cell_state;
};

/// Runs one direction over x [T, N, I]. A sample whose sequence is over keeps its state, and its outputs are
/// 0.
///
/// \param lengths  [N] or undefined
/// \return outputs [T, N, H] and the last state
std::pair<at::Tensor, State> run_direction(const KernelContext& context, const Cell& cell,
                                           const Parameters& parameters, const at::Tensor& x,
                                           const at::Tensor& lengths, State state, bool reverse) {
  const at::Tensor projected = at::matmul(x, parameters.input_weight.t()) + parameters.input_bias;
  const std::int64_t steps = x.size(0);
  std::vector<at::Tensor> outputs(static_cast<std::size_t>(steps));
  for (std::int64_t i = 0; i < steps; ++i) {
    const std::int64_t t = reverse ? steps - 1 - i : i;
    State next = cell.step(context, parameters, projected.select(0, t), state);
    at::Tensor output = next.h;
    if (lengths.defined()) {
      const at::Tensor running = lengths.gt(t).unsqueeze(1);
      output = at::where(running, next.h, at::zeros({}, next.h.options()));
      next.h = at::where(running, next.h, state.h);
      if (cell.has_cell_state) {
        next.c = at::where(running, next.c, state.c);
      }
    }
    outputs[static_cast<std::size_t>(t)] = output;
    state = std::move(next);
  }
  const at::Tensor all =
      steps == 0 ? at::zeros({0, x.size(1), state.h.size(-1)}, x.options()) : at::stack(outputs, 0);
  return {all, state};
}

/// Inputs X, W, R, B, sequence_lens, initial_h, and for LSTM initial_c, P; outputs Y, Y_h, and for LSTM Y_c.
void run(KernelContext& context, const Cell& cell) {
  const at::ScalarType type = context.tensor(0).scalar_type();
  const bool batch_first = context.integer("layout", 0) != 0;
  const auto input = [&](std::size_t i) { return widened(context.tensor(i)); };
  const at::Tensor x = batch_first ? input(0).transpose(0, 1) : input(0);  // [T, N, I]
  const at::Tensor weight = input(1);                                      // [D, G H, I]
  const at::Tensor recurrent = input(2);                                   // [D, G H, H]
  const std::string direction = context.text("direction", "forward");
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional") {
    context.fail(
        fmt::format("attribute 'direction' is '{}', expected forward, reverse or bidirectional", direction));
  }
  const std::int64_t directions = direction == "bidirectional" ? 2 : 1;
  if (x.dim() != 3 || weight.dim() != 3 || recurrent.dim() != 3 || weight.size(0) != directions ||
      recurrent.size(0) != directions || recurrent.size(1) != cell.gates * recurrent.size(2) ||
      weight.size(1) != recurrent.size(1) || weight.size(2) != x.size(2)) {
    context.fail(fmt::format("X {}, W {} and R {} do not fit {} directions and {} gates",
                             graph::to_string(x.sizes()), graph::to_string(weight.sizes()),
                             graph::to_string(recurrent.sizes()), directions, cell.gates));
  }
  const std::int64_t hidden = recurrent.size(2);
  const std::int64_t batch = x.size(1);
  const at::Tensor lengths = context.has(4) ? context.tensor(4).to(at::kLong) : at::Tensor();
  const auto initial = [&](std::size_t i) {  // [D, N, H]
    if (!context.has(i)) {
      return at::zeros({directions, batch, hidden}, x.options());
    }
    return batch_first ? input(i).transpose(0, 1) : input(i);
  };
  const at::Tensor initial_h = initial(5);
  const at::Tensor initial_c = cell.has_cell_state ? initial(6) : at::Tensor();

  std::vector<std::string> names = context.attribute<std::vector<std::string>>("activations", {});
  const std::size_t per_direction = cell.default_activations.size();
  if (names.empty()) {
    for (std::int64_t d = 0; d < directions; ++d) {
      names.insert(names.end(), cell.default_activations.begin(), cell.default_activations.end());
    }
  }
  if (names.size() != per_direction * static_cast<std::size_t>(directions)) {
    context.fail(fmt::format("{} activations, expected {} for each direction", names.size(), per_direction));
  }
  ActivationReader reader(context);

  std::vector<at::Tensor> outputs;
  std::vector<at::Tensor> last_h;
  std::vector<at::Tensor> last_c;
  for (std::int64_t d = 0; d < directions; ++d) {
    Parameters parameters;
    parameters.input_weight = weight.select(0, d);
    parameters.recurrent_weight = recurrent.select(0, d);
    const at::Tensor bias =
        context.has(3) ? input(3).select(0, d) : at::zeros({2 * cell.gates * hidden}, x.options());
    parameters.input_bias = bias.slice(0, 0, cell.gates * hidden);
    parameters.recurrent_bias = bias.slice(0, cell.gates * hidden);
    if (cell.has_cell_state && context.has(7)) {
      parameters.peephole = input(7).select(0, d);
    }
    for (std::size_t i = 0; i < per_direction; ++i) {
      parameters.activations.push_back(reader.read(names[static_cast<std::size_t>(d) * per_direction + i]));
    }
    State state{initial_h.select(0, d), cell.has_cell_state ? initial_c.select(0, d) : at::Tensor()};
    auto [y, last] = run_direction(context, cell, parameters, x, lengths, std::move(state),
                                   d == 1 || direction == "reverse");
    outputs.push_back(y);
    last_h.push_back(last.h);
    last_c.push_back(last.c);
  }
  // [T, D, N, H] or, batch first, [N, T, D, H]; states [D, N, H] or [N, D, H]
  const at::Tensor y = at::stack(outputs, 1);
  context.set(0, (batch_first ? y.permute({2, 0, 1, 3}) : y).contiguous().to(type));
  const std::int64_t direction_axis = batch_first ? 1 : 0;
  context.set(1, at::stack(last_h, direction_axis).to(type));
  if (cell.has_cell_state) {
    context.set(2, at::stack(last_c, direction_axis).to(type));
  }
}

void rnn(KernelContext& context) { run(context, {rnn_step, 1, {"Tanh"}, false}); }
void gru(KernelContext& context) { run(context, {gru_step, 3, {"Sigmoid", "Tanh"}, false}); }
void lstm(KernelContext& context) { run(context, {lstm_step, 4, {"Sigmoid", "Tanh", "Tanh"}, true}); }

constexpr Kernel kKernels[] = {
    {"RNN", rnn},
    {"GRU", gru},
    {"LSTM", lstm},
};

}  // namespace

std::span<const Kernel> recurrent_kernels() { return kKernels; }

}  // namespace tempera::engine::aten
