#include <ATen/ATen.h>
#include <fmt/format.h>

#include "tempera/engine/torch/kernels/compute.h"
#include "tempera/engine/torch/kernels/families.h"

namespace tempera::engine::aten {
namespace {

// Numbers are drawn on the CPU in float32 (float64 for float64), whatever the device and type asked for, so
// that a seed means the same everywhere.

DataType asked_type(const KernelContext& context, DataType fallback) {
  const std::int64_t number = context.integer("dtype", 0);
  if (number == 0) {
    return fallback;
  }
  if (!numeric::is_known(static_cast<int>(number)) ||
      number == static_cast<std::int64_t>(DataType::kString)) {
    context.fail(fmt::format("attribute 'dtype' is {}, which names no number type", number));
  }
  return static_cast<DataType>(number);
}

at::Tensor buffer(at::IntArrayRef shape, DataType type) {
  return at::empty(shape, type == DataType::kFloat64 ? at::kDouble : at::kFloat);
}

void set_drawn(KernelContext& context, const at::Tensor& drawn, DataType type) {
  context.set(0, wrap(drawn.to(context.device(), carrier(type)), type), type);
}

void draw_normal(KernelContext& context, at::IntArrayRef shape, DataType type) {
  at::Tensor drawn = buffer(shape, type);
  drawn.normal_(context.real("mean", 0.0), context.real("scale", 1.0), context.generator());
  set_drawn(context, drawn, type);
}

void draw_uniform(KernelContext& context, at::IntArrayRef shape, DataType type) {
  at::Tensor drawn = buffer(shape, type);
  drawn.uniform_(context.real("low", 0.0), context.real("high", 1.0), context.generator());
  set_drawn(context, drawn, type);
}

void random_normal(KernelContext& context) {
  draw_normal(context, context.integers("shape"), asked_type(context, DataType::kFloat32));
}

void random_uniform(KernelContext& context) {
  draw_uniform(context, context.integers("shape"), asked_type(context, DataType::kFloat32));
}

void random_normal_like(KernelContext& context) {
  const Array& like = context.array(0);
  draw_normal(context, like.data.sizes(), asked_type(context, like.type));
}

void random_uniform_like(KernelContext& context) {
  const Array& like = context.array(0);
  draw_uniform(context, like.data.sizes(), asked_type(context, like.type));
}

/// 1 with the given probability, else 0.
void bernoulli(KernelContext& context) {
  const Array& x = context.array(0);
  const at::Tensor drawn = at::rand(x.data.sizes(), context.generator(), at::TensorOptions(at::kDouble));
  set_drawn(context, drawn.lt(x.data.to(at::kCPU, at::kDouble)), asked_type(context, x.type));
}

/// Class numbers drawn with replacement from rows of unnormalised log probabilities: [N, C] -> [N,
/// sample_size].
void multinomial(KernelContext& context) {
  const at::Tensor& x = context.tensor(0);
  const std::int64_t samples = context.integer("sample_size", 1);
  if (x.dim() != 2 || x.size(1) == 0 || samples < 1) {
    context.fail(fmt::format("expected log probabilities [N, C] and a positive sample_size, got {} and {}",
                             graph::to_string(x.sizes()), samples));
  }
  const at::Tensor probabilities = at::softmax(x.to(at::kCPU, at::kDouble), 1);
  set_drawn(context, at::multinomial(probabilities, samples, true, context.generator()),
            asked_type(context, DataType::kInt32));
}

/// In training, each element is 0 with probability `ratio`, else x / (1 - ratio): Srivastava et al. 2014.
/// Else x itself.
///
/// data, ratio (0.5), training_mode (false) -> output, mask of what was kept
void dropout(KernelContext& context) {
  const Array& x = context.array(0);
  const double ratio =
      context.has(1) ? context.scalar(1) : context.real("ratio", 0.5);  // an attribute before opset 12
  const bool training = context.has(2) && context.scalar_int(2) != 0;
  if (!training || ratio == 0.0) {
    context.set(0, x.data, x.type);
    context.set(1, at::ones_like(x.data, at::TensorOptions(at::kBool).requires_grad(false)));
    return;
  }
  if (!(ratio > 0.0 && ratio < 1.0)) {
    context.fail(fmt::format("the ratio is {}, expected one in [0, 1)", ratio));
  }
  const at::Tensor drawn = at::rand(x.data.sizes(), context.generator(), at::TensorOptions(at::kDouble));
  const at::Tensor kept = drawn.ge(ratio).to(context.device());
  const at::Tensor wide = widened(x.data);
  context.set(0,
              at::where(kept, wide / (1.0 - ratio), at::zeros({}, wide.options())).to(x.data.scalar_type()),
              x.type);
  context.set(1, kept);
}

constexpr Kernel kKernels[] = {
    {"Dropout", dropout},
    {"RandomNormal", random_normal},
    {"RandomUniform", random_uniform},
    {"RandomNormalLike", random_normal_like},
    {"RandomUniformLike", random_uniform_like},
    {"Bernoulli", bernoulli},
    {"Multinomial", multinomial},
};

}  // namespace

std::span<const Kernel> random_kernels() { return kKernels; }

}  // namespace tempera::engine::aten
