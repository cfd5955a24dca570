#include "tempera/engine/torch/kernels/convolution.h"

#include <algorithm>
#include <utility>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "tempera/engine/torch/kernels/compute.h"
#include "tempera/engine/torch/kernels/families.h"

namespace tempera::engine::aten {
namespace {

constexpr std::size_t kMostAtenAxes = 3;  // at::convolution has kernels for one to three spatial axes

WindowOptions window_options(const KernelContext& context) {
  return {context.text("auto_pad", "NOTSET"), context.integers("strides"), context.integers("dilations"),
          context.integers("pads"), false};
}

/// Windows of a convolution node. Checks what ATen would only report in its own words.
std::vector<Window> convolution_windows(const KernelContext& context, const at::Tensor& x,
                                        const at::Tensor& weight, std::int64_t group) {
  if (x.dim() < 3 || weight.dim() != x.dim()) {
    context.fail(
        fmt::format("the input has rank {} and the weight rank {}, expected the same rank of at least 3",
                    x.dim(), weight.dim()));
  }
  if (group < 1 || x.size(1) != weight.size(1) * group || weight.size(0) % group != 0) {
    context.fail(
        fmt::format("the input has {} channels and the weight [{}, {}, ...], which do not fit {} groups",
                    x.size(1), weight.size(0), weight.size(1), group));
  }
  const std::vector<std::int64_t> kernel_shape = context.integers("kernel_shape");
  if (!kernel_shape.empty() && weight.sizes().slice(2) != at::IntArrayRef(kernel_shape)) {
    context.fail("attribute 'kernel_shape' differs from the weight's spatial axes");
  }
  return windows(x.sizes().slice(2), weight.sizes().slice(2), window_options(context));
}

void conv(KernelContext& context) {
  const at::Tensor& x = context.tensor(0);
  const std::int64_t group = context.integer("group", 1);
  const std::vector<Window> axes = convolution_windows(context, x, context.tensor(1), group);
  at::Tensor y = convolve(widened(x), widened(context.tensor(1)), axes, group);
  if (context.has(2)) {
    y = y + along_axis(widened(context.tensor(2)), 1, y.dim());
  }
  context.set(0, y.to(x.scalar_type()));
}

/// x minus its zero point, in double: products of 8-bit numbers and their sums are exact below 2^53.
at::Tensor without_zero_point(const KernelContext& context, std::size_t i, std::size_t zero_point,
                              std::int64_t axis) {
  const at::Tensor x = context.tensor(i).to(at::kDouble);
  if (!context.has(zero_point)) {
    return x;
  }
  const at::Tensor zero = context.tensor(zero_point).to(at::kDouble);
  return x - (zero.numel() == 1 ? zero.reshape({}) : along_axis(zero, axis, x.dim()));
}

/// Sum of products of integers as double. Padding is the zero point, which is 0 here.
at::Tensor integer_convolution(const KernelContext& context, std::size_t x, std::size_t x_zero_point,
                               std::size_t weight, std::size_t weight_zero_point) {
  const std::int64_t group = context.integer("group", 1);
  const std::vector<Window> axes =
      convolution_windows(context, context.tensor(x), context.tensor(weight), group);
  return convolve(without_zero_point(context, x, x_zero_point, 1),
                  without_zero_point(context, weight, weight_zero_point, 0), axes, group);
}

void conv_integer(KernelContext& context) {
  // Through int64, so that an overflow of int32 wraps.
  context.set(0, integer_convolution(context, 0, 2, 1, 3).round().to(at::kLong).to(at::kInt));
}

void q_linear_conv(KernelContext& context) {
  at::Tensor sum = integer_convolution(context, 0, 2, 3, 5);
  if (context.has(8)) {
    sum = sum + along_axis(context.tensor(8).to(at::kDouble), 1, sum.dim());
  }
  const at::Tensor weight_scale = context.tensor(4).to(at::kFloat);
  at::Tensor scale = context.tensor(1).to(at::kFloat).reshape({}) * weight_scale /
                     context.tensor(6).to(at::kFloat).reshape({});
  scale = scale.numel() == 1 ? scale.reshape({}) : along_axis(scale, 1, sum.dim());
  const DataType type = context.type(7);
  const at::Tensor y = sum * scale.to(at::kDouble) + context.tensor(7).to(at::kDouble).reshape({});
  context.set(0, round_saturate(y, type), type);
}

void conv_transpose(KernelContext& context) {
  const at::Tensor& x = context.tensor(0);
  const at::Tensor& weight = context.tensor(1);
  const std::int64_t group = context.integer("group", 1);
  if (x.dim() < 3 || weight.dim() != x.dim() || group < 1 || x.size(1) != weight.size(0) ||
      x.size(1) % group != 0) {
    context.fail(fmt::format(
        "the input has rank {} and {} channels, the weight rank {} and [{}, ...], which do not fit {} groups",
        x.dim(), x.size(1), weight.dim(), weight.size(0), group));
  }
  const auto axes = static_cast<std::size_t>(x.dim() - 2);
  const auto list = [&](std::string_view name, std::size_t count, std::int64_t fallback,
                        std::int64_t lowest) {
    return list_attribute(context.integers(name), count, fallback, lowest, name);
  };
  const std::vector<std::int64_t> strides = list("strides", axes, 1, 1);
  const std::vector<std::int64_t> dilations = list("dilations", axes, 1, 1);
  const std::vector<std::int64_t> output_padding = list("output_padding", axes, 0, 0);
  std::vector<std::int64_t> output_shape = context.integers("output_shape");
  if (output_shape.size() == axes + 2) {
    // Some exporters count batch and channels.
    output_shape.erase(output_shape.begin(), output_shape.begin() + 2);
  }
  const bool has_output_shape = !output_shape.empty();
  output_shape = list_attribute(std::move(output_shape), axes, 0, 0, "output_shape");
  const std::string auto_pad = context.text("auto_pad", "NOTSET");
  const bool same = auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER";
  const std::vector<std::int64_t> pads = list("pads", 2 * axes, 0, -kLongestAxis);

  at::Tensor y = convolve_transposed(widened(x), widened(weight), strides, dilations, group);
  // y holds every product. Padding crops it; beyond its end (output_padding, a large output_shape) there is
  // nothing. Begin and end of each axis, the last axis first:
  std::vector<std::int64_t> crop;
  for (std::size_t i = axes; i-- > 0;) {
    const std::int64_t full = y.size(static_cast<std::int64_t>(i) + 2);
    std::int64_t begin = 0;
    std::int64_t out = full + output_padding[i];
    if (has_output_shape || same) {
      out = has_output_shape ? output_shape[i] : x.size(static_cast<std::int64_t>(i) + 2) * strides[i];
      const std::int64_t total = std::max<std::int64_t>(0, full + output_padding[i] - out);
      begin = auto_pad == "SAME_UPPER" ? total / 2 : total - total / 2;
    } else if (auto_pad != "VALID") {
      begin = pads[i];
      out -= pads[i] + pads[axes + i];
    }
    if (out < 0) {
      context.fail(fmt::format("padding leaves {} elements on spatial axis {}", out, i));
    }
    crop.push_back(-begin);
    crop.push_back(begin + out - full);
  }
  y = at::constant_pad_nd(y, crop, 0);
  if (context.has(2)) {
    y = y + along_axis(widened(context.tensor(2)), 1, y.dim());
  }
  context.set(0, y.to(x.scalar_type()));
}

/// Col2Im: adds the columns of overlapping blocks back into an image, the transposed convolution with one
/// filter of ones for each place in the block.
void col2im(KernelContext& context) {
  const at::Tensor& x = context.tensor(0);  // [N, C prod(block), L]
  const std::vector<std::int64_t> image = context.ints(1);
  const std::vector<std::int64_t> block = context.ints(2);
  if (x.dim() != 3 || image.size() != block.size() || image.empty()) {
    context.fail("expected an input of rank 3, and an image_shape and block_shape of the same length");
  }
  const WindowOptions options = window_options(context);
  const std::vector<Window> axes = windows(image, block, options);
  std::int64_t block_size = 1;
  std::vector<std::int64_t> columns = {x.size(0), 0, 0};
  std::vector<std::int64_t> strides;
  std::vector<std::int64_t> dilations;
  std::int64_t blocks = 1;
  for (const Window& w : axes) {
    block_size *= w.kernel;
    blocks *= w.out;
    strides.push_back(w.stride);
    dilations.push_back(w.dilation);
  }
  if (x.size(1) % block_size != 0 || x.size(2) != blocks) {
    context.fail(fmt::format("the input has {} rows and {} columns, expected a multiple of {} and {}",
                             x.size(1), x.size(2), block_size, blocks));
  }
  const std::int64_t channels = x.size(1) / block_size;
  columns = {x.size(0) * channels, block_size};
  std::vector<std::int64_t> filters = {block_size, 1};
  for (const Window& w : axes) {
    columns.push_back(w.out);
    filters.push_back(w.kernel);
  }
  const at::Tensor wide = x.is_floating_point() ? widened(x) : x.to(at::kDouble);
  at::Tensor y = convolve_transposed(
      wide.reshape(columns), at::eye(block_size, wide.options()).reshape(filters), strides, dilations, 1);
  std::vector<std::int64_t> crop;
  std::vector<std::int64_t> shape = {x.size(0), channels};
  for (std::size_t i = axes.size(); i-- > 0;) {
    const std::int64_t full = y.size(static_cast<std::int64_t>(i) + 2);
    crop.push_back(-axes[i].pad_begin);
    crop.push_back(axes[i].pad_begin + axes[i].in - full);
  }
  shape.insert(shape.end(), image.begin(), image.end());
  y = at::constant_pad_nd(y, crop, 0).reshape(shape);
  context.set(0, y.to(x.scalar_type()), context.type(0));
}

/// A depthwise convolution that remembers the last k - 1 inputs.
///
/// input [N, C, L], weight [C, 1, k], bias [C], past_state [N, C, k - 1] -> output [N, C, L], present_state
/// [N, C, k - 1]
void causal_conv_with_state(KernelContext& context) {
  const at::Tensor& x = context.tensor(0);
  const at::Tensor& weight = context.tensor(1);
  if (x.dim() != 3 || weight.dim() != 3 || weight.size(0) != x.size(1) || weight.size(1) != 1) {
    context.fail("expected an input [N, C, L] and a weight [C, 1, k]");
  }
  const std::int64_t memory = weight.size(2) - 1;
  const at::Tensor past =
      context.has(3) ? context.tensor(3) : at::zeros({x.size(0), x.size(1), memory}, x.options());
  const at::Tensor padded = at::cat({past, x}, 2);
  const Window axis{padded.size(2), weight.size(2), 1, 1, 0, 0, padded.size(2) - memory};
  at::Tensor y = convolve(widened(padded), widened(weight), std::span(&axis, 1), x.size(1));
  if (context.has(2)) {
    y = y + along_axis(widened(context.tensor(2)), 1, 3);
  }
  const std::string activation = context.text("activation", "none");
  if (activation == "silu" || activation == "swish") {
    y = at::silu(widened(y.to(x.scalar_type())));  // the convolution's result is rounded to the type first
  } else if (activation != "none") {
    context.fail(fmt::format("attribute 'activation' is '{}', expected none, silu or swish", activation));
  }
  context.set(0, y.to(x.scalar_type()));
  context.set(1, padded.slice(2, padded.size(2) - memory));
}

constexpr Kernel kKernels[] = {
    {"Conv", conv},
    {"ConvInteger", conv_integer},
    {"QLinearConv", q_linear_conv},
    {"ConvTranspose", conv_transpose},
    {"Col2Im", col2im},
    {"CausalConvWithState", causal_conv_with_state},
};

/// Moves `axis` into the batch: [N, C, ..., d, ...] -> [N d, C, ...].
at::Tensor axis_to_batch(const at::Tensor& x, std::int64_t axis) { return x.movedim(axis, 1).flatten(0, 1); }

}  // namespace

at::Tensor convolve(const at::Tensor& x, const at::Tensor& weight, std::span<const Window> axes,
                    std::int64_t group) {
  if (axes.size() > kMostAtenAxes) {
    // One axis more than ATen has: the sum over its taps of convolutions over the others.
    const Window& first = axes.front();
    const at::Tensor padded = pad_axis(x, 2, first, 0);
    at::Tensor sum;
    for (std::int64_t k = 0; k < first.kernel; ++k) {
      const at::Tensor part =
          convolve(axis_to_batch(tap(padded, 2, first, k), 2), weight.select(2, k), axes.subspan(1), group);
      sum = sum.defined() ? sum + part : part;
    }
    return sum.unflatten(0, {x.size(0), first.out}).movedim(1, 2);
  }
  std::vector<std::int64_t> strides;
  std::vector<std::int64_t> dilations;
  std::vector<std::int64_t> padding;
  std::vector<std::int64_t> zeros(axes.size(), 0);
  at::Tensor padded = x;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const Window& w = axes[i];
    strides.push_back(w.stride);
    dilations.push_back(w.dilation);
    const bool symmetric = w.pad_begin == w.pad_end && w.pad_begin >= 0;
    padding.push_back(symmetric ? w.pad_begin : 0);
    if (!symmetric) {
      std::vector<std::int64_t> pads(2 * (axes.size() - i), 0);
      pads[pads.size() - 2] = w.pad_begin;
      pads[pads.size() - 1] = w.pad_end;
      padded = at::constant_pad_nd(padded, pads, 0);
    }
  }
  return at::convolution(padded, weight, {}, strides, padding, dilations, false, zeros, group);
}

at::Tensor convolve_transposed(const at::Tensor& x, const at::Tensor& weight,
                               const std::vector<std::int64_t>& strides,
                               const std::vector<std::int64_t>& dilations, std::int64_t group) {
  if (strides.size() > kMostAtenAxes) {
    // Transposed over the last axes for each tap of the first; each result lands stride i + dilation k along
    // the first.
    const std::vector<std::int64_t> other_strides(strides.begin() + 1, strides.end());
    const std::vector<std::int64_t> other_dilations(dilations.begin() + 1, dilations.end());
    const std::int64_t in = x.size(2);
    const std::int64_t kernel = weight.size(2);
    const std::int64_t out = (in - 1) * strides[0] + (kernel - 1) * dilations[0] + 1;
    const at::Tensor batched = axis_to_batch(x, 2);
    at::Tensor sum;
    for (std::int64_t k = 0; k < kernel; ++k) {
      const at::Tensor part =
          convolve_transposed(batched, weight.select(2, k), other_strides, other_dilations, group)
              .unflatten(0, {x.size(0), in})
              .movedim(1, 2);
      const at::Tensor places = at::arange(in, x.options().dtype(at::kLong)) * strides[0] + k * dilations[0];
      std::vector<std::int64_t> shape = part.sizes().vec();
      shape[2] = out;
      const at::Tensor spread = at::zeros(shape, part.options()).index_copy(2, places, part);
      sum = sum.defined() ? sum + spread : spread;
    }
    return sum;
  }
  const std::vector<std::int64_t> zeros(strides.size(), 0);
  return at::convolution(x, weight, {}, strides, zeros, dilations, true, zeros, group);
}

std::span<const Kernel> convolution_kernels() { return kKernels; }

}  // namespace tempera::engine::aten
