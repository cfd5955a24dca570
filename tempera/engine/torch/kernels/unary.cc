/// Operators of one input, element by element, with a result of the same type or bool.
#include <ATen/ATen.h>

#include "tempera/engine/torch/kernels/families.h"

namespace tempera::engine::aten {
namespace {

using Function = at::Tensor (*)(const at::Tensor&);

template <Function function>
void same_type(KernelContext& context) {
  const Array& x = context.array(0);
  // Of integers torch computes such functions in float; ONNX keeps the type.
  context.set(0, wrap(function(x.data).to(x.data.scalar_type()), x.type), x.type);
}

template <Function function>
void to_bool(KernelContext& context) {
  context.set(0, function(context.tensor(0)));
}

/// Integers have no fraction, so these leave them alone.
template <Function function>
at::Tensor rounding(const at::Tensor& x) {
  return x.is_floating_point() ? function(x) : x;
}

at::Tensor round_half_even(const at::Tensor& x) { return at::round(x); }

/// NaN stays NaN.
void sign_kernel(KernelContext& context) {
  const Array& x = context.array(0);
  if (x.type == DataType::kUint64) {
    context.set(0, x.data.ne(0).to(at::kLong), x.type);
    return;
  }
  const at::Tensor y = at::sign(x.data);
  context.set(0, x.data.is_floating_point() ? at::where(at::isnan(x.data), x.data, y) : y, x.type);
}

void abs_kernel(KernelContext& context) {
  const Array& x = context.array(0);
  context.set(0, x.type == DataType::kUint64 ? x.data : at::abs(x.data), x.type);
}

void identity(KernelContext& context) { context.set(0, context.has(0) ? context.value(0) : Value()); }

void is_inf(KernelContext& context) {
  const at::Tensor& x = context.tensor(0);
  at::Tensor found = at::zeros_like(x, at::kBool);
  if (context.integer("detect_positive", 1) != 0) {
    found = found.logical_or(at::isposinf(x));
  }
  if (context.integer("detect_negative", 1) != 0) {
    found = found.logical_or(at::isneginf(x));
  }
  context.set(0, found);
}

constexpr Kernel kKernels[] = {
    {"Abs", abs_kernel},
    {"Acos", same_type<at::acos>},
    {"Acosh", same_type<at::acosh>},
    {"Asin", same_type<at::asin>},
    {"Asinh", same_type<at::asinh>},
    {"Atan", same_type<at::atan>},
    {"Atanh", same_type<at::atanh>},
    {"BitwiseNot", same_type<at::bitwise_not>},
    {"Ceil", same_type<rounding<at::ceil>>},
    {"Cos", same_type<at::cos>},
    {"Cosh", same_type<at::cosh>},
    {"Erf", same_type<at::erf>},
    {"Exp", same_type<at::exp>},
    {"Floor", same_type<rounding<at::floor>>},
    {"Identity", identity},
    {"IsInf", is_inf},
    {"IsNaN", to_bool<at::isnan>},
    {"Log", same_type<at::log>},
    {"Neg", same_type<at::neg>},
    {"Not", to_bool<at::logical_not>},
    {"Reciprocal", same_type<at::reciprocal>},
    {"Round", same_type<rounding<round_half_even>>},
    {"Sign", sign_kernel},
    {"Sin", same_type<at::sin>},
    {"Sinh", same_type<at::sinh>},
    {"Sqrt", same_type<at::sqrt>},
    {"Tan", same_type<at::tan>},
    {"Tanh", same_type<at::tanh>},
};

}  // namespace

std::span<const Kernel> unary_kernels() { return kKernels; }

}  // namespace tempera::engine::aten
