/// Reductions over axes.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "tempera/engine/torch/kernels/families.h"
#include "tempera/engine/torch/kernels/unsigned64.h"

namespace tempera::engine::aten {
namespace {

using Axes = std::vector<std::int64_t>;

/// A reduction of the listed axes, none of them repeated; keeps them as 1 when `keep`. `axes` is never empty.
using Reduction = at::Tensor (*)(const at::Tensor& x, const Axes& axes, bool keep, DataType type);

/// Axes by input or attribute; none listed means all of them, or with noop_with_empty_axes none.
template <Reduction reduction>
void reduce(KernelContext& context) {
  const Array& x = context.array(0);
  const bool keep = context.integer("keepdims", 1) != 0;
  Axes axes;
  for (const std::int64_t axis : context.ints_or(1, "axes").value_or(Axes{})) {
    axes.push_back(context.axis(axis, x.data.dim()));
  }
  std::sort(axes.begin(), axes.end());
  axes.erase(std::unique(axes.begin(), axes.end()), axes.end());
  if (axes.empty() && context.integer("noop_with_empty_axes", 0) == 0) {
    for (std::int64_t axis = 0; axis < x.data.dim(); ++axis) {
      axes.push_back(axis);
    }
  }
  if (axes.empty()) {
    // Nothing is summed over; what the operator does to each element (|x|, x^2, log) is still done. A made-up axis of 1.
    context.set(0, wrap(reduction(x.data.unsqueeze(0), {0}, false, x.type), x.type), x.type);
    return;
  }
  context.set(0, wrap(reduction(x.data, axes, keep, x.type), x.type), x.type);
}

at::Tensor sum(const at::Tensor& x, const Axes& axes, bool keep, DataType /*type*/) {
  return at::sum(x, axes, keep, x.scalar_type());
}

at::Tensor sum_of_squares(const at::Tensor& x, const Axes& axes, bool keep, DataType type) {
  return sum(at::mul(x, x), axes, keep, type);
}

at::Tensor l1(const at::Tensor& x, const Axes& axes, bool keep, DataType type) {
  return sum(type == DataType::kUint64 ? x : at::abs(x), axes, keep, type);
}

at::Tensor l2(const at::Tensor& x, const Axes& axes, bool keep, DataType type) {
  if (x.is_floating_point()) {
    return at::linalg_vector_norm(x, 2, axes, keep);
  }
  return at::sqrt(sum_of_squares(to_double(x, type), axes, keep, DataType::kFloat64)).to(x.scalar_type());
}

/// Of integers truncated, as a cast would.
at::Tensor mean(const at::Tensor& x, const Axes& axes, bool keep, DataType type) {
  if (x.is_floating_point() || x.is_complex()) {
    return at::mean(x, axes, keep);
  }
  return at::mean(to_double(x, type), axes, keep).to(x.scalar_type());
}

/// In double for integers; cast back.
at::Tensor log_sum(const at::Tensor& x, const Axes& axes, bool keep, DataType type) {
  if (x.is_floating_point()) {
    return at::log(sum(x, axes, keep, type));
  }
  return at::log(at::sum(to_double(x, type), axes, keep)).to(x.scalar_type());
}

at::Tensor log_sum_exp(const at::Tensor& x, const Axes& axes, bool keep, DataType type) {
  return x.is_floating_point() ? at::logsumexp(x, axes, keep)
                               : at::logsumexp(to_double(x, type), axes, keep).to(x.scalar_type());
}

at::Tensor product(const at::Tensor& x, const Axes& axes, bool keep, DataType /*type*/) {
  at::Tensor y = x;
  for (const std::int64_t axis : axes) {
    y = at::prod(y, axis, /*keepdim=*/true, x.scalar_type());
  }
  return keep ? y : at::squeeze(y, axes);
}

/// The value that any other replaces: what an empty maximum (or minimum) gives.
at::Scalar limit(at::ScalarType type, bool lowest) {
  if (type == at::kBool) {
    return !lowest;
  }
  if (at::isFloatingType(type)) {
    const double infinity = std::numeric_limits<double>::infinity();
    return lowest ? -infinity : infinity;
  }
  return AT_DISPATCH_INTEGRAL_TYPES(type, "limit", [&] {
    return at::Scalar(lowest ? std::numeric_limits<scalar_t>::lowest() : std::numeric_limits<scalar_t>::max());
  });
}

template <bool is_max>
at::Tensor extreme(const at::Tensor& x, const Axes& axes, bool keep, DataType type) {
  const at::Tensor key = order_key(x, type);
  const bool is_empty = std::any_of(axes.begin(), axes.end(), [&](std::int64_t axis) { return x.size(axis) == 0; });
  if (is_empty) {
    std::vector<std::int64_t> dims = x.sizes().vec();
    for (const std::int64_t axis : axes) {
      dims[static_cast<std::size_t>(axis)] = 1;
    }
    const at::Tensor filled = at::full(dims, limit(x.scalar_type(), is_max), x.options());
    return order_key(keep ? filled : at::squeeze(filled, axes), type);
  }
  return order_key(is_max ? at::amax(key, axes, keep) : at::amin(key, axes, keep), type);
}

constexpr Kernel kKernels[] = {
    {"ReduceL1", reduce<l1>},
    {"ReduceL2", reduce<l2>},
    {"ReduceLogSum", reduce<log_sum>},
    {"ReduceLogSumExp", reduce<log_sum_exp>},
    {"ReduceMax", reduce<extreme<true>>},
    {"ReduceMean", reduce<mean>},
    {"ReduceMin", reduce<extreme<false>>},
    {"ReduceProd", reduce<product>},
    {"ReduceSum", reduce<sum>},
    {"ReduceSumSquare", reduce<sum_of_squares>},
};

}  // namespace

std::span<const Kernel> reduce_kernels() { return kKernels; }

}  // namespace tempera::engine::aten
