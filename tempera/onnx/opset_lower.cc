/// The steps down, for operators whose form differs; where it does not, the older schema alone decides (see opset.cc).

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "tempera/base/error.h"
#include "tempera/onnx/opset_steps.h"

namespace tempera::onnx {
namespace {

using graph::Tensor;
using graph::ValueId;
using Ints = std::vector<std::int64_t>;

// The constant that input number `i` holds; refused when it is computed.
Tensor constant_input(Step& s, std::size_t i, std::string_view name) {
  const std::optional<Tensor> known = s.g.constant(s.input(i));
  if (!known.has_value()) {
    s.refuse(fmt::format("'{}' is computed, but was an attribute then", name));
  }
  return *known;
}

void drop_inputs_from(Step& s, std::size_t first) {
  std::vector<ValueId> inputs = s.node().inputs;
  inputs.resize(std::min(inputs.size(), first));
  s.g.set_inputs(s.id, std::move(inputs));
}

void ints_to_attribute(Step& s, std::size_t input, std::string_view attribute) {
  if (s.input(input).valid()) {
    s.g.set_attribute(s.id, attribute, graph::to_int64s(constant_input(s, input, attribute)));
  }
}

void number_to_attribute(Step& s, std::size_t input, std::string_view attribute) {
  if (s.input(input).valid()) {
    const std::vector<double> values = graph::to_doubles(constant_input(s, input, attribute));
    if (values.size() != 1) {
      s.refuse(fmt::format("'{}' is no single number", attribute));
    }
    s.g.set_attribute(s.id, attribute, static_cast<float>(values[0]));
  }
}

void moved_back(Step& s) {
  if (s.g.attribute<std::int64_t>(s.id, "noop_with_empty_axes", 0) != 0 &&
      (!s.input(1).valid() || constant_input(s, 1, "axes").size() == 0)) {
    s.g.set_operator(s.id, "Identity");
    s.g.remove_attribute(s.id, "noop_with_empty_axes");
    s.g.remove_attribute(s.id, "keepdims");
    drop_inputs_from(s, 1);
    return;
  }
  s.g.remove_attribute(s.id, "noop_with_empty_axes");
  for (const MovedAttribute& moved : moved_attributes()) {
    if (moved.op_type == s.node().op_type && s.input(moved.input).valid()) {
      ints_to_attribute(s, moved.input, moved.attribute);
      drop_inputs_from(s, moved.input);
      return;
    }
  }
}

void split_18(Step& s) { s.g.remove_attribute(s.id, "num_outputs"); }

void softmax_13(Step& s) {
  const std::int64_t rank = s.rank(s.input(0));
  const auto axis = s.g.attribute<std::int64_t>(s.id, "axis", -1);
  const std::int64_t from_front = axis < 0 ? axis + rank : axis;
  if (from_front != rank - 1) {
    s.refuse("an axis that is not the last one could not be normalised alone");
  }
  s.g.set_attribute(s.id, "axis", from_front);
}

void dropout_12(Step& s) {
  if (s.input(2).valid()) {
    s.refuse("the training mode is an input");
  }
  number_to_attribute(s, 1, "ratio");
  drop_inputs_from(s, 1);
}

void clip_11(Step& s) {
  number_to_attribute(s, 1, "min");
  number_to_attribute(s, 2, "max");
  drop_inputs_from(s, 1);
}

void pad_11(Step& s) {
  ints_to_attribute(s, 1, "pads");
  number_to_attribute(s, 2, "value");
  drop_inputs_from(s, 1);
}

void slice_10(Step& s) {
  if (s.input(4).valid()) {
    const Ints steps = graph::to_int64s(constant_input(s, 4, "steps"));
    if (std::any_of(steps.begin(), steps.end(), [](std::int64_t step) { return step != 1; })) {
      s.refuse("steps other than 1 did not exist");
    }
  }
  ints_to_attribute(s, 1, "starts");
  ints_to_attribute(s, 2, "ends");
  ints_to_attribute(s, 3, "axes");
  drop_inputs_from(s, 1);
}

void top_k_11(Step& s) {
  if (s.g.attribute<std::int64_t>(s.id, "largest", 1) == 0) {
    s.refuse("the smallest elements could not be asked for");
  }
  s.g.remove_attribute(s.id, "largest");
  s.g.remove_attribute(s.id, "sorted");
}

void grid_sample_20(Step& s) {
  const auto mode = s.g.attribute<std::string>(s.id, "mode", "linear");
  s.g.set_attribute(s.id, "mode", mode == "linear" ? std::string("bilinear") : mode == "cubic" ? std::string("bicubic") : mode);
}

void refuse_form(Step& s) { s.refuse("the older form of the operator means something else"); }

struct Entry {
  std::string_view op_type;
  std::int64_t version;
  StepFunction function;
};

constexpr std::array kSteps = {
    Entry{"Split", 18, split_18},          Entry{"Softmax", 13, softmax_13},   Entry{"LogSoftmax", 13, softmax_13},
    Entry{"Hardmax", 13, softmax_13},      Entry{"Dropout", 12, dropout_12},   Entry{"Clip", 11, clip_11},
    Entry{"Pad", 11, pad_11},              Entry{"Slice", 10, slice_10},       Entry{"TopK", 11, top_k_11},
    Entry{"GridSample", 20, grid_sample_20}, Entry{"Resize", 11, refuse_form}, Entry{"GroupNormalization", 21, refuse_form},
    Entry{"RoiAlign", 16, refuse_form},    Entry{"DFT", 20, refuse_form},      Entry{"Scan", 9, refuse_form},
    Entry{"TopK", 10, refuse_form},        Entry{"PRelu", 7, refuse_form},
};

}  // namespace

StepFunction lower_step(std::string_view op_type, std::int64_t version) {
  for (const Entry& entry : kSteps) {
    if (entry.op_type == op_type && entry.version == version) {
      return entry.function;
    }
  }
  for (const MovedAttribute& moved : moved_attributes()) {
    if (moved.op_type == op_type && moved.version == version) {
      return moved_back;
    }
  }
  // Below 7 stand explicit broadcasting and in-place hints: older engines than any that runs today.
  return version <= 7 ? refuse_form : nullptr;
}

}  // namespace tempera::onnx
