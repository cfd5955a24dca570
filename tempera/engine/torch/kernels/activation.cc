#include <cmath>
#include <numbers>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "tempera/engine/torch/kernels/compute.h"
#include "tempera/engine/torch/kernels/families.h"

namespace tempera::engine::aten {
namespace {

using Function = at::Tensor (*)(const KernelContext& context, const at::Tensor& x);

/// One float input, one output of its type, computed in float32 or wider.
template <Function function>
void activation(KernelContext& context) {
  const at::Tensor& x = context.tensor(0);
  context.set(0, function(context, widened(x)).to(x.scalar_type()));
}

/// max(x, 0); also for integers.
void relu(KernelContext& context) {
  const Array& x = context.array(0);
  context.set(0, at::relu(x.data), x.type);
}

at::Tensor sigmoid(const KernelContext& /*context*/, const at::Tensor& x) { return at::sigmoid(x); }

/// x < 0 ? alpha x : x
at::Tensor leaky_relu(const KernelContext& context, const at::Tensor& x) {
  return at::where(x.lt(0), x * context.real("alpha", 0.01F), x);
}

/// x < 0 ? alpha (e^x - 1) : x
at::Tensor elu(const KernelContext& context, const at::Tensor& x) {
  return at::where(x.lt(0), x.clamp_max(0).expm1() * context.real("alpha", 1.0), x);
}

/// max(0, x) + min(0, alpha (e^(x / alpha) - 1))
at::Tensor celu(const KernelContext& context, const at::Tensor& x) {
  const double alpha = context.real("alpha", 1.0);
  return x.clamp_min(0) + ((x / alpha).expm1() * alpha).clamp_max(0);
}

/// gamma (x > 0 ? x : alpha e^x - alpha)
at::Tensor selu(const KernelContext& context, const at::Tensor& x) {
  const double alpha = context.real("alpha", 1.67326319217681884765625);
  const double gamma = context.real("gamma", 1.05070102214813232421875);
  return at::where(x.gt(0), x, x.clamp_max(0).expm1() * alpha) * gamma;
}

/// x / 2 (1 + erf(x / sqrt 2)), or with tanh: Hendrycks and Gimpel 2016, arXiv:1606.08415
at::Tensor gelu(const KernelContext& context, const at::Tensor& x) {
  return at::gelu(x, context.text("approximate", "none"));
}

/// x sigmoid(alpha x)
at::Tensor swish(const KernelContext& context, const at::Tensor& x) {
  return x * at::sigmoid(x * context.real("alpha", 1.0));
}

/// x tanh(softplus(x))
at::Tensor mish(const KernelContext& /*context*/, const at::Tensor& x) { return at::mish(x); }

/// max(0, min(1, alpha x + beta))
at::Tensor hard_sigmoid(const KernelContext& context, const at::Tensor& x) {
  return (x * context.real("alpha", 0.2F) + context.real("beta", 0.5)).clamp(0, 1);
}

/// x max(0, min(1, x / 6 + 1 / 2))
at::Tensor hard_swish(const KernelContext& /*context*/, const at::Tensor& x) {
  return x * (x / 6 + 0.5).clamp(0, 1);
}

/// x > alpha ? x : 0
at::Tensor thresholded_relu(const KernelContext& context, const at::Tensor& x) {
  return at::where(x.gt(context.real("alpha", 1.0)), x, at::zeros({}, x.options()));
}

/// log(e^x + 1)
at::Tensor softplus(const KernelContext& /*context*/, const at::Tensor& x) {
  return at::log1p(at::exp(-x.abs())) + x.clamp_min(0);  // for every x; at::softplus switches to x beyond 20
}

/// x / (1 + |x|)
at::Tensor softsign(const KernelContext& /*context*/, const at::Tensor& x) { return x / (x.abs() + 1); }

/// x < -lambd ? x + bias : x > lambd ? x - bias : 0; also for integers
void shrink(KernelContext& context) {
  const Array& array = context.array(0);
  const at::Tensor x = array.data.is_floating_point() ? widened(array.data) : array.data.to(at::kDouble);
  const double lambda = context.real("lambd", 0.5);
  const double bias = context.real("bias", 0.0);
  const at::Tensor zero = at::zeros({}, x.options());
  const at::Tensor y = at::where(x.lt(-lambda), x + bias, at::where(x.gt(lambda), x - bias, zero));
  context.set(0, wrap(y.to(array.data.scalar_type()), array.type), array.type);
}

/// x < 0 ? slope x : x, the slope broadcast to x; also for integers
void p_relu(KernelContext& context) {
  const Array& x = context.array(0);
  const at::Tensor wide = widened(x.data);
  const at::Tensor y = at::where(wide.lt(0), wide * widened(context.tensor(1)), wide);
  context.set(0, wrap(y.to(x.data.scalar_type()), x.type), x.type);
}

/// a sigmoid(alpha a) b: Shazeer 2020, arXiv:2002.05202
void swi_glu(KernelContext& context) {
  const at::Tensor& a = context.tensor(0);
  const at::Tensor& b = context.tensor(1);
  if (a.sizes() != b.sizes() || a.scalar_type() != b.scalar_type()) {
    context.fail("A and B differ in shape or type");
  }
  const at::Tensor wide = widened(a);
  context.set(0, (wide * at::sigmoid(wide * context.real("alpha", 1.0)) * widened(b)).to(a.scalar_type()));
}

constexpr Kernel kKernels[] = {
    {"Relu", relu},
    {"Sigmoid", activation<sigmoid>},
    {"LeakyRelu", activation<leaky_relu>},
    {"Elu", activation<elu>},
    {"Celu", activation<celu>},
    {"Selu", activation<selu>},
    {"Gelu", activation<gelu>},
    {"Swish", activation<swish>},
    {"Mish", activation<mish>},
    {"HardSigmoid", activation<hard_sigmoid>},
    {"HardSwish", activation<hard_swish>},
    {"ThresholdedRelu", activation<thresholded_relu>},
    {"Softplus", activation<softplus>},
    {"Softsign", activation<softsign>},
    {"Shrink", shrink},
    {"PRelu", p_relu},
    {"SwiGLU", swi_glu},
};

}  // namespace

std::span<const Kernel> activation_kernels() { return kKernels; }

}  // namespace tempera::engine::aten
