/// Operators that ask for or change a shape and leave the elements where they are, and Transpose.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "tempera/engine/torch/kernels/families.h"
#include "tempera/engine/torch/kernels/moving.h"

namespace tempera::engine::aten {
namespace {

std::vector<std::int64_t> dims_of(const KernelContext& context, std::size_t i) {
  const Value& value = context.value(i);
  return value.strings() != nullptr ? value.strings()->dims() : context.tensor(i).sizes().vec();
}

/// Dimensions start to end, both clamped to the rank.
void shape(KernelContext& context) {
  const std::vector<std::int64_t> dims = dims_of(context, 0);
  const auto rank = static_cast<std::int64_t>(dims.size());
  const auto clamp = [rank](std::int64_t i) { return std::clamp<std::int64_t>(i < 0 ? i + rank : i, 0, rank); };
  const std::int64_t start = clamp(context.integer("start", 0));
  const std::int64_t end = std::max(start, clamp(context.integer("end", rank)));
  const std::vector<std::int64_t> part(dims.begin() + start, dims.begin() + end);
  context.set(0, at::tensor(part, at::TensorOptions(at::kLong)).to(context.device()));
}

void size(KernelContext& context) {
  const std::int64_t count = graph::element_count(dims_of(context, 0));
  context.set(0, at::full({}, count, at::TensorOptions(context.device()).dtype(at::kLong)));
}

/// 0 copies the dimension at the same place (unless allowzero), -1 takes what is left.
void reshape(KernelContext& context) {
  const Array& x = context.array(0);
  const auto asked = context.ints_or(1, "shape");
  if (!asked) {
    context.fail("the new shape is missing");
  }
  std::vector<std::int64_t> dims = *asked;
  const bool zero_is_zero = context.integer("allowzero", 0) != 0;
  std::int64_t unknown = -1;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == 0 && !zero_is_zero) {
      if (static_cast<std::int64_t>(i) >= x.data.dim()) {
        context.fail(fmt::format("shape {} copies dimension {} of a tensor of rank {}", graph::to_string(*asked), i, x.data.dim()));
      }
      dims[i] = x.data.size(static_cast<std::int64_t>(i));
    }
    if (dims[i] == -1 && unknown < 0) {
      unknown = static_cast<std::int64_t>(i);
      dims[i] = 1;
    }
  }
  const auto mismatch = [&] {
    context.fail(fmt::format("a tensor of shape {} cannot take the shape {}", graph::to_string(x.data.sizes().vec()),
                             graph::to_string(*asked)));
  };
  if (std::any_of(dims.begin(), dims.end(), [](std::int64_t d) { return d < 0; })) {
    mismatch();
  }
  if (unknown >= 0) {
    const std::int64_t known = graph::element_count(dims);  // checks for overflow
    dims[static_cast<std::size_t>(unknown)] = known == 0 ? 0 : x.data.numel() / known;
  }
  if (graph::element_count(dims) != x.data.numel()) {
    mismatch();
  }
  context.set(0, x.data.reshape(dims), x.type);
}

/// [d0 ... d(axis-1), d(axis) ...]
void flatten(KernelContext& context) {
  const Array& x = context.array(0);
  const std::int64_t rank = x.data.dim();
  std::int64_t axis = context.integer("axis", 1);
  if (axis < -rank || axis > rank) {
    context.fail(fmt::format("axis {} of a tensor of rank {}", axis, rank));
  }
  axis = axis < 0 ? axis + rank : axis;
  const at::IntArrayRef dims = x.data.sizes();
  const std::int64_t rows = graph::element_count(std::span(dims.data(), static_cast<std::size_t>(axis)));
  const std::int64_t columns = graph::element_count(std::span(dims.data() + axis, static_cast<std::size_t>(rank - axis)));
  context.set(0, x.data.reshape({rows, columns}), x.type);
}

void squeeze(KernelContext& context) {
  const Array& x = context.array(0);
  const auto axes = context.ints_or(1, "axes");
  std::vector<bool> drop(static_cast<std::size_t>(x.data.dim()), !axes.has_value());
  for (const std::int64_t axis : axes.value_or(std::vector<std::int64_t>{})) {
    const std::int64_t at = context.axis(axis, x.data.dim());
    if (x.data.size(at) != 1) {
      context.fail(fmt::format("axis {} of shape {} is not 1", axis, graph::to_string(x.data.sizes().vec())));
    }
    drop[static_cast<std::size_t>(at)] = true;
  }
  std::vector<std::int64_t> dims;
  for (std::size_t i = 0; i < drop.size(); ++i) {
    const std::int64_t dim = x.data.size(static_cast<std::int64_t>(i));
    if (!drop[i] || dim != 1) {
      dims.push_back(dim);
    }
  }
  context.set(0, x.data.reshape(dims), x.type);
}

void unsqueeze(KernelContext& context) {
  const Array& x = context.array(0);
  const auto axes = context.ints_or(1, "axes");
  if (!axes) {
    context.fail("the axes are missing");
  }
  const std::size_t rank = static_cast<std::size_t>(x.data.dim()) + axes->size();
  std::vector<bool> fresh(rank, false);
  for (const std::int64_t axis : *axes) {
    const auto at = static_cast<std::size_t>(context.axis(axis, static_cast<std::int64_t>(rank)));
    if (fresh[at]) {
      context.fail(fmt::format("axis {} is listed twice", axis));
    }
    fresh[at] = true;
  }
  std::vector<std::int64_t> dims;
  std::int64_t next = 0;
  for (std::size_t i = 0; i < rank; ++i) {
    dims.push_back(fresh[i] ? 1 : x.data.size(next));
    next += fresh[i] ? 0 : 1;
  }
  context.set(0, x.data.reshape(dims), x.type);
}

void transpose(KernelContext& context) {
  const Array& x = context.array(0);
  std::vector<std::int64_t> order = context.integers("perm");
  if (!context.has_attribute("perm")) {
    order.resize(static_cast<std::size_t>(x.data.dim()));
    std::iota(order.rbegin(), order.rend(), 0);
  }
  context.set(0, x.data.permute(order), x.type);
}

/// Broadcasts both ways: a dimension of the asked shape may be 1 where the input's is not.
void expand(KernelContext& context) {
  const Array& x = context.array(0);
  const std::vector<std::int64_t> asked = context.ints(1);
  std::vector<std::int64_t> dims(std::max(asked.size(), static_cast<std::size_t>(x.data.dim())), 1);
  for (std::size_t i = 0; i < dims.size(); ++i) {  // from the back
    const std::int64_t want = i < asked.size() ? asked[asked.size() - 1 - i] : 1;
    const auto at = static_cast<std::int64_t>(i) + 1;
    const std::int64_t have = at <= x.data.dim() ? x.data.size(-at) : 1;
    dims[dims.size() - 1 - i] = have == 1 ? want : have;
  }
  if (std::any_of(asked.begin(), asked.end(), [](std::int64_t d) { return d < 0; })) {
    context.fail(fmt::format("shape {} has a negative dimension", graph::to_string(asked)));
  }
  // The other direction is torch's to check: it refuses a dimension that is neither 1 nor equal.
  for (std::size_t i = 0; i < asked.size(); ++i) {
    const std::int64_t dim = dims[dims.size() - asked.size() + i];
    if (asked[i] != 1 && asked[i] != dim) {
      context.fail(fmt::format("shapes {} and {} do not broadcast", graph::to_string(x.data.sizes().vec()), graph::to_string(asked)));
    }
  }
  context.set(0, x.data.expand(dims), x.type);
}

constexpr Kernel kKernels[] = {
    {"Expand", moving<expand>},   {"Flatten", moving<flatten>}, {"Reshape", moving<reshape>},
    {"Shape", shape},             {"Size", size},               {"Squeeze", moving<squeeze>},
    {"Transpose", moving<transpose>}, {"Unsqueeze", moving<unsqueeze>},
};

}  // namespace

std::span<const Kernel> shape_kernels() { return kKernels; }

}  // namespace tempera::engine::aten
