/// Operators that make values from attributes or from a shape.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <limits>

#include "tempera/engine/torch/kernels/cast.h"
#include "tempera/engine/torch/kernels/families.h"

namespace tempera::engine::aten {
namespace {

/// A sparse tensor written out. \throws Error{kBadModel} for an index outside
Value densify(const KernelContext& context, const graph::SparseTensor& sparse) {
  const Value held = to_value(sparse.values);
  const Value where = to_value(sparse.indices);
  if (held.array() == nullptr || where.array() == nullptr) {
    context.unsupported("a sparse tensor of strings");
  }
  const at::Tensor& indices = where.array()->data;
  const std::int64_t rank = static_cast<std::int64_t>(sparse.dims.size());
  at::Tensor linear = indices;
  if (indices.dim() == 2) {
    linear = at::zeros({indices.size(0)}, at::kLong);
    for (std::int64_t i = 0; i < rank; ++i) {
      linear = linear * sparse.dims[static_cast<std::size_t>(i)] + indices.select(1, i);
    }
  }
  const at::Tensor flat = at::zeros({graph::element_count(sparse.dims)}, held.array()->data.options());
  const at::Tensor dense = flat.index_put({linear}, held.array()->data).reshape(sparse.dims);
  return Value(Array{dense.to(context.device()), held.array()->type});
}

void constant(KernelContext& context) {
  const auto& attributes = context.node().attributes;
  if (attributes.size() != 1) {
    context.fail(fmt::format("a Constant has {} attributes, expected one", attributes.size()));
  }
  const graph::Attribute& value = attributes.begin()->second;
  const at::TensorOptions options(context.device());
  if (const auto* tensor = std::get_if<graph::Tensor>(&value)) {
    context.set(0, to_value(*tensor, context.device()));
  } else if (const auto* number = std::get_if<float>(&value)) {
    context.set(0, at::full({}, *number, options.dtype(at::kFloat)));
  } else if (const auto* integer = std::get_if<std::int64_t>(&value)) {
    context.set(0, at::full({}, *integer, options.dtype(at::kLong)));
  } else if (const auto* floats = std::get_if<std::vector<float>>(&value)) {
    context.set(0, at::tensor(*floats, options.dtype(at::kFloat)));
  } else if (const auto* integers = std::get_if<std::vector<std::int64_t>>(&value)) {
    context.set(0, at::tensor(*integers, options.dtype(at::kLong)));
  } else if (const auto* text = std::get_if<std::string>(&value)) {
    context.set(0, Value(graph::Tensor::strings({}, {*text})));
  } else if (const auto* texts = std::get_if<std::vector<std::string>>(&value)) {
    context.set(0, Value(graph::Tensor::strings({static_cast<std::int64_t>(texts->size())}, *texts)));
  } else if (const auto* sparse = std::get_if<graph::SparseTensor>(&value)) {
    context.set(0, densify(context, *sparse));
  } else {
    context.fail(fmt::format("attribute '{}' holds no constant", attributes.begin()->first));
  }
}

void constant_of_shape(KernelContext& context) {
  const std::vector<std::int64_t> dims = context.ints(0);
  const auto fill = context.attribute<graph::Tensor>("value");
  if (!fill) {
    context.set(0, at::zeros(dims, at::TensorOptions(context.device()).dtype(at::kFloat)));
    return;
  }
  const Value value = to_value(*fill, context.device());
  if (value.array() == nullptr || value.array()->data.numel() != 1) {
    context.fail("attribute 'value' is not one number");
  }
  context.set(0, value.array()->data.reshape({}).expand(dims), value.array()->type);
}

/// start, start + delta, ... below limit: max(0, ceil((limit - start) / delta)) elements.
void range(KernelContext& context) {
  const Array& start = context.array(0);
  const double delta = context.scalar(2);
  if (delta == 0.0) {
    context.fail("the step of a Range is 0");
  }
  std::int64_t count = 0;
  if (numeric::is_integer(start.type)) {
    const std::int64_t first = context.scalar_int(0);
    const std::int64_t last = context.scalar_int(1);
    const std::int64_t step = context.scalar_int(2);
    std::int64_t span = 0;
    if (step == std::numeric_limits<std::int64_t>::min() ||
        __builtin_sub_overflow(step > 0 ? last : first, step > 0 ? first : last, &span)) {
      context.fail(fmt::format("a Range from {} to {} by {}", first, last, step));
    }
    count = span <= 0 ? 0 : (span - 1) / std::abs(step) + 1;
  } else {
    count = static_cast<std::int64_t>(std::max(0.0, std::ceil((context.scalar(1) - context.scalar(0)) / delta)));
  }
  const at::Tensor steps = at::arange(count, at::TensorOptions(context.device()).dtype(at::kLong)).to(start.data.scalar_type());
  context.set(0, at::add(start.data.reshape({}), at::mul(steps, context.tensor(2).reshape({}))), start.type);
}

void eye_like(KernelContext& context) {
  const Array& x = context.array(0);
  if (x.data.dim() != 2) {
    context.fail(fmt::format("the input has rank {}, expected 2", x.data.dim()));
  }
  const auto type = static_cast<DataType>(context.integer("dtype", static_cast<std::int64_t>(x.type)));
  const at::Tensor rows = at::arange(x.data.size(0), at::TensorOptions(context.device()).dtype(at::kLong)).unsqueeze(1);
  const at::Tensor columns = at::arange(x.data.size(1), at::TensorOptions(context.device()).dtype(at::kLong));
  const at::Tensor on = columns.sub(rows).eq(context.integer("k", 0));
  context.set(0, Value(cast({on, DataType::kBool}, type)));
}

constexpr Kernel kKernels[] = {
    {"Constant", constant},
    {"ConstantOfShape", constant_of_shape},
    {"EyeLike", eye_like},
    {"Range", range},
};

}  // namespace

std::span<const Kernel> constant_kernels() { return kKernels; }

}  // namespace tempera::engine::aten
