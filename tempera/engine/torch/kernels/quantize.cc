#include <ATen/ATen.h>
#include <fmt/format.h>

#include "tempera/engine/torch/kernels/compute.h"
#include "tempera/engine/torch/kernels/families.h"

namespace tempera::engine::aten {
namespace {

/// A scale or zero point made to broadcast against x: one for all, one for each element of `axis`, or one for
/// each block of `block_size` elements along it.
at::Tensor spread(const KernelContext& context, const at::Tensor& parameter, const at::Tensor& x) {
  if (parameter.numel() == 1 && parameter.dim() <= 1) {
    return parameter.reshape({});
  }
  const std::int64_t axis = context.axis(context.integer("axis", 1), x.dim());
  const std::int64_t block = context.integer("block_size", 0);
  if (block == 0) {
    if (parameter.dim() != 1 || parameter.numel() != x.size(axis)) {
      context.fail(fmt::format("a scale or zero point of {}, expected [{}] for axis {} of {}",
                               graph::to_string(parameter.sizes()), x.size(axis), axis,
                               graph::to_string(x.sizes())));
    }
    return along_axis(parameter, axis, x.dim());
  }
  if (block < 0 || parameter.dim() != x.dim() || parameter.size(axis) != (x.size(axis) + block - 1) / block) {
    context.fail(fmt::format("a scale or zero point of {} does not fit blocks of {} along axis {} of {}",
                             graph::to_string(parameter.sizes()), block, axis, graph::to_string(x.sizes())));
  }
  return parameter.repeat_interleave(block, axis).slice(axis, 0, x.size(axis));
}

std::optional<DataType> type_attribute(const KernelContext& context, std::string_view name) {
  const std::int64_t number = context.integer(name, 0);
  if (number == 0) {
    return std::nullopt;
  }
  if (!numeric::is_known(static_cast<int>(number))) {
    context.fail(fmt::format("attribute '{}' is {}, which names no type", name, number));
  }
  return static_cast<DataType>(number);
}

/// y = saturate(round(x / scale) + zero_point), the quotient in the precision of the scale or of the
/// attribute.
void quantize_linear(KernelContext& context) {
  const at::Tensor& x = context.tensor(0);
  const at::Tensor& scale = context.tensor(1);
  DataType type = type_attribute(context, "output_dtype").value_or(DataType::kUint8);
  if (context.has(2)) {
    type = context.type(2);
  }
  const std::optional<DataType> asked = type_attribute(context, "precision");
  const at::ScalarType precision = asked ? carrier(*asked) : scale.scalar_type();
  const at::Tensor quotient = (widened(x.to(precision)) / widened(spread(context, scale, x).to(precision)))
                                  .to(precision)
                                  .to(at::kDouble);
  at::Tensor y = numeric::is_integer(type) ? quotient.round() : quotient;
  if (context.has(2)) {
    y = y + spread(context, context.tensor(2), x).to(at::kDouble);
  }
  context.set(0, quantized(y, type, context.integer("saturate", 1) != 0), type);
}

/// y = (x - zero_point) scale, rounded once to the output's type.
void dequantize_linear(KernelContext& context) {
  const at::Tensor& x = context.tensor(0);
  const DataType type = type_attribute(context, "output_dtype").value_or(context.type(1));
  at::Tensor y = x.to(at::kDouble);
  if (context.has(2)) {
    y = y - spread(context, context.tensor(2), x).to(at::kDouble);
  }
  y = y * spread(context, context.tensor(1), x).to(at::kDouble);
  context.set(0, wrap(y.to(carrier(type)), type), type);
}

/// Quantises to uint8 by the range of x itself, widened to hold 0:
///
///   scale = (max - min) / 255,  zero_point = saturate(round(-min / scale)),  y = saturate(round(x / scale) +
///   zero_point)
///
/// A tensor of zeros takes the scale 1 / 255.
void dynamic_quantize_linear(KernelContext& context) {
  const at::Tensor x = context.tensor(0).to(at::kFloat);
  if (x.numel() == 0) {
    context.fail("an empty tensor has no range to quantise by");
  }
  const at::Tensor largest = x.max().clamp_min(0);
  const at::Tensor smallest = x.min().clamp_max(0);
  const at::Tensor range = largest - smallest;
  const at::Tensor scale = at::where(range.eq(0), at::ones({}, range.options()), range) / 255;
  const at::Tensor zero_point = (-smallest / scale).round().clamp(0, 255);
  context.set(0, round_saturate((x / scale).round() + zero_point, DataType::kUint8));
  context.set(1, scale);
  context.set(2, round_saturate(zero_point, DataType::kUint8));
}

constexpr Kernel kKernels[] = {
    {"QuantizeLinear", quantize_linear},
    {"DequantizeLinear", dequantize_linear},
    {"DynamicQuantizeLinear", dynamic_quantize_linear},
};

}  // namespace

std::span<const Kernel> quantize_kernels() { return kKernels; }

}  // namespace tempera::engine::aten
