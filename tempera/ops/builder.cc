#include "tempera/ops/builder.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "tempera/base/error.h"
#include "tempera/numeric/convert.h"
#include "tempera/ops/access.h"

namespace tempera::ops {

using graph::DataType;
using graph::Dims;
using graph::Shape;
using graph::Tensor;
using graph::ValueId;
using graph::ValueType;

DataType Builder::element(ValueId x) const { return element_of(graph_, x); }

ValueId Builder::node(std::string_view op_type, std::vector<ValueId> inputs, Attributes attributes, ValueType type) {
  const ValueId out = graph_.add_node(op_type, std::move(inputs), stem_, std::move(attributes));
  if (type.kind != ValueType::Kind::kUnknown) {
    graph_.set_type(out, std::move(type));
  }
  return out;
}

ValueId Builder::constant(Tensor tensor) { return graph_.add_initializer(stem_ + "_const", std::move(tensor)); }

ValueId Builder::ints(std::vector<std::int64_t> values) {
  return constant(Tensor::from<std::int64_t>({static_cast<std::int64_t>(values.size())},
                                             std::span<const std::int64_t>(values)));
}

ValueId Builder::scalar(double value, DataType type) {
  if (type == DataType::kFloat64) {
    return constant(Tensor::scalar(value));
  }
  Tensor::Writable made = Tensor::allocate(type, {});
  const std::array<float, 1> values = {static_cast<float>(value)};
  numeric::encode(type, values, made.bytes);
  return constant(std::move(made.tensor));
}

ValueId Builder::reshape(ValueId x, std::vector<std::int64_t> shape) {
  ValueType type;
  if (std::all_of(shape.begin(), shape.end(), [](std::int64_t dim) { return dim > 0; })) {
    type = ValueType::tensor(element(x), graph::shape_of(shape));
  }
  if (opset_ < 5) {
    return node("Reshape", {x}, {{"shape", std::move(shape)}}, std::move(type));
  }
  const ValueId target = ints(std::move(shape));
  return node("Reshape", {x, target}, {}, std::move(type));
}

ValueId Builder::transpose(ValueId x, std::vector<std::int64_t> perm) {
  ValueType type;
  const std::optional<Shape>& from = graph_.value(x).type.shape;
  if (from.has_value() && from->size() == perm.size()) {
    Shape shape;
    for (const std::int64_t axis : perm) {
      shape.push_back(from->at(static_cast<std::size_t>(axis)));
    }
    type = ValueType::tensor(element(x), std::move(shape));
  }
  return node("Transpose", {x}, {{"perm", std::move(perm)}}, std::move(type));
}

ValueId Builder::with_list(std::string_view op_type, ValueId x, std::string_view list,
                           std::vector<std::int64_t> values, std::int64_t input_since, Attributes attributes) {
  if (opset_ < input_since) {
    attributes.emplace(list, std::move(values));
    return node(op_type, {x}, std::move(attributes));
  }
  const ValueId given = ints(std::move(values));
  return node(op_type, {x, given}, std::move(attributes));
}

ValueId Builder::squeeze(ValueId x, std::vector<std::int64_t> axes) {
  return with_list("Squeeze", x, "axes", std::move(axes), 13);
}

ValueId Builder::unsqueeze(ValueId x, std::vector<std::int64_t> axes) {
  return with_list("Unsqueeze", x, "axes", std::move(axes), 13);
}

ValueId Builder::reduce(std::string_view op_type, ValueId x, std::vector<std::int64_t> axes, bool keep_dims_wanted) {
  const std::optional<Shape> from = graph_.value(x).type.shape;
  const std::vector<std::int64_t> reduced = axes;
  const ValueId out = with_list(op_type, x, "axes", std::move(axes), op_type == "ReduceSum" ? 13 : 18,
                                {{"keepdims", std::int64_t{keep_dims_wanted ? 1 : 0}}});
  if (!from.has_value()) {
    return out;
  }
  std::vector<bool> gone(from->size(), false);
  for (const std::int64_t axis : reduced) {
    const auto resolved = normalize_axis(axis, static_cast<std::int64_t>(from->size()));
    TEMPERA_CHECK(resolved.has_value(), "an axis to reduce is out of range");
    gone[static_cast<std::size_t>(*resolved)] = true;
  }
  Shape shape;
  for (std::size_t i = 0; i < from->size(); ++i) {
    if (!gone[i]) {
      shape.push_back((*from)[i]);
    } else if (keep_dims_wanted) {
      shape.emplace_back(1);
    }
  }
  graph_.set_type(out, ValueType::tensor(element(x), std::move(shape)));
  return out;
}

ValueId Builder::slice(ValueId x, std::vector<std::int64_t> starts, std::vector<std::int64_t> ends,
                       std::vector<std::int64_t> axes, std::vector<std::int64_t> steps) {
  const bool plain = std::all_of(steps.begin(), steps.end(), [](std::int64_t step) { return step == 1; });
  if (opset_ < 10) {
    TEMPERA_CHECK(plain, "a slice has steps only from opset 10");
    return node("Slice", {x}, {{"starts", std::move(starts)}, {"ends", std::move(ends)}, {"axes", std::move(axes)}});
  }
  std::vector<ValueId> inputs = {x, ints(std::move(starts)), ints(std::move(ends)), ints(std::move(axes))};
  if (!plain) {
    inputs.push_back(ints(std::move(steps)));
  }
  return node("Slice", std::move(inputs));
}

std::vector<ValueId> Builder::split(ValueId x, std::int64_t axis, std::vector<std::int64_t> sizes) {
  graph::Node made;
  made.op_type = "Split";
  made.attributes.emplace("axis", axis);
  made.inputs = {x};
  const std::optional<Shape> from = graph_.value(x).type.shape;
  for (const std::int64_t size : sizes) {
    ValueType type;
    if (from.has_value()) {
      Shape shape = *from;
      shape.at(static_cast<std::size_t>(normalize_axis(axis, static_cast<std::int64_t>(shape.size())).value())) = size;
      type = ValueType::tensor(element(x), std::move(shape));
    }
    made.outputs.push_back(graph_.add_value(stem_, std::move(type)));
  }
  made.name = graph_.value(made.outputs.front()).name;
  if (opset_ < 13) {
    made.attributes.emplace("split", std::move(sizes));
  } else {
    made.inputs.push_back(ints(std::move(sizes)));
  }
  const std::vector<ValueId> outputs = made.outputs;
  graph_.add_node(std::move(made));
  return outputs;
}

ValueId Builder::pad(ValueId x, const std::vector<std::int64_t>& begin, const std::vector<std::int64_t>& end) {
  std::vector<std::int64_t> pads = begin;
  pads.insert(pads.end(), end.begin(), end.end());
  if (opset_ < 11) {
    return node("Pad", {x}, {{opset_ < 2 ? "paddings" : "pads", std::move(pads)}});
  }
  const ValueId given = ints(std::move(pads));
  return node("Pad", {x, given});
}

ValueId Builder::clip(ValueId x, double low, double high) {
  const ValueType type = graph_.value(x).type;
  if (opset_ < 11) {
    Attributes attributes;
    if (std::isfinite(low)) {
      attributes.emplace("min", static_cast<float>(low));
    }
    if (std::isfinite(high)) {
      attributes.emplace("max", static_cast<float>(high));
    }
    return node("Clip", {x}, std::move(attributes), type);
  }
  std::vector<ValueId> inputs = {x, {}, {}};
  if (std::isfinite(low)) {
    inputs[1] = scalar(low, element(x));
  }
  if (std::isfinite(high)) {
    inputs[2] = scalar(high, element(x));
  } else {
    inputs.pop_back();
  }
  return node("Clip", std::move(inputs), {}, type);
}

}  // namespace tempera::ops
