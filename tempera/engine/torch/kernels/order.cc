/// Operators that go through elements in order: searching, sorting, running sums.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include "tempera/engine/torch/kernels/families.h"
#include "tempera/engine/torch/kernels/unsigned64.h"

namespace tempera::engine::aten {
namespace {

/// The first position of the extreme value, or the last with select_last_index.
template <bool is_max>
void arg_extreme(KernelContext& context) {
  const Array& x = context.array(0);
  const std::int64_t axis = context.axis(context.integer("axis", 0), x.data.dim());
  const bool keep = context.integer("keepdims", 1) != 0;
  const bool last = context.integer("select_last_index", 0) != 0;
  at::Tensor key = order_key(x.data, x.type);
  if (last) {
    key = at::flip(key, {axis});
  }
  at::Tensor found = is_max ? at::argmax(key, axis, keep) : at::argmin(key, axis, keep);
  if (last) {
    found = at::rsub(found, x.data.size(axis) - 1);
  }
  context.set(0, found);
}

/// Running sums or products; exclusive: without the element itself; reverse: from the end.
template <bool is_sum>
void cumulative(KernelContext& context) {
  const Array& x = context.array(0);
  const std::int64_t axis = context.axis(context.scalar_int(1), x.data.dim());
  const bool reverse = context.integer("reverse", 0) != 0;
  at::Tensor y = reverse ? at::flip(x.data, {axis}) : x.data;
  if (context.integer("exclusive", 0) != 0 && y.size(axis) > 0) {
    const at::Tensor first = at::full_like(at::slice(y, axis, 0, 1), is_sum ? 0 : 1);
    y = at::cat({first, at::slice(y, axis, 0, y.size(axis) - 1)}, axis);
  }
  y = is_sum ? at::cumsum(y, axis, x.data.scalar_type()) : at::cumprod(y, axis, x.data.scalar_type());
  context.set(0, wrap(reverse ? at::flip(y, {axis}) : y, x.type), x.type);
}

/// Of equal values the one with the lower position comes first.
void top_k(KernelContext& context) {
  const Array& x = context.array(0);
  const std::int64_t axis = context.axis(context.integer("axis", -1), x.data.dim());
  const std::int64_t k = context.has(1) ? context.scalar_int(1) : context.integer("k", 0);
  if (k < 0 || k > x.data.size(axis)) {
    context.fail(fmt::format("k is {}, expected 0 to {}", k, x.data.size(axis)));
  }
  const auto [values, places] = at::sort(order_key(x.data, x.type), /*stable=*/true, axis,
                                         /*descending=*/context.integer("largest", 1) != 0);
  context.set(0, order_key(at::slice(values, axis, 0, k), x.type), x.type);
  context.set(1, at::slice(places, axis, 0, k).contiguous());
}

/// Distinct elements (or slices along an axis), sorted or in order of first appearance; where each first lies, which one
/// each element is, and how many there are of each.
void unique(KernelContext& context) {
  const Array& x = context.array(0);
  const bool flat = !context.has_attribute("axis");
  const std::int64_t axis = flat ? 0 : context.axis(context.integer("axis", 0), x.data.dim());
  const at::Tensor data = order_key(flat ? x.data.reshape({-1}) : x.data, x.type);
  auto [values, inverse, counts] = at::unique_dim(data, axis, /*sorted=*/true, /*return_inverse=*/true, /*return_counts=*/true);
  inverse = inverse.reshape({-1});
  const std::int64_t length = data.size(axis);
  at::Tensor first = at::full({values.size(axis)}, length, inverse.options());
  first = at::scatter_reduce(first, 0, inverse, at::arange(length, inverse.options()), "amin");
  if (context.integer("sorted", 1) == 0) {
    const at::Tensor order = at::argsort(first);
    values = at::index_select(values, axis, order);
    first = at::index_select(first, 0, order);
    counts = at::index_select(counts, 0, order);
    inverse = at::index_select(at::argsort(order), 0, inverse);
  }
  context.set(0, order_key(values, x.type), x.type);
  context.set(1, first);
  context.set(2, inverse);
  context.set(3, counts.reshape({-1}));
}

constexpr Kernel kKernels[] = {
    {"ArgMax", arg_extreme<true>}, {"ArgMin", arg_extreme<false>}, {"CumProd", cumulative<false>},
    {"CumSum", cumulative<true>},  {"TopK", top_k},                {"Unique", unique},
};

}  // namespace

std::span<const Kernel> order_kernels() { return kKernels; }

}  // namespace tempera::engine::aten
