#include "tempera/onnx/opset_steps.h"

#include <fmt/format.h>

#include "tempera/base/error.h"

namespace tempera::onnx {

graph::ValueType Step::type(graph::ValueId value) const {
  if (!value.valid()) {
    return {};
  }
  const graph::ValueType& declared = g.value(value).type;
  return declared.kind == graph::ValueType::Kind::kUnknown || !declared.shape.has_value()
             ? typed_.alive(value) && typed_.value(value).name == g.value(value).name ? typed_.value(value).type : declared
             : declared;
}

std::int64_t Step::rank(graph::ValueId value) const {
  const std::optional<std::int64_t> known = type(value).rank();
  if (!known.has_value()) {
    refuse(fmt::format("the rank of '{}' is not known", value.valid() ? g.value(value).name : ""));
  }
  return *known;
}

std::string Step::stem(std::string_view suffix) const {
  const graph::ValueId out = g.output(id);
  return fmt::format("{}_{}", out.valid() ? g.value(out).name : node().op_type, suffix);
}

graph::ValueId Step::constant(graph::Tensor tensor, std::string_view suffix) {
  return g.add_initializer(stem(suffix), std::move(tensor));
}

graph::ValueId Step::add(std::string_view op_type, std::vector<graph::ValueId> inputs, std::string_view suffix,
                         std::map<std::string, graph::Attribute, std::less<>> attributes) {
  const graph::ValueId out = g.add_node(op_type, std::move(inputs), stem(suffix), std::move(attributes));
  added_.emplace_back(g.producer(out), version);
  return out;
}

void Step::refuse(const std::string& why) const {
  throw Error(ErrorCode::kUnsupported, fmt::format("no equivalent in opset {}: {}", version, why)).in(g.describe(id));
}

const std::vector<MovedAttribute>& moved_attributes() {
  static const std::vector<MovedAttribute> kMoved = {
      {"Reshape", 5, "shape", 1},       {"Upsample", 9, "scales", 1},        {"Squeeze", 13, "axes", 1},
      {"Unsqueeze", 13, "axes", 1},     {"ReduceSum", 13, "axes", 1},        {"Split", 13, "split", 1},
      {"ReduceL1", 18, "axes", 1},      {"ReduceL2", 18, "axes", 1},         {"ReduceLogSum", 18, "axes", 1},
      {"ReduceMax", 18, "axes", 1},     {"ReduceLogSumExp", 18, "axes", 1},  {"ReduceMean", 18, "axes", 1},
      {"ReduceMin", 18, "axes", 1},     {"ReduceProd", 18, "axes", 1},       {"ReduceSumSquare", 18, "axes", 1},
  };
  return kMoved;
}

void attribute_to_input(Step& step, std::string_view attribute, std::size_t input) {
  const auto found = step.node().attributes.find(attribute);
  if (found == step.node().attributes.end()) {
    return;
  }
  graph::ValueId moved;
  const graph::Attribute& content = found->second;
  if (const auto* ints = std::get_if<std::vector<std::int64_t>>(&content)) {
    moved = step.constant(graph::Tensor::from<std::int64_t>({static_cast<std::int64_t>(ints->size())}, *ints), attribute);
  } else if (const auto* floats = std::get_if<std::vector<float>>(&content)) {
    moved = step.constant(graph::Tensor::from<float>({static_cast<std::int64_t>(floats->size())}, *floats), attribute);
  } else if (const auto* number = std::get_if<std::int64_t>(&content)) {
    moved = step.constant(graph::Tensor::from<std::int64_t>({1}, {*number}), attribute);
  } else if (std::holds_alternative<graph::AttributeReference>(content)) {
    // Of a function: what the caller gives becomes a constant there.
    moved = step.add("Constant", {}, attribute, {{"value_ints", content}});
  } else {
    step.refuse(fmt::format("attribute '{}' has the wrong kind", attribute));
  }
  step.g.set_input(step.id, input, moved);
  step.g.remove_attribute(step.id, attribute);
}

}  // namespace tempera::onnx
