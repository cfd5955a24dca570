#include "tempera/engine/torch/kernels/sampling.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "tempera/engine/torch/kernels/compute.h"
#include "tempera/engine/torch/kernels/convolution.h"
#include "tempera/engine/torch/kernels/families.h"

namespace tempera::engine::aten {
namespace {

/// Mirrors coordinates about low and high until they lie between.
at::Tensor reflected(const at::Tensor& x, double low, double high) {
  const double range = high - low;
  if (range <= 0) {
    return at::full_like(x, low);
  }
  const at::Tensor distance = (x - low).abs();
  const at::Tensor turns = (distance / range).floor();
  const at::Tensor rest = distance - turns * range;
  return at::where(turns.remainder(2).eq(0), rest + low, high - rest);
}

/// One pixel that a point draws on along one axis, and how much.
struct Tap {
  at::Tensor index;   // [N, P], inside the image
  at::Tensor weight;  // [N, P], 0 where the pixel lies outside and that counts as 0
};

struct Axis {
  std::int64_t size;
  double low;  // border of the image
  double high;
};

Tap make_tap(const at::Tensor& pixel, const at::Tensor& weight, const Axis& axis, Outside outside) {
  const auto last = static_cast<double>(axis.size - 1);
  switch (outside) {
    case Outside::kZeros: {
      const at::Tensor inside = pixel.ge(0).logical_and(pixel.le(last));
      return {pixel.clamp(0, last).to(at::kLong), at::where(inside, weight, at::zeros({}, weight.options()))};
    }
    case Outside::kReflection:
      return {reflected(pixel, axis.low, axis.high).clamp(0, last).to(at::kLong), weight};
    case Outside::kBorder: break;
  }
  return {pixel.clamp(0, last).to(at::kLong), weight};
}

std::vector<Tap> taps_of(const at::Tensor& coordinate, const Axis& axis, Interpolation interpolation,
                         Outside outside) {
  // NaN reads pixel 0; its weight stays NaN for the smooth modes.
  const at::Tensor x =
      interpolation == Interpolation::kNearest ? at::nan_to_num(coordinate.round()) : coordinate;
  at::Tensor place = x;
  if (outside == Outside::kBorder) {
    place = x.clamp(0, axis.size - 1);
  } else if (outside == Outside::kReflection) {
    place = reflected(x, axis.low, axis.high);
  }
  if (interpolation == Interpolation::kNearest) {
    return {make_tap(place, at::ones_like(place), axis, outside)};
  }
  const at::Tensor floor = at::nan_to_num(place.detach().floor());
  const at::Tensor ratio = place - floor;
  if (interpolation == Interpolation::kLinear) {
    return {make_tap(floor, 1 - ratio, axis, outside), make_tap(floor + 1, ratio, axis, outside)};
  }
  std::vector<Tap> taps;
  const std::vector<at::Tensor> weights = cubic_weights(ratio, -0.75);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    taps.push_back(make_tap(floor + (static_cast<double>(i) - 1), weights[i], axis, outside));
  }
  return taps;
}

/// Sum over every combination of one tap an axis, from axis `axis` on.
at::Tensor combine(const at::Tensor& pixels, const std::vector<std::vector<Tap>>& taps, at::IntArrayRef sizes,
                   std::size_t axis, const at::Tensor& index, const at::Tensor& weight) {
  if (axis == taps.size()) {
    const at::Tensor place = index.unsqueeze(1).expand({pixels.size(0), pixels.size(1), index.size(1)});
    return pixels.gather(2, place) * weight.unsqueeze(1);
  }
  at::Tensor sum;
  for (const Tap& tap : taps[axis]) {
    const at::Tensor part =
        combine(pixels, taps, sizes, axis + 1, index.defined() ? index * sizes[axis] + tap.index : tap.index,
                weight.defined() ? weight * tap.weight : tap.weight);
    sum = sum.defined() ? sum + part : part;
  }
  return sum;
}

Interpolation interpolation_of(const KernelContext& context) {
  const std::string mode = context.text("mode", "linear");
  if (mode == "nearest") {
    return Interpolation::kNearest;
  }
  if (mode == "linear" || mode == "bilinear") {  // "bilinear" and "bicubic" before opset 20
    return Interpolation::kLinear;
  }
  if (mode == "cubic" || mode == "bicubic") {
    return Interpolation::kCubic;
  }
  context.fail(fmt::format("attribute 'mode' is '{}', expected nearest, linear or cubic", mode));
}

Outside outside_of(const KernelContext& context) {
  const std::string mode = context.text("padding_mode", "zeros");
  if (mode == "zeros") {
    return Outside::kZeros;
  }
  if (mode == "border") {
    return Outside::kBorder;
  }
  if (mode == "reflection") {
    return Outside::kReflection;
  }
  context.fail(fmt::format("attribute 'padding_mode' is '{}', expected zeros, border or reflection", mode));
}

/// X [N, C, in...], grid [N, out..., axes] in [-1, 1], the last spatial axis first.
void grid_sample(KernelContext& context) {
  const at::Tensor& input = context.tensor(0);
  const at::Tensor grid = widened(context.tensor(1));
  const std::int64_t axes = input.dim() - 2;
  if (axes < 1 || grid.dim() != input.dim() || grid.size(-1) != axes || grid.size(0) != input.size(0)) {
    context.fail(fmt::format("a grid of {} does not fit an input of {}", graph::to_string(grid.sizes()),
                             graph::to_string(input.sizes())));
  }
  const bool align_corners = context.integer("align_corners", 0) != 0;
  std::vector<at::Tensor> point;
  for (std::int64_t i = 0; i < axes; ++i) {
    const at::Tensor n = grid.select(-1, axes - 1 - i).flatten(1);
    const auto size = static_cast<double>(input.size(i + 2));
    point.push_back(align_corners ? (n + 1) / 2 * (size - 1) : ((n + 1) * size - 1) / 2);
  }
  const at::Tensor x = input.is_floating_point() ? widened(input) : input.to(at::kDouble);
  const at::Tensor y = sample(x, point, interpolation_of(context), outside_of(context), align_corners);
  std::vector<std::int64_t> shape = {input.size(0), input.size(1)};
  shape.insert(shape.end(), grid.sizes().begin() + 1, grid.sizes().end() - 1);
  context.set(0, y.reshape(shape).to(input.scalar_type()), context.type(0));
}

/// theta [N, axes, axes + 1] and the size [N, C, in...] to the grid of GridSample.
void affine_grid(KernelContext& context) {
  const at::Tensor& theta = context.tensor(0);
  const std::vector<std::int64_t> size = context.ints(1);
  if (theta.dim() != 3 || (size.size() != 4 && size.size() != 5)) {
    context.fail("expected theta [N, 2, 3] and a size of four, or [N, 3, 4] and five");
  }
  const bool align_corners = context.integer("align_corners", 0) != 0;
  context.set(0, at::affine_grid_generator(widened(theta), size, align_corners).to(theta.scalar_type()));
}

/// A convolution whose every sample is read from a place of its own, between pixels: Dai et al. 2017,
/// arXiv:1703.06211; with a mask, version 2: Zhu et al. 2018, arXiv:1811.11168.
///
/// X [N, C, in...], W [M, C / group, kernel...], offset [N, offset_group K axes, out...] with K places in the
/// kernel and the axis fastest, B [M], mask [N, offset_group K, out...].
void deform_conv(KernelContext& context) {
  const at::Tensor& input = context.tensor(0);
  const at::Tensor x = widened(input);
  const at::Tensor weight = widened(context.tensor(1));
  const at::Tensor offset = widened(context.tensor(2));
  const std::int64_t group = context.integer("group", 1);
  const std::int64_t offset_group = context.integer("offset_group", 1);
  if (x.dim() < 3 || weight.dim() != x.dim() || offset.dim() != x.dim() || group < 1 || offset_group < 1 ||
      x.size(1) != weight.size(1) * group || weight.size(0) % group != 0 || x.size(1) % offset_group != 0) {
    context.fail(fmt::format("X {}, W {}, {} groups and {} offset groups do not fit",
                             graph::to_string(x.sizes()), graph::to_string(weight.sizes()), group,
                             offset_group));
  }
  const WindowOptions options{"NOTSET", context.integers("strides"), context.integers("dilations"),
                              context.integers("pads"), false};
  const std::vector<Window> axes_of = windows(x.sizes().slice(2), weight.sizes().slice(2), options);
  const auto axes = static_cast<std::int64_t>(axes_of.size());
  const std::int64_t batch = x.size(0);
  std::int64_t places = 1;   // K
  std::int64_t outputs = 1;  // product of out
  std::vector<std::int64_t> kernel_and_out(2 * axes_of.size(), 1);
  std::vector<std::int64_t> shape = {batch, weight.size(0)};
  for (std::size_t i = 0; i < axes_of.size(); ++i) {
    places *= axes_of[i].kernel;
    outputs *= axes_of[i].out;
    kernel_and_out[i] = axes_of[i].kernel;
    kernel_and_out[axes_of.size() + i] = axes_of[i].out;
    shape.push_back(axes_of[i].out);
  }
  if (offset.numel() != batch * offset_group * places * axes * outputs) {
    context.fail(
        fmt::format("offset {} does not hold one offset for each of {} places, {} axes and {} outputs",
                    graph::to_string(offset.sizes()), places, axes, outputs));
  }
  const at::Tensor offsets = offset.reshape({batch * offset_group, places, axes, outputs});
  std::vector<at::Tensor> point;
  for (std::int64_t i = 0; i < axes; ++i) {
    const Window& w = axes_of[static_cast<std::size_t>(i)];
    const at::TensorOptions plain = x.options().requires_grad(false);
    const at::Tensor base = along_axis(at::arange(w.kernel, plain) * w.dilation, i, 2 * axes) +
                            along_axis(at::arange(w.out, plain) * w.stride - w.pad_begin, axes + i, 2 * axes);
    point.push_back(
        (base.expand(kernel_and_out).reshape({places, outputs}) + offsets.select(2, i)).flatten(1));
  }
  // [N offset_group, C / offset_group, K out]
  const at::Tensor grouped = x.unflatten(1, {offset_group, x.size(1) / offset_group}).flatten(0, 1);
  at::Tensor columns = sample(grouped, point, Interpolation::kLinear, Outside::kZeros, true);
  if (context.has(4)) {
    columns = columns * widened(context.tensor(4)).reshape({batch * offset_group, 1, places * outputs});
  }
  columns = columns.reshape({batch, group, weight.size(1) * places, outputs});
  at::Tensor y = at::matmul(weight.reshape({group, weight.size(0) / group, weight.size(1) * places}), columns)
                     .reshape(shape);
  if (context.has(3)) {
    y = y + along_axis(widened(context.tensor(3)), 1, y.dim());
  }
  context.set(0, y.to(input.scalar_type()));
}

constexpr Kernel kKernels[] = {
    {"GridSample", grid_sample},
    {"AffineGrid", affine_grid},
    {"DeformConv", deform_conv},
};

}  // namespace

std::vector<at::Tensor> cubic_weights(const at::Tensor& ratio, double a) {
  const auto near = [a](const at::Tensor& d) { return (d * (a + 2) - (a + 3)) * d * d + 1; };  // |d| <= 1
  const auto far = [a](const at::Tensor& d) {
    return ((d * a - 5 * a) * d + 8 * a) * d - 4 * a;
  };  // 1 < |d| < 2
  return {far(ratio + 1), near(ratio), near(1 - ratio), far(2 - ratio)};
}

at::Tensor sample(const at::Tensor& x, const std::vector<at::Tensor>& point, Interpolation interpolation,
                  Outside outside, bool align_corners) {
  std::vector<std::vector<Tap>> taps;
  for (std::size_t i = 0; i < point.size(); ++i) {
    const std::int64_t size = x.size(static_cast<std::int64_t>(i) + 2);
    const double edge = align_corners ? 0.0 : 0.5;
    const Axis axis{size, -edge, static_cast<double>(size) - 1.0 + edge};
    taps.push_back(taps_of(point[i].to(x.scalar_type()), axis, interpolation, outside));
  }
  return combine(x.flatten(2), taps, x.sizes().slice(2), 0, {}, {});
}

std::span<const Kernel> sampling_kernels() { return kKernels; }

}  // namespace tempera::engine::aten
