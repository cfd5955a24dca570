#include "tempera/ops/access.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include "tempera/base/error.h"

namespace tempera::ops {
namespace {

using graph::DataType;
using graph::Tensor;

[[noreturn]] void contradict(const Graph& graph, NodeId id, const std::string& what) {
  throw Error(ErrorCode::kBadModel, what).in(graph.describe(id));
}

std::optional<Dims> list_attribute(const Graph& graph, NodeId id, std::string_view name) {
  if (!graph.has_attribute(id, name)) {
    return std::nullopt;
  }
  return graph.attribute<std::vector<std::int64_t>>(id, name, {});
}

// All axes made non-negative, or nothing when the rank is unknown; bad when one is out of range.
std::optional<Dims> resolve_axes(const Graph& graph, NodeId id, Dims axes, std::int64_t rank) {
  for (std::int64_t& axis : axes) {
    const std::optional<std::int64_t> resolved = normalize_axis(axis, rank);
    if (!resolved.has_value()) {
      contradict(graph, id, fmt::format("axis {} does not exist in a tensor of rank {}", axis, rank));
    }
    axis = *resolved;
  }
  return axes;
}

bool is_reduction(const graph::Node& node) { return node.op_type.starts_with("Reduce"); }

}  // namespace

std::optional<Dims> constant_ints(const Graph& graph, ValueId id) {
  const std::optional<Tensor> tensor = graph.constant(id);
  if (!tensor.has_value() || !numeric::is_integer(tensor->type()) || numeric::bits_of(tensor->type()) < 8) {
    return std::nullopt;
  }
  return to_int64s(*tensor);
}

std::optional<double> constant_scalar(const Graph& graph, ValueId id) {
  const std::optional<Tensor> tensor = graph.constant(id);
  if (!tensor.has_value() || tensor->size() != 1) {
    return std::nullopt;
  }
  return constant_uniform(graph, id);
}

std::optional<double> constant_uniform(const Graph& graph, ValueId id) {
  constexpr std::int64_t kMost = 1 << 16;
  const std::optional<Tensor> tensor = graph.constant(id);
  if (!tensor.has_value() || tensor->size() == 0 || tensor->size() > kMost) {
    return std::nullopt;
  }
  if (!numeric::is_float(tensor->type()) && !numeric::is_integer(tensor->type()) &&
      tensor->type() != DataType::kBool) {
    return std::nullopt;
  }
  const std::vector<double> values = to_doubles(*tensor);
  const bool same = std::all_of(values.begin(), values.end(), [&](double v) { return v == values.front(); });
  return same ? std::optional(values.front()) : std::nullopt;
}

std::optional<std::int64_t> rank_of(const Graph& graph, ValueId id) {
  return id.valid() ? graph.value(id).type.rank() : std::nullopt;
}

std::optional<Dims> dims_of(const Graph& graph, ValueId id) {
  return id.valid() ? graph.value(id).type.dims() : std::nullopt;
}

std::optional<std::int64_t> dim_of(const Graph& graph, ValueId id, std::int64_t axis) {
  const std::optional<std::int64_t> rank = rank_of(graph, id);
  if (!rank.has_value()) {
    return std::nullopt;
  }
  const std::optional<std::int64_t> resolved = normalize_axis(axis, *rank);
  if (!resolved.has_value()) {
    return std::nullopt;
  }
  const graph::Dim& dim = (*graph.value(id).type.shape)[static_cast<std::size_t>(*resolved)];
  return dim.fixed() ? std::optional(dim.value) : std::nullopt;
}

DataType element_of(const Graph& graph, ValueId id) {
  if (!id.valid() || !graph.value(id).type.is_tensor()) {
    return DataType::kUndefined;
  }
  return graph.value(id).type.element;
}

bool is_arithmetic_float(DataType type) {
  return type == DataType::kFloat32 || type == DataType::kFloat64 || type == DataType::kFloat16 ||
         type == DataType::kBfloat16;
}

std::optional<std::int64_t> normalize_axis(std::int64_t axis, std::int64_t rank) {
  if (axis < -rank || axis >= rank) {
    return std::nullopt;
  }
  return axis < 0 ? axis + rank : axis;
}

std::optional<Dims> ints_of(const Graph& graph, NodeId id, std::string_view name, std::size_t input) {
  if (std::optional<Dims> given = list_attribute(graph, id, name)) {
    return given;
  }
  return constant_ints(graph, graph.input(id, input));
}

bool is_given(const Graph& graph, NodeId id, std::string_view name, std::size_t input) {
  return graph.has_attribute(id, name) || graph.input(id, input).valid();
}

std::optional<Dims> axes_of(const Graph& graph, NodeId id) {
  const graph::Node& node = graph.node(id);
  const ValueId data = graph.input(id, 0);
  const std::optional<std::int64_t> rank = rank_of(graph, data);
  if (!is_given(graph, id, "axes", 1)) {
    if (!rank.has_value()) {
      return std::nullopt;
    }
    Dims axes;
    if (is_reduction(node)) {
      if (graph.attribute<std::int64_t>(id, "noop_with_empty_axes", 0) == 0) {
        axes.resize(static_cast<std::size_t>(*rank));
        std::iota(axes.begin(), axes.end(), 0);
      }
      return axes;
    }
    const std::optional<Dims> dims = dims_of(graph, data);
    if (!dims.has_value()) {
      return std::nullopt;
    }
    for (std::int64_t axis = 0; axis < *rank; ++axis) {
      if ((*dims)[static_cast<std::size_t>(axis)] == 1) {
        axes.push_back(axis);
      }
    }
    return axes;
  }
  std::optional<Dims> axes = ints_of(graph, id, "axes", 1);
  if (!axes.has_value()) {
    return std::nullopt;
  }
  const bool negative = std::any_of(axes->begin(), axes->end(), [](std::int64_t axis) { return axis < 0; });
  const bool grows = node.op_type == "Unsqueeze";
  if (rank.has_value()) {
    axes = resolve_axes(graph, id, *axes, *rank + (grows ? static_cast<std::int64_t>(axes->size()) : 0));
    if (axes->empty() && is_reduction(node) &&
        graph.attribute<std::int64_t>(id, "noop_with_empty_axes", 0) == 0) {
      axes->resize(static_cast<std::size_t>(*rank));
      std::iota(axes->begin(), axes->end(), 0);
    }
  } else if (negative || axes->empty()) {
    return std::nullopt;
  }
  std::sort(axes->begin(), axes->end());
  return axes;
}

bool keep_dims(const Graph& graph, NodeId id) { return graph.attribute<std::int64_t>(id, "keepdims", 1) != 0; }

std::optional<Dims> permutation_of(const Graph& graph, NodeId id) {
  if (std::optional<Dims> given = list_attribute(graph, id, "perm")) {
    std::vector<bool> seen(given->size(), false);
    for (const std::int64_t axis : *given) {
      if (axis < 0 || axis >= static_cast<std::int64_t>(given->size()) || seen[static_cast<std::size_t>(axis)]) {
        contradict(graph, id, fmt::format("{} is no permutation", graph::to_string(*given)));
      }
      seen[static_cast<std::size_t>(axis)] = true;
    }
    return given;
  }
  const std::optional<std::int64_t> rank = rank_of(graph, graph.input(id, 0));
  if (!rank.has_value()) {
    return std::nullopt;
  }
  Dims reversed(static_cast<std::size_t>(*rank));
  std::iota(reversed.rbegin(), reversed.rend(), 0);
  return reversed;
}

std::optional<std::int64_t> axis_of(const Graph& graph, NodeId id, std::int64_t opset) {
  const graph::Node& node = graph.node(id);
  const bool softmax = node.op_type == "Softmax" || node.op_type == "LogSoftmax" || node.op_type == "Hardmax";
  const std::int64_t fallback = !softmax ? (node.op_type == "Concat" && opset < 4 ? 1 : 0) : (opset < 13 ? 1 : -1);
  const std::int64_t axis = graph.attribute<std::int64_t>(id, "axis", fallback);
  std::optional<std::int64_t> rank = rank_of(graph, graph.input(id, 0));
  if (!rank.has_value() && !softmax) {
    return axis >= 0 ? std::optional(axis) : std::nullopt;
  }
  if (!rank.has_value()) {
    return std::nullopt;
  }
  const std::optional<std::int64_t> resolved = normalize_axis(axis, *rank);
  if (!resolved.has_value()) {
    contradict(graph, id, fmt::format("axis {} does not exist in a tensor of rank {}", axis, *rank));
  }
  if (softmax && opset < 13 && *resolved != *rank - 1) {
    return std::nullopt;
  }
  return resolved;
}

std::optional<SliceForm> slice_form(const Graph& graph, NodeId id) {
  SliceForm form;
  const std::optional<Dims> starts = ints_of(graph, id, "starts", 1);
  const std::optional<Dims> ends = ints_of(graph, id, "ends", 2);
  if (!starts.has_value() || !ends.has_value()) {
    return std::nullopt;
  }
  form.starts = *starts;
  form.ends = *ends;
  const std::size_t count = starts->size();
  if (is_given(graph, id, "axes", 3)) {
    const std::optional<Dims> axes = ints_of(graph, id, "axes", 3);
    if (!axes.has_value()) {
      return std::nullopt;
    }
    form.axes = *axes;
  } else {
    form.axes.resize(count);
    std::iota(form.axes.begin(), form.axes.end(), 0);
  }
  form.steps.assign(count, 1);
  if (graph.input(id, 4).valid()) {
    const std::optional<Dims> steps = constant_ints(graph, graph.input(id, 4));
    if (!steps.has_value()) {
      return std::nullopt;
    }
    form.steps = *steps;
  }
  if (form.ends.size() != count || form.axes.size() != count || form.steps.size() != count ||
      std::count(form.steps.begin(), form.steps.end(), 0) != 0) {
    contradict(graph, id, "starts, ends, axes and steps of a slice must be of one length, and no step 0");
  }
  const std::optional<std::int64_t> rank = rank_of(graph, graph.input(id, 0));
  if (rank.has_value()) {
    form.axes = *resolve_axes(graph, id, form.axes, *rank);
  } else if (std::any_of(form.axes.begin(), form.axes.end(), [](std::int64_t axis) { return axis < 0; })) {
    return std::nullopt;
  }
  return form;
}

SliceRange clamp_slice(std::int64_t start, std::int64_t end, std::int64_t step, std::int64_t size) {
  // ONNX Slice-13: negative indices count from the end, then both are clamped; a negative step runs down to -1.
  const std::int64_t low = step > 0 ? 0 : -1;
  const std::int64_t high = step > 0 ? size : size - 1;
  const auto clamped = [&](std::int64_t index) {
    if (index < 0) {
      index = index < -size ? low : index + size;
    }
    return std::clamp(index, low, std::max(low, high));
  };
  SliceRange range;
  range.start = clamped(start);
  range.step = step;
  const std::int64_t last = clamped(end);
  const std::int64_t span = step > 0 ? last - range.start : range.start - last;
  if (span > 0) {
    // |step| as unsigned: the most negative step has no positive counterpart.
    const std::uint64_t stride =
        step > 0 ? static_cast<std::uint64_t>(step) : ~static_cast<std::uint64_t>(step) + 1U;
    range.count = static_cast<std::int64_t>((static_cast<std::uint64_t>(span) - 1U) / stride + 1U);
  }
  return range;
}

std::optional<SplitForm> split_form(const Graph& graph, NodeId id) {
  const std::optional<std::int64_t> axis = axis_of(graph, id, 13);
  if (!axis.has_value()) {
    return std::nullopt;
  }
  SplitForm form;
  form.axis = *axis;
  const std::size_t outputs = graph.node(id).outputs.size();
  if (is_given(graph, id, "split", 1)) {
    const std::optional<Dims> sizes = ints_of(graph, id, "split", 1);
    if (!sizes.has_value()) {
      return std::nullopt;
    }
    if (sizes->size() != outputs) {
      contradict(graph, id, fmt::format("{} sizes for {} outputs", sizes->size(), outputs));
    }
    form.sizes = *sizes;
    return form;
  }
  const std::optional<std::int64_t> size = dim_of(graph, graph.input(id, 0), *axis);
  if (!size.has_value() || outputs == 0) {
    return std::nullopt;
  }
  // Equal parts, rounded up; from opset 18 the last one may be smaller.
  const auto parts = static_cast<std::int64_t>(outputs);
  const std::int64_t each = (*size + parts - 1) / parts;
  form.sizes.assign(outputs, each);
  form.sizes.back() = *size - each * (parts - 1);
  if (form.sizes.back() < 0) {
    contradict(graph, id, fmt::format("{} elements cannot be split in {} parts", *size, parts));
  }
  return form;
}

std::optional<PadForm> pad_form(const Graph& graph, NodeId id) {
  PadForm form;
  form.mode = graph.attribute<std::string>(id, "mode", "constant");
  std::optional<Dims> pads = list_attribute(graph, id, "paddings");
  if (!pads.has_value()) {
    pads = ints_of(graph, id, "pads", 1);
  }
  const std::optional<std::int64_t> rank = rank_of(graph, graph.input(id, 0));
  if (!pads.has_value() || !rank.has_value()) {
    return std::nullopt;
  }
  if (graph.has_attribute(id, "value")) {
    form.value = graph.attribute<float>(id, "value", 0.0F);
  } else if (graph.input(id, 2).valid()) {
    const std::optional<double> value = constant_scalar(graph, graph.input(id, 2));
    if (!value.has_value()) {
      return std::nullopt;
    }
    form.value = *value;
  }
  Dims axes(static_cast<std::size_t>(*rank));
  std::iota(axes.begin(), axes.end(), 0);
  if (graph.input(id, 3).valid()) {
    const std::optional<Dims> given = constant_ints(graph, graph.input(id, 3));
    if (!given.has_value()) {
      return std::nullopt;
    }
    axes = *resolve_axes(graph, id, *given, *rank);
  }
  if (pads->size() != 2 * axes.size()) {
    contradict(graph, id, fmt::format("{} pads for {} axes", pads->size(), axes.size()));
  }
  form.begin.assign(static_cast<std::size_t>(*rank), 0);
  form.end.assign(static_cast<std::size_t>(*rank), 0);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    form.begin[static_cast<std::size_t>(axes[i])] = (*pads)[i];
    form.end[static_cast<std::size_t>(axes[i])] = (*pads)[i + axes.size()];
  }
  return form;
}

std::optional<ClipForm> clip_form(const Graph& graph, NodeId id) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  ClipForm form{-kInfinity, kInfinity};
  const auto limit = [&](std::string_view name, std::size_t input, double& into) {
    if (graph.has_attribute(id, name)) {
      into = graph.attribute<float>(id, name, 0.0F);
    } else if (graph.input(id, input).valid()) {
      const std::optional<double> value = constant_scalar(graph, graph.input(id, input));
      if (!value.has_value()) {
        return false;
      }
      into = *value;
    }
    return true;
  };
  if (!limit("min", 1, form.low) || !limit("max", 2, form.high)) {
    return std::nullopt;
  }
  return form;
}

std::optional<ConvForm> conv_form(const Graph& graph, NodeId id) {
  ConvForm form;
  std::size_t spatial = 0;
  if (const std::optional<Dims> kernel = list_attribute(graph, id, "kernel_shape")) {
    form.kernel = *kernel;
    spatial = kernel->size();
  } else if (const std::optional<Dims> weight = dims_of(graph, graph.input(id, 1)); weight && weight->size() > 2) {
    form.kernel.assign(weight->begin() + 2, weight->end());
    spatial = form.kernel.size();
  } else {
    return std::nullopt;
  }
  const auto list = [&](std::string_view name, std::size_t length, std::int64_t fallback) {
    Dims values = list_attribute(graph, id, name).value_or(Dims(length, fallback));
    if (values.size() != length) {
      contradict(graph, id, fmt::format("attribute '{}' has {} numbers, expected {}", name, values.size(), length));
    }
    return values;
  };
  form.strides = list("strides", spatial, 1);
  form.dilations = list("dilations", spatial, 1);
  const Dims pads = list("pads", 2 * spatial, 0);
  form.pads_begin.assign(pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(spatial));
  form.pads_end.assign(pads.begin() + static_cast<std::ptrdiff_t>(spatial), pads.end());
  form.group = graph.attribute<std::int64_t>(id, "group", 1);
  form.auto_pad = graph.attribute<std::string>(id, "auto_pad", "NOTSET");
  if (form.auto_pad.empty()) {
    form.auto_pad = "NOTSET";
  }
  if (form.group < 1) {
    contradict(graph, id, fmt::format("group is {}, expected at least 1", form.group));
  }
  return form;
}

bool is_training(const Graph& graph, NodeId id) {
  const graph::Node& node = graph.node(id);
  if (node.is("Dropout")) {
    const ValueId mode = graph.input(id, 2);
    if (mode.valid()) {
      const std::optional<double> value = constant_scalar(graph, mode);
      const std::optional<double> ratio = constant_scalar(graph, graph.input(id, 1));
      return (!value.has_value() || *value != 0.0) && !(ratio.has_value() && *ratio == 0.0);
    }
    // Up to opset 6 the attribute is_test says so, and its default is to train.
    return graph.has_attribute(id, "is_test") && graph.attribute<std::int64_t>(id, "is_test", 0) == 0;
  }
  if (node.is("BatchNormalization")) {
    const auto outputs = std::count_if(node.outputs.begin(), node.outputs.end(), [](ValueId v) { return v.valid(); });
    return graph.attribute<std::int64_t>(id, "training_mode", 0) != 0 || outputs > 1;
  }
  return false;
}

bool is_numpy_broadcast(const Graph& graph, NodeId id) {
  return !graph.has_attribute(id, "broadcast") && !graph.has_attribute(id, "axis");
}

}  // namespace tempera::ops
