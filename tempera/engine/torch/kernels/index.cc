/// Operators that read or write elements at given positions.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include "tempera/engine/torch/kernels/families.h"
#include "tempera/engine/torch/kernels/moving.h"
#include "tempera/engine/torch/kernels/unsigned64.h"

namespace tempera::engine::aten {
namespace {

/// Input i as int64 positions in [0, length); negative ones count from the end.
/// \throws Error{kBadModel} for one outside [-length, length)
at::Tensor positions(const KernelContext& context, std::size_t i, std::int64_t length) {
  const at::Tensor index = context.tensor(i).to(at::kLong);
  const at::Tensor outside = index.lt(-length).logical_or(index.ge(length));
  // On a GPU a bad index would poison the device, so it is looked for on the host there, too.
  if (outside.any().item<bool>()) {
    context.fail(fmt::format("index {} outside [{}, {})", index.masked_select(outside)[0].item<std::int64_t>(), -length, length));
  }
  return at::where(index.lt(0), index.add(length), index);
}

/// x [.., length, ..] at index [j...] -> [.., j..., ..]
void gather(KernelContext& context) {
  const Array& x = context.array(0);
  const std::int64_t axis = context.axis(context.integer("axis", 0), x.data.dim());
  const at::Tensor index = positions(context, 1, x.data.size(axis));
  std::vector<std::int64_t> dims = x.data.sizes().vec();
  dims.erase(dims.begin() + axis);
  dims.insert(dims.begin() + axis, index.sizes().begin(), index.sizes().end());
  context.set(0, at::index_select(x.data, axis, index.reshape({-1})).reshape(dims), x.type);
}

void gather_elements(KernelContext& context) {
  const Array& x = context.array(0);
  const std::int64_t axis = context.axis(context.integer("axis", 0), x.data.dim());
  context.set(0, at::gather(x.data, axis, positions(context, 1, x.data.size(axis))), x.type);
}

/// The position in x, its first `first` dimensions skipped, that each index tuple [.., k] names, row-major.
at::Tensor linear_positions(const KernelContext& context, const at::Tensor& x, const at::Tensor& index, std::int64_t first) {
  const std::int64_t k = index.size(-1);
  at::Tensor linear = at::zeros(index.sizes().slice(0, static_cast<std::size_t>(index.dim() - 1)), index.options());
  for (std::int64_t i = 0; i < k; ++i) {
    const std::int64_t length = x.size(first + i);
    at::Tensor part = index.select(-1, i);
    const at::Tensor outside = part.lt(-length).logical_or(part.ge(length));
    if (outside.any().item<bool>()) {
      context.fail(fmt::format("index {} outside [{}, {}) of axis {}", part.masked_select(outside)[0].item<std::int64_t>(),
                               -length, length, first + i));
    }
    part = at::where(part.lt(0), part.add(length), part);
    linear = linear.mul(length).add(part);
  }
  return linear;
}

std::int64_t product(at::IntArrayRef dims) { return graph::element_count(std::span(dims.data(), dims.size())); }

/// x [b..., d0..d(k-1), r...] at index [b..., j..., k] -> [b..., j..., r...]
void gather_nd(KernelContext& context) {
  const Array& x = context.array(0);
  const at::Tensor index = context.tensor(1).to(at::kLong);
  const std::int64_t batch_dims = context.integer("batch_dims", 0);
  if (index.dim() < 1 || batch_dims < 0 || batch_dims >= index.dim() || batch_dims + index.size(-1) > x.data.dim()) {
    context.fail(fmt::format("indices of shape {} do not fit a tensor of shape {}", graph::to_string(index.sizes().vec()),
                             graph::to_string(x.data.sizes().vec())));
  }
  const auto b = static_cast<std::size_t>(batch_dims);
  const auto k = static_cast<std::size_t>(index.size(-1));
  const at::IntArrayRef dims = x.data.sizes();
  const std::int64_t batch = product(dims.slice(0, b));
  const std::int64_t indexed = product(dims.slice(b, k));
  at::Tensor linear = linear_positions(context, x.data, index, batch_dims).reshape({batch, -1});
  linear = linear.add(at::arange(batch, index.options()).mul(indexed).unsqueeze(1)).reshape({-1});
  std::vector<std::int64_t> result = index.sizes().slice(0, static_cast<std::size_t>(index.dim() - 1)).vec();
  const at::IntArrayRef rest = dims.slice(b + k);
  result.insert(result.end(), rest.begin(), rest.end());
  std::vector<std::int64_t> rows = {batch * indexed};
  rows.insert(rows.end(), rest.begin(), rest.end());
  context.set(0, at::index_select(x.data.reshape(rows), 0, linear).reshape(result), x.type);
}

/// The name of torch's reduction; empty for plain writing.
std::string reduction(const KernelContext& context) {
  const std::string name = context.text("reduction", "none");
  if (name == "none") return "";
  if (name == "add") return "sum";
  if (name == "mul") return "prod";
  if (name == "max") return "amax";
  if (name == "min") return "amin";
  context.fail(fmt::format("attribute 'reduction' is '{}', expected none, add, mul, max or min", name));
}

/// Duplicate positions reduce; without a reduction the last one written wins on the CPU.
at::Tensor scatter_with(const KernelContext& context, const Array& x, const at::Tensor& data, std::int64_t axis,
                        const at::Tensor& index, const at::Tensor& updates) {
  const std::string name = reduction(context);
  if (name.empty()) {
    return at::scatter(data, axis, index, updates);
  }
  if (x.type == DataType::kBool) {  // add and max are "or", mul and min are "and"
    const at::Tensor bytes = at::scatter_reduce(data.to(at::kByte), axis, index, updates.to(at::kByte),
                                                name == "sum" ? "amax" : name == "prod" ? "amin" : name);
    return bytes.to(at::kBool);
  }
  const bool ordered = name == "amax" || name == "amin";
  const at::Tensor result =
      at::scatter_reduce(ordered ? order_key(data, x.type) : data, axis, index,
                         ordered ? order_key(updates, x.type) : updates, name);
  return ordered ? order_key(result, x.type) : wrap(result, x.type);
}

void scatter_elements(KernelContext& context) {
  const Array& x = context.array(0);
  const std::int64_t axis = context.axis(context.integer("axis", 0), x.data.dim());
  const at::Tensor index = positions(context, 1, x.data.size(axis));
  context.set(0, scatter_with(context, x, x.data, axis, index, context.tensor(2)), x.type);
}

/// x [d0..d(k-1), r...], index [j..., k], updates [j..., r...]
void scatter_nd(KernelContext& context) {
  const Array& x = context.array(0);
  const at::Tensor index = context.tensor(1).to(at::kLong);
  if (index.dim() < 1 || index.size(-1) > x.data.dim()) {
    context.fail(fmt::format("indices of shape {} do not fit a tensor of shape {}", graph::to_string(index.sizes().vec()),
                             graph::to_string(x.data.sizes().vec())));
  }
  const auto k = static_cast<std::size_t>(index.size(-1));
  const at::IntArrayRef dims = x.data.sizes();
  const std::int64_t rows = product(dims.slice(0, k));
  const std::int64_t columns = product(dims.slice(k));
  const at::Tensor linear = linear_positions(context, x.data, index, 0).reshape({-1, 1}).expand({-1, columns});
  const at::Tensor updates = context.tensor(2).reshape({linear.size(0), columns});
  const at::Tensor y = scatter_with(context, x, x.data.reshape({rows, columns}), 0, linear, updates);
  context.set(0, y.reshape(dims), x.type);
}

/// Writes values[1] at each index along a new axis of `depth`, values[0] elsewhere; an index outside writes nothing.
void one_hot(KernelContext& context) {
  const at::Tensor index = context.tensor(0).to(at::kLong);
  const std::int64_t depth = context.tensor(1).reshape({-1})[0].to(at::kLong).item<std::int64_t>();
  const Array& values = context.array(2);
  if (depth < 0 || values.data.numel() != 2) {
    context.fail(fmt::format("a depth of {} and {} values, expected a depth >= 0 and [off, on]", depth, values.data.numel()));
  }
  const std::int64_t axis = context.axis(context.integer("axis", -1), index.dim() + 1);
  const at::Tensor wrapped = at::where(index.lt(0), index.add(depth), index);
  std::vector<std::int64_t> dims(static_cast<std::size_t>(index.dim()) + 1, 1);
  dims[static_cast<std::size_t>(axis)] = depth;
  const at::Tensor on = wrapped.unsqueeze(axis).eq(at::arange(depth, index.options()).reshape(dims));
  context.set(0, at::where(on, values.data[1], values.data[0]), values.type);
}

/// [rank, count], in row-major order; [0, count] for a scalar
void non_zero(KernelContext& context) { context.set(0, at::nonzero(context.tensor(0)).t().contiguous()); }

constexpr Kernel kKernels[] = {
    {"Gather", moving<gather>},
    {"GatherElements", moving<gather_elements>},
    {"GatherND", moving<gather_nd>},
    {"NonZero", non_zero},
    {"OneHot", one_hot},
    {"Scatter", moving<scatter_elements>},
    {"ScatterElements", moving<scatter_elements>},
    {"ScatterND", moving<scatter_nd>},
};

}  // namespace

std::span<const Kernel> index_kernels() { return kKernels; }

}  // namespace tempera::engine::aten
