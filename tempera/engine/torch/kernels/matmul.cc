#include <algorithm>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "tempera/engine/torch/kernels/compute.h"
#include "tempera/engine/torch/kernels/families.h"

namespace tempera::engine::aten {
namespace {

void require_vectors(const KernelContext& context, const at::Tensor& a, const at::Tensor& b) {
  if (a.dim() == 0 || b.dim() == 0) {
    context.fail("a matrix product takes no scalars");
  }
  const std::int64_t inner = b.size(b.dim() == 1 ? 0 : -2);
  if (a.size(-1) != inner) {
    context.fail(fmt::format("the inner dimensions differ: {} x {}", graph::to_string(a.sizes()),
                             graph::to_string(b.sizes())));
  }
}

void mat_mul(KernelContext& context) {
  const Array& a = context.array(0);
  const at::Tensor& b = context.tensor(1);
  require_vectors(context, a.data, b);
  // Integers wrap; the carriers of the unsigned ones agree with them in their low bits.
  context.set(0, wrap(at::matmul(widened(a.data), widened(b)).to(a.data.scalar_type()), a.type), a.type);
}

/// Y = alpha op(A) op(B) + beta C
void gemm(KernelContext& context) {
  const Array& first = context.array(0);
  at::Tensor a = widened(first.data);
  at::Tensor b = widened(context.tensor(1));
  if (a.dim() != 2 || b.dim() != 2) {
    context.fail(fmt::format("A has rank {} and B rank {}, expected 2", a.dim(), b.dim()));
  }
  a = context.integer("transA", 0) != 0 ? a.t() : a;
  b = context.integer("transB", 0) != 0 ? b.t() : b;
  require_vectors(context, a, b);
  const double alpha = context.real("alpha", 1.0);
  const double beta = context.real("beta", 1.0);
  const auto scaled = [](const at::Tensor& x, double factor) {
    if (factor == 1.0) {
      return x;
    }
    return x.is_floating_point() ? x * factor : x.to(at::kDouble).mul(factor).to(x.scalar_type());
  };
  at::Tensor y = scaled(at::mm(a, b), alpha);
  if (context.has(2)) {
    y = y + scaled(widened(context.tensor(2)), beta);
  }
  context.set(0, wrap(y.to(first.data.scalar_type()), first.type), first.type);
}

void einsum(KernelContext& context) {
  std::string equation = context.text("equation", "");
  std::erase(equation, ' ');
  std::vector<at::Tensor> operands;
  for (std::size_t i = 0; i < context.input_count(); ++i) {
    operands.push_back(widened(context.tensor(i)));
  }
  const Array& first = context.array(0);
  const bool is_bool = first.data.scalar_type() == at::kBool;
  if (is_bool) {
    for (at::Tensor& operand : operands) {
      operand = operand.to(at::kLong);
    }
  }
  context.set(0, wrap(at::einsum(equation, operands).to(first.data.scalar_type()), first.type), first.type);
}

/// Integers minus their zero point, in double, where sums of products of 8-bit numbers are exact. A zero
/// point of one dimension belongs to the rows of A or the columns of B.
at::Tensor without_zero_point(const KernelContext& context, std::size_t i, std::size_t zero_point,
                              bool rows) {
  const at::Tensor x = context.tensor(i).to(at::kDouble);
  if (!context.has(zero_point)) {
    return x;
  }
  const at::Tensor zero = context.tensor(zero_point).to(at::kDouble);
  if (zero.numel() == 1) {
    return x - zero.reshape({});
  }
  return x - (zero.dim() == 1 && rows && x.dim() > 1 ? zero.unsqueeze(1) : zero);
}

void mat_mul_integer(KernelContext& context) {
  const at::Tensor a = without_zero_point(context, 0, 2, true);
  const at::Tensor b = without_zero_point(context, 1, 3, false);
  require_vectors(context, a, b);
  context.set(
      0, at::matmul(a, b).round().to(at::kLong).to(at::kInt));  // through int64, so that an overflow wraps
}

/// y = saturate(round((a - a_zero) (b - b_zero) a_scale b_scale / y_scale) + y_zero)
void q_linear_mat_mul(KernelContext& context) {
  const at::Tensor a = without_zero_point(context, 0, 2, true);
  const at::Tensor b = without_zero_point(context, 3, 5, false);
  require_vectors(context, a, b);
  const auto by_row = [](const at::Tensor& t) {
    const at::Tensor wide = t.to(at::kDouble);
    return wide.numel() == 1 ? wide.reshape({}) : wide.dim() == 1 ? wide.unsqueeze(1) : wide;
  };
  const auto by_column = [](const at::Tensor& t) {
    const at::Tensor wide = t.to(at::kDouble);
    return wide.numel() == 1 ? wide.reshape({}) : wide;
  };
  const at::Tensor scale =
      by_row(context.tensor(1)) * by_column(context.tensor(4)) / by_row(context.tensor(6));
  const Array& zero = context.array(7);
  context.set(0, quantized(at::matmul(a, b) * scale + by_row(zero.data), zero.type), zero.type);
}

void det(KernelContext& context) {
  const at::Tensor& x = context.tensor(0);
  if (x.dim() < 2 || x.size(-1) != x.size(-2)) {
    context.fail("expected square matrices");
  }
  context.set(0, at::linalg_det(widened(x)).to(x.scalar_type()));
}

constexpr Kernel kKernels[] = {
    {"MatMul", mat_mul},
    {"Gemm", gemm},
    {"Einsum", einsum},
    {"MatMulInteger", mat_mul_integer},
    {"QLinearMatMul", q_linear_mat_mul},
    {"Det", det},
};

}  // namespace

std::span<const Kernel> matmul_kernels() { return kKernels; }

}  // namespace tempera::engine::aten
