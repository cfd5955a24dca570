#include <algorithm>
#include <limits>
#include <numeric>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "tempera/engine/torch/kernels/compute.h"
#include "tempera/engine/torch/kernels/families.h"
#include "tempera/engine/torch/kernels/spatial.h"

namespace tempera::engine::aten {
namespace {

// A window over several axes is taken one axis at a time (maximum and sum are separable), and along one axis
// as the combination of its taps, each a strided view of the padded input. So every rank, type, dilation and
// padding takes the same few lines, all of them differentiable.

std::vector<Window> pooling_windows(const KernelContext& context, const at::Tensor& x) {
  if (x.dim() < 3) {
    context.fail(fmt::format("the input has rank {}, expected at least 3", x.dim()));
  }
  const std::vector<std::int64_t> kernel = context.integers("kernel_shape");
  const WindowOptions options{context.text("auto_pad", "NOTSET"), context.integers("strides"),
                              context.integers("dilations"), context.integers("pads"),
                              context.integer("ceil_mode", 0) != 0};
  return windows(x.sizes().slice(2), kernel, options);
}

/// The value that never wins a maximum.
at::Scalar lowest(at::ScalarType type) {
  switch (type) {
    case at::kByte: return 0;
    case at::kChar: return std::numeric_limits<std::int8_t>::min();
    case at::kShort: return std::numeric_limits<std::int16_t>::min();
    case at::kInt: return std::numeric_limits<std::int32_t>::min();
    case at::kLong: return std::numeric_limits<std::int64_t>::min();
    default: return -std::numeric_limits<double>::infinity();
  }
}

at::Tensor max_over(at::Tensor x, const std::vector<Window>& axes) {
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<std::int64_t>(i) + 2;
    const at::Tensor padded = pad_axis(x, axis, axes[i], lowest(x.scalar_type()));
    x = tap(padded, axis, axes[i], 0);
    for (std::int64_t k = 1; k < axes[i].kernel; ++k) {
      x = at::maximum(x, tap(padded, axis, axes[i], k));
    }
  }
  return x.contiguous();
}

at::Tensor sum_over(at::Tensor x, const std::vector<Window>& axes) {
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<std::int64_t>(i) + 2;
    const at::Tensor padded = pad_axis(x, axis, axes[i], 0);
    x = tap(padded, axis, axes[i], 0);
    for (std::int64_t k = 1; k < axes[i].kernel; ++k) {
      x = x + tap(padded, axis, axes[i], k);
    }
  }
  return x.contiguous();
}

/// Position of every element of x counted from the start of the whole tensor; along the spatial axes in
/// row-major order, or the first axis fastest when `column_major`.
at::Tensor positions(const at::Tensor& x, bool column_major) {
  const at::TensorOptions options = x.options().dtype(at::kLong).requires_grad(false);
  at::Tensor result = at::zeros({}, options);
  std::int64_t stride = 1;
  const std::int64_t rank = x.dim();
  for (std::int64_t i = 2; i < rank; ++i) {
    const std::int64_t axis = column_major ? i : rank + 1 - i;
    result = result + along_axis(at::arange(x.size(axis), options) * stride, axis, rank);
    stride *= x.size(axis);
  }
  result = result + along_axis(at::arange(x.size(1), options) * stride, 1, rank);
  result = result + along_axis(at::arange(x.size(0), options) * (stride * x.size(1)), 0, rank);
  return result.expand(x.sizes());
}

/// Maximum and the position of the first element that has it, in row-major order of the window.
std::pair<at::Tensor, at::Tensor> max_with_positions(at::Tensor x, const std::vector<Window>& axes,
                                                     bool column_major) {
  constexpr std::int64_t kPadding = -1;
  at::Tensor at_position = positions(x, column_major);
  // Last axis first, an earlier tap winning a tie: the first in row-major order remains.
  for (std::size_t i = axes.size(); i-- > 0;) {
    const auto axis = static_cast<std::int64_t>(i) + 2;
    const at::Tensor padded = pad_axis(x, axis, axes[i], lowest(x.scalar_type()));
    const at::Tensor padded_position = pad_axis(at_position, axis, axes[i], kPadding);
    x = tap(padded, axis, axes[i], 0);
    at_position = tap(padded_position, axis, axes[i], 0);
    for (std::int64_t k = 1; k < axes[i].kernel; ++k) {
      const at::Tensor other = tap(padded, axis, axes[i], k);
      const at::Tensor other_position = tap(padded_position, axis, axes[i], k);
      const at::Tensor wins =
          other.gt(x)
              .logical_or(other.ne(other).logical_and(x.eq(x)))  // NaN wins, as in at::maximum
              .logical_or(at_position.eq(kPadding).logical_and(other_position.ne(kPadding)));
      x = at::where(wins, other, x);
      at_position = at::where(wins, other_position, at_position);
    }
  }
  return {x.contiguous(), at_position.contiguous()};
}

void max_pool(KernelContext& context) {
  const Array& x = context.array(0);
  const std::vector<Window> axes = pooling_windows(context, x.data);
  if (!context.wants(1)) {
    context.set(0, max_over(x.data, axes), x.type);
    return;
  }
  auto [y, at_position] = max_with_positions(x.data, axes, context.integer("storage_order", 0) != 0);
  context.set(0, y, x.type);
  context.set(1, at_position);
}

/// How many elements each window averages: those inside the input, or also those of the padding asked for,
/// but never what ceil_mode added beyond it.
at::Tensor window_counts(const std::vector<Window>& axes, bool include_padding,
                         const at::TensorOptions& options) {
  at::Tensor counts = at::ones({}, options);
  const auto rank = static_cast<std::int64_t>(axes.size()) + 2;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const Window& w = axes[i];
    const std::int64_t begin = include_padding ? -w.pad_begin : 0;
    const std::int64_t end = include_padding ? w.in + w.pad_end : w.in;
    const at::Tensor first = at::arange(w.out, options).mul(w.stride).sub(w.pad_begin).unsqueeze(1);
    const at::Tensor place = first + at::arange(w.kernel, options).mul(w.dilation);
    const at::Tensor count = place.ge(begin).logical_and(place.lt(end)).sum(1);
    counts = counts * along_axis(count, static_cast<std::int64_t>(i) + 2, rank);
  }
  return counts;
}

void average_pool(KernelContext& context) {
  const at::Tensor& x = context.tensor(0);
  const std::vector<Window> axes = pooling_windows(context, x);
  const at::Tensor sum = sum_over(widened(x), axes);
  const at::Tensor counts = window_counts(axes, context.integer("count_include_pad", 0) != 0,
                                          sum.options().dtype(at::kDouble).requires_grad(false));
  context.set(0, (sum / counts.to(sum.scalar_type())).to(x.scalar_type()));
}

void lp_pool(KernelContext& context) {
  const at::Tensor& x = context.tensor(0);
  const std::vector<Window> axes = pooling_windows(context, x);
  const auto p = static_cast<double>(context.integer("p", 2));
  context.set(0, sum_over(widened(x).abs().pow(p), axes).pow(1.0 / p).to(x.scalar_type()));
}

std::vector<std::int64_t> spatial_axes(const KernelContext& context, const at::Tensor& x) {
  if (x.dim() < 2) {
    context.fail(fmt::format("the input has rank {}, expected at least 2", x.dim()));
  }
  std::vector<std::int64_t> axes(static_cast<std::size_t>(x.dim() - 2));
  std::iota(axes.begin(), axes.end(), 2);
  return axes;
}

void global_average_pool(KernelContext& context) {
  const at::Tensor& x = context.tensor(0);
  const std::vector<std::int64_t> axes = spatial_axes(context, x);
  context.set(0, axes.empty() ? x : widened(x).mean(axes, true).to(x.scalar_type()));
}

void global_max_pool(KernelContext& context) {
  const at::Tensor& x = context.tensor(0);
  const std::vector<std::int64_t> axes = spatial_axes(context, x);
  context.set(0, axes.empty() ? x : at::amax(x, axes, true));
}

void global_lp_pool(KernelContext& context) {
  const at::Tensor& x = context.tensor(0);
  const auto p = static_cast<double>(context.integer("p", 2));
  const std::vector<std::int64_t> axes = spatial_axes(context, x);
  const at::Tensor powers = widened(x).abs().pow(p);
  context.set(0, (axes.empty() ? powers : powers.sum(axes, true)).pow(1.0 / p).to(x.scalar_type()));
}

/// Puts each value back where MaxPool found it; everything else is 0.
void max_unpool(KernelContext& context) {
  const at::Tensor& x = context.tensor(0);
  const at::Tensor& places = context.tensor(1);
  const auto axes = static_cast<std::size_t>(std::max<std::int64_t>(0, x.dim() - 2));
  const std::vector<std::int64_t> kernel =
      list_attribute(context.integers("kernel_shape"), axes, 1, 1, "kernel_shape");
  if (x.dim() < 3 || places.sizes() != x.sizes()) {
    context.fail(
        fmt::format("the input has rank {}, expected at least 3, and indices of the same shape", x.dim()));
  }
  const std::vector<std::int64_t> strides =
      list_attribute(context.integers("strides"), axes, 1, 1, "strides");
  const std::vector<std::int64_t> pads = list_attribute(context.integers("pads"), 2 * axes, 0, 0, "pads");
  std::vector<std::int64_t> shape = {x.size(0), x.size(1)};
  for (std::size_t i = 0; i < axes; ++i) {
    shape.push_back((x.size(static_cast<std::int64_t>(i) + 2) - 1) * strides[i] - pads[i] - pads[axes + i] +
                    kernel[i]);
  }
  const std::int64_t count = graph::element_count(shape);
  if (places.numel() > 0 && (places.min().item().toLong() < 0 || places.max().item().toLong() >= count)) {
    context.fail(fmt::format("an index lies outside the {} elements of the output", count));
  }
  at::Tensor y = at::zeros({count}, x.options()).scatter(0, places.flatten(), x.flatten()).reshape(shape);
  if (context.has(2)) {
    // The indices count in the smaller tensor; a larger output has it in its first corner.
    const std::vector<std::int64_t> asked = context.ints(2);
    if (asked.size() != shape.size()) {
      context.fail(fmt::format("output_shape has {} values, expected {}", asked.size(), shape.size()));
    }
    std::vector<std::int64_t> grow;
    for (std::size_t i = shape.size(); i-- > 0;) {
      grow.push_back(0);
      grow.push_back(asked[i] - shape[i]);
    }
    y = at::constant_pad_nd(y, grow, 0);
  }
  context.set(0, y);
}

constexpr Kernel kKernels[] = {
    {"MaxPool", max_pool},
    {"AveragePool", average_pool},
    {"LpPool", lp_pool},
    {"GlobalAveragePool", global_average_pool},
    {"GlobalMaxPool", global_max_pool},
    {"GlobalLpPool", global_lp_pool},
    {"MaxUnpool", max_unpool},
};

}  // namespace

std::span<const Kernel> pooling_kernels() { return kKernels; }

}  // namespace tempera::engine::aten
