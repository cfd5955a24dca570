/// Operators that cut, join, repeat, pad and reorder.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "tempera/engine/torch/kernels/families.h"
#include "tempera/engine/torch/kernels/moving.h"

namespace tempera::engine::aten {
namespace {

at::Tensor positions(const std::vector<std::int64_t>& list, const KernelContext& context) {
  return at::tensor(list, at::TensorOptions(at::kLong)).to(context.device());
}

void concat(KernelContext& context) {
  std::vector<at::Tensor> parts;
  for (std::size_t i = 0; i < context.input_count(); ++i) {
    parts.push_back(context.tensor(i));
    if (context.type(i) != context.type(0)) {
      context.fail(fmt::format("input {} is {}, expected {} as input 0", i, numeric::to_string(context.type(i)),
                               numeric::to_string(context.type(0))));
    }
  }
  if (parts.empty()) {
    context.fail("nothing to join");
  }
  // Before opset 4 the axis could be left out.
  const std::int64_t axis = context.axis(context.integer("axis", 1), parts.front().dim());
  context.set(0, at::cat(parts, axis), context.type(0));
}

/// Sizes by input or attribute, else equal parts (the last one shorter) by num_outputs or the number of outputs.
void split(KernelContext& context) {
  const Array& x = context.array(0);
  const std::int64_t axis = context.axis(context.integer("axis", 0), x.data.dim());
  const std::int64_t length = x.data.size(axis);
  std::vector<std::int64_t> sizes;
  if (const auto given = context.ints_or(1, "split")) {
    sizes = *given;
  } else {
    const auto count = context.integer("num_outputs", static_cast<std::int64_t>(context.output_count()));
    if (count <= 0) {
      context.fail(fmt::format("cannot split into {} parts", count));
    }
    const std::int64_t part = (length + count - 1) / count;
    for (std::int64_t i = 0; i < count; ++i) {
      sizes.push_back(std::clamp<std::int64_t>(length - i * part, 0, part));
    }
  }
  if (std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0}) != length) {
    context.fail(fmt::format("parts {} do not add up to {}", graph::to_string(sizes), length));
  }
  const std::vector<at::Tensor> parts = at::split_with_sizes(x.data, sizes, axis);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    context.set(i, parts[i], x.type);
  }
}

/// One axis: starts and ends outside the tensor are clamped; a negative step runs backwards.
at::Tensor slice_axis(const at::Tensor& x, std::int64_t axis, std::int64_t start, std::int64_t end, std::int64_t step) {
  const std::int64_t length = x.size(axis);
  const auto from_front = [length](std::int64_t i) { return i < 0 ? i + length : i; };
  if (step > 0) {
    start = std::clamp<std::int64_t>(from_front(start), 0, length);
    end = std::clamp<std::int64_t>(from_front(end), 0, length);
    return at::slice(x, axis, start, std::max(start, end), std::min(step, std::max<std::int64_t>(length, 1)));
  }
  if (length == 0) {
    return x;
  }
  // Mirrored, element i lies at length - 1 - i.
  start = std::clamp<std::int64_t>(from_front(start), 0, length - 1);
  end = std::clamp<std::int64_t>(from_front(end), -1, length - 1);
  const std::int64_t mirrored_start = length - 1 - start;
  const std::int64_t mirrored_end = length - 1 - end;
  if (mirrored_start >= mirrored_end) {
    return at::slice(x, axis, 0, 0, 1);
  }
  const std::int64_t stride = step == std::numeric_limits<std::int64_t>::min() ? length : std::min(-step, length);
  return at::slice(at::flip(x, {axis}), axis, mirrored_start, mirrored_end, stride);
}

void slice(KernelContext& context) {
  const Array& x = context.array(0);
  const auto starts = context.ints_or(1, "starts");
  const auto ends = context.ints_or(2, "ends");
  if (!starts || !ends || starts->size() != ends->size()) {
    context.fail("starts and ends are missing or differ in length");
  }
  std::vector<std::int64_t> axes(starts->size());
  std::iota(axes.begin(), axes.end(), 0);
  axes = context.ints_or(3, "axes").value_or(axes);
  const std::vector<std::int64_t> steps =
      context.has(4) ? context.ints(4) : std::vector<std::int64_t>(starts->size(), 1);
  if (axes.size() != starts->size() || steps.size() != starts->size()) {
    context.fail("starts, ends, axes and steps differ in length");
  }
  at::Tensor y = x.data;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (steps[i] == 0) {
      context.fail("a step is 0");
    }
    y = slice_axis(y, context.axis(axes[i], y.dim()), (*starts)[i], (*ends)[i], steps[i]);
  }
  context.set(0, y, x.type);
}

void tile(KernelContext& context) {
  const Array& x = context.array(0);
  if (context.opset() < 6) {  // one axis, repeated `tiles` times
    std::vector<std::int64_t> repeats(static_cast<std::size_t>(x.data.dim()), 1);
    repeats[static_cast<std::size_t>(context.axis(context.scalar_int(2), x.data.dim()))] = context.scalar_int(1);
    context.set(0, x.data.repeat(repeats), x.type);
    return;
  }
  const std::vector<std::int64_t> repeats = context.ints(1);
  if (static_cast<std::int64_t>(repeats.size()) != x.data.dim()) {
    context.fail(fmt::format("{} repeats for a tensor of rank {}", repeats.size(), x.data.dim()));
  }
  context.set(0, x.data.repeat(repeats), x.type);
}

// -- padding -------------------------------------------------------------------------------------------------------------

/// Source position of each padded position along one axis of `length` elements.
at::Tensor pad_positions(std::string_view mode, std::int64_t length, std::int64_t before, std::int64_t after) {
  const at::Tensor at = at::arange(-before, length + after, at::TensorOptions(at::kLong));
  if (mode == "edge") {
    return at.clamp(0, length - 1);
  }
  if (mode == "wrap") {
    return at.remainder(length);
  }
  // reflect: without repeating the edge, over and over
  const std::int64_t period = std::max<std::int64_t>(2 * (length - 1), 1);
  const at::Tensor folded = at.remainder(period);
  return at::where(folded.lt(length), folded, at::rsub(folded, period));
}

/// pads = [begin of each axis ..., end of each axis ...]; negative ones cut.
void pad(KernelContext& context) {
  const Array& x = context.array(0);
  const std::string mode = context.text("mode", "constant");
  auto pads = context.ints_or(1, context.has_attribute("paddings") ? "paddings" : "pads");
  if (!pads) {
    context.fail("the pads are missing");
  }
  std::vector<std::int64_t> axes(static_cast<std::size_t>(x.data.dim()));
  std::iota(axes.begin(), axes.end(), 0);
  if (context.has(3)) {
    axes = context.ints(3);
  }
  if (pads->size() != 2 * axes.size()) {
    context.fail(fmt::format("{} pads for {} axes, expected {}", pads->size(), axes.size(), 2 * axes.size()));
  }
  std::vector<std::int64_t> before(static_cast<std::size_t>(x.data.dim()), 0);
  std::vector<std::int64_t> after = before;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<std::size_t>(context.axis(axes[i], x.data.dim()));
    before[axis] = (*pads)[i];
    after[axis] = (*pads)[axes.size() + i];
  }
  if (mode == "constant") {
    std::vector<std::int64_t> reversed;  // torch lists the last axis first
    for (std::size_t i = before.size(); i-- > 0;) {
      reversed.push_back(before[i]);
      reversed.push_back(after[i]);
    }
    at::Scalar fill = 0;
    if (context.has(2)) {
      fill = context.tensor(2).item();
    } else if (const auto value = context.attribute<float>("value")) {
      fill = *value;
    }
    context.set(0, at::constant_pad_nd(x.data, reversed, fill), x.type);
    return;
  }
  if (mode != "edge" && mode != "reflect" && mode != "wrap") {
    context.fail(fmt::format("attribute 'mode' is '{}', expected constant, edge, reflect or wrap", mode));
  }
  at::Tensor y = x.data;
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (before[i] == 0 && after[i] == 0) {
      continue;
    }
    const auto axis = static_cast<std::int64_t>(i);
    if (y.size(axis) == 0) {
      context.fail(fmt::format("axis {} is empty and cannot be padded by mode {}", axis, mode));
    }
    // What is cut away is not there to be mirrored, so cut first.
    y = slice_axis(y, axis, std::max<std::int64_t>(-before[i], 0), y.size(axis) - std::max<std::int64_t>(-after[i], 0), 1);
    const at::Tensor source = pad_positions(mode, y.size(axis), std::max<std::int64_t>(before[i], 0),
                                            std::max<std::int64_t>(after[i], 0));
    y = at::index_select(y, axis, source.to(context.device()));
  }
  context.set(0, y, x.type);
}

// -- blocks --------------------------------------------------------------------------------------------------------------

/// [N, C, H, W] -> [N, C/(b b), H b, W b]
void depth_to_space(KernelContext& context) {
  const Array& x = context.array(0);
  const std::int64_t b = context.integer("blocksize", 0);
  if (x.data.dim() != 4 || b <= 0 || x.data.size(1) % (b * b) != 0) {
    context.fail(fmt::format("shape {} cannot be unpacked by blocks of {}", graph::to_string(x.data.sizes().vec()), b));
  }
  const std::int64_t n = x.data.size(0);
  const std::int64_t c = x.data.size(1) / (b * b);
  const std::int64_t h = x.data.size(2);
  const std::int64_t w = x.data.size(3);
  const at::Tensor y = context.text("mode", "DCR") == "DCR"
                           ? x.data.reshape({n, b, b, c, h, w}).permute({0, 3, 4, 1, 5, 2})
                           : x.data.reshape({n, c, b, b, h, w}).permute({0, 1, 4, 2, 5, 3});
  context.set(0, y.reshape({n, c, h * b, w * b}), x.type);
}

/// [N, C, H, W] -> [N, C b b, H/b, W/b]
void space_to_depth(KernelContext& context) {
  const Array& x = context.array(0);
  const std::int64_t b = context.integer("blocksize", 0);
  if (x.data.dim() != 4 || b <= 0 || x.data.size(2) % b != 0 || x.data.size(3) % b != 0) {
    context.fail(fmt::format("shape {} cannot be packed by blocks of {}", graph::to_string(x.data.sizes().vec()), b));
  }
  const std::int64_t n = x.data.size(0);
  const std::int64_t c = x.data.size(1);
  const std::int64_t h = x.data.size(2) / b;
  const std::int64_t w = x.data.size(3) / b;
  const bool crd = context.text("mode", "DCR") == "CRD";
  const at::Tensor blocks = x.data.reshape({n, c, h, b, w, b});
  const at::Tensor y = crd ? blocks.permute({0, 1, 3, 5, 2, 4}) : blocks.permute({0, 3, 5, 1, 2, 4});
  context.set(0, y.reshape({n, c * b * b, h, w}), x.type);
}

void trilu(KernelContext& context) {
  const Array& x = context.array(0);
  std::int64_t k = context.has(1) ? context.scalar_int(1) : 0;
  // Beyond the matrix all diagonals are alike; torch's kernels overflow far out.
  const std::int64_t reach = x.data.dim() < 2 ? 0 : std::max(x.data.size(-1), x.data.size(-2)) + 1;
  k = std::clamp(k, -reach, reach);
  context.set(0, context.integer("upper", 1) != 0 ? at::triu(x.data, k) : at::tril(x.data, k), x.type);
}

/// The first lengths[b] elements of each sequence b in reverse order.
void reverse_sequence(KernelContext& context) {
  const Array& x = context.array(0);
  const std::int64_t time = context.axis(context.integer("time_axis", 0), x.data.dim());
  const std::int64_t batch = context.axis(context.integer("batch_axis", 1), x.data.dim());
  const std::vector<std::int64_t> lengths = context.ints(1);
  const std::int64_t steps = x.data.size(time);
  if (time == batch || static_cast<std::int64_t>(lengths.size()) != x.data.size(batch)) {
    context.fail(fmt::format("{} lengths for a batch of {}", lengths.size(), x.data.size(batch)));
  }
  std::vector<std::int64_t> list;  // [batch, time]
  for (const std::int64_t length : lengths) {
    if (length < 0 || length > steps) {
      context.fail(fmt::format("a sequence length of {} where there are {} steps", length, steps));
    }
    for (std::int64_t t = 0; t < steps; ++t) {
      list.push_back(t < length ? length - 1 - t : t);
    }
  }
  at::Tensor index = positions(list, context).reshape({static_cast<std::int64_t>(lengths.size()), steps});
  std::vector<std::int64_t> dims(static_cast<std::size_t>(x.data.dim()), 1);
  dims[static_cast<std::size_t>(time)] = steps;
  dims[static_cast<std::size_t>(batch)] = x.data.size(batch);
  index = (time < batch ? index.t() : index).reshape(dims).expand(x.data.sizes());
  context.set(0, at::gather(x.data, time, index), x.type);
}

/// Where the condition holds, along an axis or of all elements in order.
void compress(KernelContext& context) {
  const Array& x = context.array(0);
  const at::Tensor kept = at::nonzero(context.tensor(1).reshape({-1})).reshape({-1});
  if (context.has_attribute("axis")) {
    context.set(0, at::index_select(x.data, context.axis(context.integer("axis", 0), x.data.dim()), kept), x.type);
  } else {
    context.set(0, at::index_select(x.data.reshape({-1}), 0, kept), x.type);
  }
}

constexpr Kernel kKernels[] = {
    {"Compress", moving<compress>},
    {"Concat", moving<concat>},
    {"DepthToSpace", moving<depth_to_space>},
    {"Pad", moving<pad>},
    {"ReverseSequence", moving<reverse_sequence>},
    {"Slice", moving<slice>},
    {"SpaceToDepth", moving<space_to_depth>},
    {"Split", moving<split>},
    {"Tile", moving<tile>},
    {"Trilu", trilu},
};

}  // namespace

std::span<const Kernel> layout_kernels() { return kKernels; }

}  // namespace tempera::engine::aten
