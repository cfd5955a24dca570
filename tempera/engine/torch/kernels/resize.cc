#include <algorithm>
#include <cmath>
#include <optional>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "tempera/engine/torch/kernels/compute.h"
#include "tempera/engine/torch/kernels/families.h"
#include "tempera/engine/torch/kernels/spatial.h"

namespace tempera::engine::aten {
namespace {

enum class Mode { kNearest, kLinear, kCubic };

/// How one axis is resized.
struct AxisPlan {
  std::int64_t axis = 0;
  std::int64_t in = 0;
  std::int64_t out = 0;
  double scale = 1.0;      // as given; out / in differs where out was rounded
  double roi_begin = 0.0;  // of tf_crop_and_resize, as a fraction of the axis
  double roi_end = 1.0;
};

struct Options {
  Mode mode = Mode::kNearest;
  std::string coordinates = "half_pixel";
  std::string nearest = "round_prefer_floor";
  double cubic_a = -0.75F;
  bool antialias = false;
  bool exclude_outside = false;
  double extrapolation = 0.0;
};

/// Where each output element lies on the input axis, 0 being the centre of its first element.
std::vector<double> source_coordinates(const KernelContext& context, const AxisPlan& plan,
                                       const Options& options) {
  const std::string& mode = options.coordinates;
  const auto in = static_cast<double>(plan.in);
  const double resized = plan.scale * in;  // the output's length before rounding
  std::vector<double> result(static_cast<std::size_t>(plan.out));
  for (std::size_t i = 0; i < result.size(); ++i) {
    const auto x = static_cast<double>(i);
    double& y = result[i];
    if (mode == "half_pixel") {
      y = (x + 0.5) / plan.scale - 0.5;
    } else if (mode == "half_pixel_symmetric") {
      y = in / 2 * (1 - static_cast<double>(plan.out) / resized) + (x + 0.5) / plan.scale - 0.5;
    } else if (mode == "pytorch_half_pixel") {
      y = resized == 1 ? -0.5 : (x + 0.5) / plan.scale - 0.5;
    } else if (mode == "align_corners") {
      y = resized == 1 ? 0.0 : x * (in - 1) / (resized - 1);
    } else if (mode == "asymmetric") {
      y = x / plan.scale;
    } else if (mode == "tf_crop_and_resize") {
      const double length = plan.roi_end - plan.roi_begin;
      y = resized == 1 ? length * (in - 1) / 2 : x * length * (in - 1) / (resized - 1);
      y += plan.roi_begin * (in - 1);
    } else if (mode == "tf_half_pixel_for_nn") {  // opset 11 only
      y = (x + 0.5) / plan.scale;
    } else {
      context.fail(fmt::format("unknown coordinate_transformation_mode '{}'", mode));
    }
    if (!std::isfinite(y)) {
      context.fail(fmt::format("scale {} gives axis {} no finite coordinates", plan.scale, plan.axis));
    }
  }
  return result;
}

std::int64_t nearest_index(const KernelContext& context, double x, const std::string& mode) {
  const double floor = std::floor(x);
  const double ratio = x - floor;
  bool up = false;
  if (mode == "round_prefer_floor") {
    up = ratio > 0.5;
  } else if (mode == "round_prefer_ceil") {
    up = ratio >= 0.5;
  } else if (mode == "ceil") {
    up = ratio > 0;
  } else if (mode != "floor") {
    context.fail(fmt::format("unknown nearest_mode '{}'", mode));
  }
  return static_cast<std::int64_t>(floor) + (up ? 1 : 0);
}

/// The interpolation kernel at distance d: a triangle, or Keys' cubic (doi:10.1109/TASSP.1981.1163711).
double kernel_at(double d, const Options& options) {
  d = std::abs(d);
  if (options.mode == Mode::kLinear) {
    return std::max(0.0, 1 - d);
  }
  const double a = options.cubic_a;
  if (d <= 1) {
    return ((a + 2) * d - (a + 3)) * d * d + 1;
  }
  return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0.0;
}

/// For every output element the input elements that it draws on, as many for all, and their weights.
struct Weights {
  std::int64_t taps = 0;
  std::vector<std::int64_t> index;  // [taps, out], inside the axis
  std::vector<double> weight;       // [taps, out]
};

Weights weights_of(const std::vector<double>& coordinates, const AxisPlan& plan, const Options& options) {
  // Shrinking with antialias stretches the kernel over the input by 1 / scale.
  const double stretch = options.antialias ? std::min(plan.scale, 1.0) : 1.0;
  const double radius = (options.mode == Mode::kLinear ? 1.0 : 2.0) / stretch;
  const auto before = static_cast<std::int64_t>(std::floor(-radius)) + 1;  // first tap, counted from floor(x)
  Weights result;
  result.taps = 2 - 2 * before;
  const std::size_t out = coordinates.size();
  result.index.resize(static_cast<std::size_t>(result.taps) * out);
  result.weight.resize(result.index.size());
  for (std::size_t i = 0; i < out; ++i) {
    const double floor = std::floor(coordinates[i]);
    const double ratio = coordinates[i] - floor;
    double sum = 0;
    for (std::int64_t t = 0; t < result.taps; ++t) {
      const std::size_t at = static_cast<std::size_t>(t) * out + i;
      const std::int64_t place = static_cast<std::int64_t>(floor) + before + t;
      const bool outside = place < 0 || place >= plan.in;
      result.index[at] = std::clamp<std::int64_t>(place, 0, plan.in - 1);
      result.weight[at] = options.exclude_outside && outside
                              ? 0.0
                              : kernel_at((static_cast<double>(before + t) - ratio) * stretch, options);
      sum += result.weight[at];
    }
    if ((options.antialias || options.exclude_outside) && sum != 0) {
      for (std::int64_t t = 0; t < result.taps; ++t) {
        result.weight[static_cast<std::size_t>(t) * out + i] /= sum;
      }
    }
  }
  return result;
}

at::Tensor resize_axis(const KernelContext& context, const at::Tensor& x, const AxisPlan& plan,
                       const Options& options) {
  const std::vector<double> coordinates = source_coordinates(context, plan, options);
  const auto rows = [&](const std::vector<std::int64_t>& v) {
    return at::tensor(v, at::kLong).to(x.device());
  };
  at::Tensor y;
  if (options.mode == Mode::kNearest) {
    std::vector<std::int64_t> index;
    for (const double coordinate : coordinates) {
      index.push_back(
          std::clamp<std::int64_t>(nearest_index(context, coordinate, options.nearest), 0, plan.in - 1));
    }
    y = x.index_select(plan.axis, rows(index));
  } else {
    const Weights weights = weights_of(coordinates, plan, options);
    const at::Tensor index = rows(weights.index).reshape({weights.taps, plan.out});
    const at::Tensor weight = at::tensor(weights.weight, at::kDouble)
                                  .to(x.device(), x.scalar_type())
                                  .reshape({weights.taps, plan.out});
    for (std::int64_t t = 0; t < weights.taps; ++t) {
      const at::Tensor part = x.index_select(plan.axis, index[t]) * along_axis(weight[t], plan.axis, x.dim());
      y = y.defined() ? y + part : part;
    }
  }
  if (options.coordinates == "tf_crop_and_resize") {
    std::vector<std::int64_t> outside;
    for (const double coordinate : coordinates) {
      outside.push_back(coordinate < 0 || coordinate > static_cast<double>(plan.in - 1) ? 1 : 0);
    }
    y = at::where(along_axis(rows(outside).to(at::kBool), plan.axis, x.dim()),
                  at::full({}, options.extrapolation, y.options().requires_grad(false)), y);
  }
  return y;
}

std::vector<double> doubles(const at::Tensor& t) {
  const at::Tensor host = t.detach().to(at::kCPU, at::kDouble).flatten().contiguous();
  const double* first = host.const_data_ptr<double>();
  return {first, first + host.numel()};
}

std::int64_t rounded_length(const KernelContext& context, double length) {
  if (!(length >= 0 && length <= static_cast<double>(kLongestAxis))) {
    context.fail(fmt::format("a resized axis would have length {}", length));
  }
  return static_cast<std::int64_t>(length);
}

void apply_scales(const KernelContext& context, std::vector<AxisPlan>& plans,
                  const std::vector<double>& scales) {
  if (scales.size() != plans.size()) {
    context.fail(fmt::format("{} scales for {} axes", scales.size(), plans.size()));
  }
  for (std::size_t i = 0; i < plans.size(); ++i) {
    plans[i].scale = scales[i];
    plans[i].out = rounded_length(context, std::floor(scales[i] * static_cast<double>(plans[i].in)));
  }
}

void apply_sizes(const KernelContext& context, std::vector<AxisPlan>& plans,
                 const std::vector<std::int64_t>& sizes) {
  if (sizes.size() != plans.size()) {
    context.fail(fmt::format("{} sizes for {} axes", sizes.size(), plans.size()));
  }
  const std::string policy = context.text("keep_aspect_ratio_policy", "stretch");
  if (policy != "stretch" && policy != "not_larger" && policy != "not_smaller") {
    context.fail(fmt::format("unknown keep_aspect_ratio_policy '{}'", policy));
  }
  std::optional<double> common;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    plans[i].out = rounded_length(context, static_cast<double>(sizes[i]));
    plans[i].scale = static_cast<double>(sizes[i]) / static_cast<double>(plans[i].in);
    if (policy == "not_larger") {
      common = std::min(common.value_or(plans[i].scale), plans[i].scale);
    } else if (policy == "not_smaller") {
      common = std::max(common.value_or(plans[i].scale), plans[i].scale);
    }
  }
  if (common) {
    for (AxisPlan& plan : plans) {
      plan.scale = *common;
      plan.out =
          rounded_length(context, std::floor(*common * static_cast<double>(plan.in) + 0.5));  // half up
    }
  }
}

/// Resizes axis by axis; what an axis keeps is left alone.
at::Tensor resize_all(const KernelContext& context, const Array& input, const std::vector<AxisPlan>& plans,
                      const Options& options) {
  at::Tensor x = input.data;
  if (options.mode != Mode::kNearest) {
    x = x.is_floating_point() ? widened(x) : x.to(at::kDouble);
  }
  for (const AxisPlan& plan : plans) {
    if (plan.in == 0 && plan.out > 0) {
      context.fail(fmt::format("axis {} is empty and cannot grow", plan.axis));
    }
    if (plan.scale == 1.0 && plan.in == plan.out && plan.roi_begin == 0.0 && plan.roi_end == 1.0) {
      continue;
    }
    x = plan.out == 0 ? x.slice(plan.axis, 0, 0) : resize_axis(context, x, plan, options);
  }
  if (x.scalar_type() == input.data.scalar_type()) {
    return x;
  }
  return input.data.is_floating_point() ? wrap(x.to(input.data.scalar_type()), input.type)
         : numeric::is_integer(input.type) && numeric::bits_of(input.type) <= 32
             ? round_saturate(x, input.type)
             : x.round().to(input.data.scalar_type());
}

Mode mode_of(const KernelContext& context) {
  const std::string mode = context.text("mode", "nearest");
  if (mode == "nearest") {
    return Mode::kNearest;
  }
  if (mode == "linear" || mode == "bilinear") {  // "bilinear" in early exporters' files
    return Mode::kLinear;
  }
  if (mode == "cubic") {
    return Mode::kCubic;
  }
  context.fail(fmt::format("attribute 'mode' is '{}', expected nearest, linear or cubic", mode));
}

std::vector<AxisPlan> plans_for(const at::Tensor& x, const std::vector<std::int64_t>& axes) {
  std::vector<AxisPlan> plans;
  for (const std::int64_t axis : axes) {
    plans.push_back({axis, x.size(axis), x.size(axis), 1.0, 0.0, 1.0});
  }
  return plans;
}

std::vector<std::int64_t> all_axes(const at::Tensor& x) {
  std::vector<std::int64_t> axes;
  for (std::int64_t i = 0; i < x.dim(); ++i) {
    axes.push_back(i);
  }
  return axes;
}

/// Before opset 11 (Resize-10, Upsample): X and scales, coordinates asymmetric, the nearest element the one
/// before.
void resize_by_scales_only(KernelContext& context) {
  const Array& x = context.array(0);
  std::vector<AxisPlan> plans = plans_for(x.data, all_axes(x.data));
  if (context.has(1)) {
    apply_scales(context, plans, doubles(context.tensor(1)));
  } else {
    const std::vector<float> scales = context.reals("scales");
    apply_scales(context, plans, std::vector<double>(scales.begin(), scales.end()));
  }
  Options options;
  options.mode = mode_of(context);
  options.coordinates = "asymmetric";
  options.nearest = "floor";
  context.set(0, resize_all(context, x, plans, options), x.type);
}

/// X, roi, scales, sizes
void resize(KernelContext& context) {
  if (context.opset() < 11) {
    resize_by_scales_only(context);
    return;
  }
  const Array& x = context.array(0);
  std::vector<std::int64_t> axes = context.integers("axes");
  if (axes.empty()) {
    axes = all_axes(x.data);
  }
  for (std::int64_t& axis : axes) {
    axis = context.axis(axis, x.data.dim());
  }
  std::vector<AxisPlan> plans = plans_for(x.data, axes);
  // An empty tensor is the older way to leave an input out.
  const auto given = [&](std::size_t i) { return context.has(i) && context.tensor(i).numel() > 0; };
  if (given(3)) {
    apply_sizes(context, plans, context.ints(3));
  } else if (given(2)) {
    apply_scales(context, plans, doubles(context.tensor(2)));
  } else if (x.data.dim() > 0) {
    context.fail("neither scales nor sizes are given");
  }
  Options options;
  options.mode = mode_of(context);
  options.coordinates = context.text("coordinate_transformation_mode", "half_pixel");
  options.nearest = context.text("nearest_mode", "round_prefer_floor");
  options.cubic_a = context.real("cubic_coeff_a", -0.75);
  options.antialias = context.integer("antialias", 0) != 0;
  options.exclude_outside = context.integer("exclude_outside", 0) != 0;
  options.extrapolation = context.real("extrapolation_value", 0.0);
  if (options.coordinates == "tf_crop_and_resize") {
    const std::vector<double> roi = doubles(context.tensor(1));
    if (roi.size() != 2 * plans.size()) {
      context.fail(fmt::format("roi has {} values, expected {}", roi.size(), 2 * plans.size()));
    }
    for (std::size_t i = 0; i < plans.size(); ++i) {
      plans[i].roi_begin = roi[i];
      plans[i].roi_end = roi[plans.size() + i];
    }
  }
  context.set(0, resize_all(context, x, plans, options), x.type);
}

/// Cuts or pads with zeros, keeping the centre; of an odd difference the larger part goes to the end.
void center_crop_pad(KernelContext& context) {
  const Array& input = context.array(0);
  at::Tensor x = input.data;
  std::vector<std::int64_t> axes = context.integers("axes");
  if (axes.empty()) {
    axes = all_axes(x);
  }
  const std::vector<std::int64_t> shape = context.ints(1);
  if (shape.size() != axes.size()) {
    context.fail(fmt::format("the shape has {} values, expected {}", shape.size(), axes.size()));
  }
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::int64_t axis = context.axis(axes[i], x.dim());
    const std::int64_t more = shape[i] - x.size(axis);
    if (shape[i] < 0) {
      context.fail(fmt::format("axis {} would have length {}", axis, shape[i]));
    }
    if (more < 0) {
      x = x.slice(axis, -more / 2, -more / 2 + shape[i]);
    } else if (more > 0) {
      std::vector<std::int64_t> pads(2 * static_cast<std::size_t>(x.dim() - axis), 0);
      pads[pads.size() - 2] = more / 2;
      pads[pads.size() - 1] = more - more / 2;
      x = at::constant_pad_nd(x, pads, 0);
    }
  }
  context.set(0, x.contiguous(), input.type);
}

constexpr Kernel kKernels[] = {
    {"Resize", resize},
    {"Upsample", resize_by_scales_only},
    {"CenterCropPad", center_crop_pad},
};

}  // namespace

std::span<const Kernel> resize_kernels() { return kKernels; }

}  // namespace tempera::engine::aten
