/// The steps up: what a node of an older version of its operator must become to mean the same in the next one.
/// Source: the operators' changelog (docs/Changelog.md of ONNX); for Upsample and Resize before opset 11, whose text leaves
/// rounding open, the ONNX project's own test cases of those versions.

#include <algorithm>
#include <array>
#include <set>

#include <fmt/format.h>

#include "tempera/base/error.h"
#include "tempera/numeric/convert.h"
#include "tempera/onnx/opset_steps.h"

namespace tempera::onnx {
namespace {

using graph::DataType;
using graph::Graph;
using graph::Tensor;
using graph::ValueId;
using Ints = std::vector<std::int64_t>;

Tensor ints(const Ints& values) {
  return Tensor::from<std::int64_t>({static_cast<std::int64_t>(values.size())}, values);
}

// One number of the given floating-point or integer type; float when the type is not known.
Tensor scalar_of(DataType type, float value) {
  const DataType known = type == DataType::kUndefined ? DataType::kFloat32 : type;
  Tensor::Writable made = Tensor::allocate(known, {});
  numeric::encode(known, std::span(&value, 1), made.bytes);
  return std::move(made.tensor);
}

void rename_attribute(Step& s, std::string_view from, std::string_view to) {
  if (s.has(from)) {
    s.g.set_attribute(s.id, to, s.node().attributes.find(from)->second);
    s.g.remove_attribute(s.id, from);
  }
}

void set_if_absent(Step& s, std::string_view name, graph::Attribute value) {
  if (!s.has(name)) {
    s.g.set_attribute(s.id, name, std::move(value));
  }
}

void remove_consumed_inputs(Step& s) { s.g.remove_attribute(s.id, "consumed_inputs"); }

// -- opset 2 to 7 --------------------------------------------------------------------------------------------------------

void pad_2(Step& s) { rename_attribute(s, "paddings", "pads"); }

void lp_pool_2(Step& s) {
  if (s.has("p")) {
    const auto p = s.g.attribute<float>(s.id, "p", 2.0F);
    s.g.set_attribute(s.id, "p", static_cast<std::int64_t>(p));
  }
}

void concat_4(Step& s) { set_if_absent(s, "axis", std::int64_t{1}); }

void reshape_5(Step& s) {
  remove_consumed_inputs(s);
  attribute_to_input(s, "shape", 1);
}

void cast_6(Step& s) {
  auto name = s.g.attribute<std::string>(s.id, "to", "");
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  const std::optional<DataType> type = numeric::data_type_from_string(name);
  if (!type.has_value()) {
    s.refuse(fmt::format("attribute 'to' is '{}', which names no type", name));
  }
  s.g.set_attribute(s.id, "to", static_cast<std::int64_t>(*type));
}

void selu_6(Step& s) {
  remove_consumed_inputs(s);
  set_if_absent(s, "alpha", 1.6732F);
  set_if_absent(s, "gamma", 1.0507F);
}

// `repeats` along all axes instead of along one.
void tile_6(Step& s) {
  const std::optional<Tensor> tiles = s.g.constant(s.input(1));
  const std::optional<Tensor> axis = s.g.constant(s.input(2));
  if (!tiles.has_value() || !axis.has_value()) {
    s.refuse("'tiles' and 'axis' are not constant");
  }
  Ints repeats(static_cast<std::size_t>(s.rank(s.input(0))), 1);
  const auto at = static_cast<std::size_t>(graph::to_doubles(*axis).at(0));
  if (at >= repeats.size()) {
    s.refuse("'axis' is out of range");
  }
  repeats[at] = static_cast<std::int64_t>(graph::to_doubles(*tiles).at(0));
  s.g.set_inputs(s.id, {s.input(0), s.constant(ints(repeats), "repeats")});
}

// Gives the second operand trailing dimensions of 1, so that its first one meets `axis` of the first operand.
void align(Step& s, std::int64_t axis) {
  const ValueId b = s.input(1);
  const std::int64_t rank_a = s.rank(s.input(0));
  const std::int64_t rank_b = s.rank(b);
  const std::int64_t missing = rank_a - (axis < 0 ? axis + rank_a : axis) - rank_b;
  if (missing <= 0) {
    return;
  }
  Ints axes;
  for (std::int64_t i = 0; i < missing; ++i) {
    axes.push_back(rank_b + i);
  }
  s.g.set_input(s.id, 1, s.add("Unsqueeze", {b}, "aligned", {{"axes", axes}}));
}

void broadcast_7(Step& s) {
  if (s.g.attribute<std::int64_t>(s.id, "broadcast", 0) != 0 && s.has("axis")) {
    align(s, s.g.attribute<std::int64_t>(s.id, "axis", 0));
  }
  s.g.remove_attribute(s.id, "broadcast");
  s.g.remove_attribute(s.id, "axis");
}

// A slope for each channel stood for axis 1.
void prelu_7(Step& s) {
  const std::optional<graph::Dims> slope = s.type(s.input(1)).dims();
  if (slope.has_value() && slope->size() == 1 && slope->at(0) != 1) {
    align(s, 1);
  }
}

void gemm_7(Step& s) { s.g.remove_attribute(s.id, "broadcast"); }

// Outputs beyond the first exist in training only.
void keep_first_output(Step& s) {
  for (std::size_t i = s.node().outputs.size(); i-- > 1;) {
    const ValueId out = s.g.output(s.id, i);
    if (out.valid() && !s.g.is_unused(out)) {
      s.refuse("it is used in its training mode");
    }
    if (i < s.node().outputs.size()) {
      s.g.remove_output(s.id, i);
    }
  }
}

void batch_norm_6(Step& s) { remove_consumed_inputs(s); }

void batch_norm_7(Step& s) {
  keep_first_output(s);
  s.g.remove_attribute(s.id, "is_test");
}

void batch_norm_9(Step& s) {
  if (s.g.attribute<std::int64_t>(s.id, "spatial", 1) == 0) {
    s.refuse("statistics for each activation (spatial = 0) have no counterpart");
  }
  s.g.remove_attribute(s.id, "spatial");
}

void dropout_7(Step& s) { s.g.remove_attribute(s.id, "is_test"); }

void recurrent_7(Step& s) { s.g.remove_attribute(s.id, "output_sequence"); }

void upsample_7(Step& s) {
  const auto height = s.g.attribute<float>(s.id, "height_scale", 1.0F);
  const auto width = s.g.attribute<float>(s.id, "width_scale", 1.0F);
  s.g.remove_attribute(s.id, "height_scale");
  s.g.remove_attribute(s.id, "width_scale");
  s.g.set_attribute(s.id, "scales", std::vector<float>{1.0F, 1.0F, height, width});
}

// -- opset 9 to 13 -------------------------------------------------------------------------------------------------------

void scan_9(Step& s) { s.refuse("Scan over a batch (opset 8) has no counterpart"); }

void upsample_10(Step& s) { s.g.set_operator(s.id, "Resize"); }

void slice_10(Step& s) {
  attribute_to_input(s, "starts", 1);
  attribute_to_input(s, "ends", 2);
  attribute_to_input(s, "axes", 3);
}

void top_k_10(Step& s) { attribute_to_input(s, "k", 1); }

void clip_11(Step& s) {
  const DataType type = s.type(s.input(0)).element;
  const std::array<std::pair<const char*, std::size_t>, 2> limits = {{{"min", 1}, {"max", 2}}};
  for (const auto& [name, input] : limits) {
    if (s.has(name)) {
      s.g.set_input(s.id, input, s.constant(scalar_of(type, s.g.attribute<float>(s.id, name, 0.0F)), name));
      s.g.remove_attribute(s.id, name);
    }
  }
}

void pad_11(Step& s) {
  attribute_to_input(s, "pads", 1);
  if (s.has("value")) {
    const DataType type = s.type(s.input(0)).element;
    s.g.set_input(s.id, 2, s.constant(scalar_of(type, s.g.attribute<float>(s.id, "value", 0.0F)), "value"));
    s.g.remove_attribute(s.id, "value");
  }
}

// Before, positions were x / scale, rounded down when enlarging and up when shrinking.
void resize_11(Step& s) {
  const ValueId scales = s.input(1);
  s.g.set_inputs(s.id, {s.input(0), s.constant(Tensor::from<float>({0}, {}), "roi"), scales});
  s.g.set_attribute(s.id, "coordinate_transformation_mode", std::string("asymmetric"));
  if (s.g.attribute<std::string>(s.id, "mode", "nearest") != "nearest") {
    s.g.set_attribute(s.id, "mode", std::string("linear"));
    return;
  }
  bool shrinks = false;
  if (const std::optional<Tensor> known = s.g.constant(scales)) {
    const std::vector<double> factors = graph::to_doubles(*known);
    shrinks = std::any_of(factors.begin(), factors.end(), [](double f) { return f < 1; });
    if (shrinks && std::any_of(factors.begin(), factors.end(), [](double f) { return f > 1; })) {
      s.refuse("it enlarges one axis and shrinks another, by the nearest element");
    }
  }
  s.g.set_attribute(s.id, "nearest_mode", std::string(shrinks ? "ceil" : "floor"));
}

// The region of interest may be left out: engines take that better than an empty one.
void resize_13(Step& s) {
  const std::optional<Tensor> roi = s.g.constant(s.input(1));
  if (roi.has_value() && roi->size() == 0) {
    s.g.set_input(s.id, 1, {});
  }
}

void scatter_11(Step& s) { s.g.set_operator(s.id, "ScatterElements"); }

void dropout_12(Step& s) {
  if (s.has("ratio")) {
    const DataType type = s.type(s.input(0)).element;
    const DataType usable = numeric::is_float(type) ? type : DataType::kFloat32;
    s.g.set_input(s.id, 1, s.constant(scalar_of(usable, s.g.attribute<float>(s.id, "ratio", 0.5F)), "ratio"));
    s.g.remove_attribute(s.id, "ratio");
  }
}

// Before, the input was flattened to a matrix at `axis` (1 unless given) and each row normalised.
void softmax_13(Step& s) {
  const auto axis = s.g.attribute<std::int64_t>(s.id, "axis", 1);
  const graph::ValueType type = s.type(s.input(0));
  const std::optional<std::int64_t> rank = type.rank();
  if (rank.has_value()) {
    const std::int64_t first = axis < 0 ? axis + *rank : axis;
    const bool ones_follow =
        first >= 0 && first < *rank && std::all_of(type.shape->begin() + first + 1, type.shape->end(), [](const graph::Dim& d) { return d.value == 1; });
    if (ones_follow) {
      s.g.set_attribute(s.id, "axis", axis);
      return;
    }
  }
  const ValueId x = s.input(0);
  const ValueId flat = s.add("Flatten", {x}, "flat", {{"axis", axis}});
  const ValueId soft = s.add(s.node().op_type, {flat}, "rows", {{"axis", std::int64_t{1}}});
  const ValueId shape = s.add("Shape", {x}, "shape");
  s.g.remove_attribute(s.id, "axis");
  s.g.set_operator(s.id, "Reshape");
  s.g.set_inputs(s.id, {soft, shape});
}

// -- opset 14 and later --------------------------------------------------------------------------------------------------

void batch_norm_14(Step& s) { keep_first_output(s); }

void roi_align_16(Step& s) {
  set_if_absent(s, "coordinate_transformation_mode", std::string("output_half_pixel"));
}

void split_18(Step& s) {
  if (!s.input(1).valid()) {
    set_if_absent(s, "num_outputs", static_cast<std::int64_t>(s.node().outputs.size()));
  }
}

void dft_20(Step& s) {
  set_if_absent(s, "axis", std::int64_t{1});
  const auto axis = s.g.attribute<std::int64_t>(s.id, "axis", 1);
  s.g.set_input(s.id, 2, s.constant(Tensor::scalar<std::int64_t>(axis), "axis"));
  s.g.remove_attribute(s.id, "axis");
}

void grid_sample_20(Step& s) {
  const auto mode = s.g.attribute<std::string>(s.id, "mode", "bilinear");
  s.g.set_attribute(s.id, "mode", mode == "bilinear" ? std::string("linear") : mode == "bicubic" ? std::string("cubic") : mode);
}

// Scale and bias for each group become those of each channel of the group.
void group_norm_21(Step& s) {
  const graph::ValueType type = s.type(s.input(0));
  const auto groups = s.g.attribute<std::int64_t>(s.id, "num_groups", 0);
  if (!type.shape.has_value() || type.shape->size() < 2 || !type.shape->at(1).fixed() || groups <= 0) {
    s.refuse("the number of channels is not known");
  }
  const std::int64_t channels = type.shape->at(1).value;
  const ValueId apart = s.constant(ints({groups, 1}), "apart");
  const ValueId full = s.constant(ints({groups, channels / groups}), "full");
  const ValueId joined = s.constant(ints({channels}), "joined");
  for (const std::size_t i : {1, 2}) {
    const ValueId column = s.add("Reshape", {s.input(i), apart}, "column");
    const ValueId grid = s.add("Expand", {column, full}, "grid");
    s.g.set_input(s.id, i, s.add("Reshape", {grid, joined}, "channels"));
  }
}

// Integers are no longer taken.
void reduce_log_28(Step& s) {
  const DataType type = s.type(s.input(0)).element;
  if (numeric::is_integer(type)) {
    s.refuse(fmt::format("it does not take {} any more", numeric::to_string(type)));
  }
}

struct Entry {
  std::string_view op_type;
  std::int64_t version;
  StepFunction function;
};

constexpr std::array kSteps = {
    Entry{"Pad", 2, pad_2},
    Entry{"LpPool", 2, lp_pool_2},
    Entry{"GlobalLpPool", 2, lp_pool_2},
    Entry{"Concat", 4, concat_4},
    Entry{"Reshape", 5, reshape_5},
    Entry{"Cast", 6, cast_6},
    Entry{"Selu", 6, selu_6},
    Entry{"Tile", 6, tile_6},
    Entry{"BatchNormalization", 6, batch_norm_6},
    Entry{"Add", 7, broadcast_7},
    Entry{"Sub", 7, broadcast_7},
    Entry{"Mul", 7, broadcast_7},
    Entry{"Div", 7, broadcast_7},
    Entry{"Pow", 7, broadcast_7},
    Entry{"And", 7, broadcast_7},
    Entry{"Or", 7, broadcast_7},
    Entry{"Xor", 7, broadcast_7},
    Entry{"Equal", 7, broadcast_7},
    Entry{"Greater", 7, broadcast_7},
    Entry{"Less", 7, broadcast_7},
    Entry{"PRelu", 7, prelu_7},
    Entry{"Gemm", 7, gemm_7},
    Entry{"BatchNormalization", 7, batch_norm_7},
    Entry{"Dropout", 7, dropout_7},
    Entry{"RNN", 7, recurrent_7},
    Entry{"GRU", 7, recurrent_7},
    Entry{"LSTM", 7, recurrent_7},
    Entry{"Upsample", 7, upsample_7},
    Entry{"BatchNormalization", 9, batch_norm_9},
    Entry{"Scan", 9, scan_9},
    Entry{"Upsample", 10, upsample_10},
    Entry{"Slice", 10, slice_10},
    Entry{"TopK", 10, top_k_10},
    Entry{"Clip", 11, clip_11},
    Entry{"Pad", 11, pad_11},
    Entry{"Resize", 11, resize_11},
    Entry{"Scatter", 11, scatter_11},
    Entry{"Dropout", 12, dropout_12},
    Entry{"Softmax", 13, softmax_13},
    Entry{"LogSoftmax", 13, softmax_13},
    Entry{"Hardmax", 13, softmax_13},
    Entry{"Resize", 13, resize_13},
    Entry{"BatchNormalization", 14, batch_norm_14},
    Entry{"RoiAlign", 16, roi_align_16},
    Entry{"Split", 18, split_18},
    Entry{"DFT", 20, dft_20},
    Entry{"GridSample", 20, grid_sample_20},
    Entry{"GroupNormalization", 21, group_norm_21},
    Entry{"ReduceLogSum", 28, reduce_log_28},
    Entry{"ReduceLogSumExp", 28, reduce_log_28},
};

void move_attributes(Step& s) {
  for (const MovedAttribute& moved : moved_attributes()) {
    if (moved.op_type == s.node().op_type && moved.version == s.version) {
      attribute_to_input(s, moved.attribute, moved.input);
    }
  }
}

}  // namespace

StepFunction raise_step(std::string_view op_type, std::int64_t version) {
  for (const Entry& entry : kSteps) {
    if (entry.op_type == op_type && entry.version == version) {
      return entry.function;
    }
  }
  for (const MovedAttribute& moved : moved_attributes()) {
    if (moved.op_type == op_type && moved.version == version) {
      return move_attributes;
    }
  }
  return version == 6 ? remove_consumed_inputs : nullptr;
}

}  // namespace tempera::onnx
