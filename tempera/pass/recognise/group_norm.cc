#include "tempera/pass/recognise/group_norm.h"

#include <optional>
#include <vector>

#include <fmt/format.h>

#include "tempera/ops/access.h"
#include "tempera/ops/builder.h"
#include "tempera/pass/rewrite.h"
#include "tempera/pass/weights.h"

namespace tempera::pass {
namespace {

using graph::DataType;
using graph::Graph;
using graph::NodeId;
using graph::ValueId;

// The whole pattern as found; what is absent is invalid or empty.
struct GroupNorm {
  NodeId first;   // the Reshape in front
  NodeId middle;  // InstanceNormalization
  ValueId x;
  ValueId y;  // the last value of the pattern
  std::int64_t channels = 0;
  std::int64_t groups = 0;
  float epsilon = 1e-5F;
  std::vector<double> gamma;  // [C]
  std::vector<double> beta;   // [C]
  ValueId scale;              // S [N, C, 1, 1]
  ValueId shift;              // T
};

bool is_uniform(const Graph& graph, ValueId id, double value) {
  return ops::constant_uniform(graph, id) == value;
}

// The other operand of the Mul or Add that alone reads `y`, when it is constant for each channel.
std::optional<std::vector<double>> channel_constant(const Graph& graph, ValueId y, std::string_view op_type,
                                                    std::int64_t rank, std::int64_t channels,
                                                    NodeId& reader) {
  reader = sole_reader(graph, y);
  if (!reader.valid() || !graph.node(reader).is(op_type)) {
    return std::nullopt;
  }
  const std::optional<graph::Tensor> other = graph.constant(other_input(graph, reader, y));
  return other.has_value() ? spread_along(*other, rank, 1, channels) : std::nullopt;
}

// Whether `id` is computed, of dimensions [1 or N, C, 1, 1] beside x [N, C, H, W].
bool is_channel_map(const Graph& graph, ValueId id, ValueId x, std::int64_t channels) {
  const graph::ValueType& type = graph.value(id).type;
  if (!type.is_tensor() || !type.shape.has_value() || type.shape->size() != 4) {
    return false;
  }
  const graph::Shape& shape = *type.shape;
  return shape[0] == graph.value(x).type.shape->at(0) && shape[1].value == channels && shape[2].value == 1 &&
         shape[3].value == 1;
}

ValueId channel_map(const Graph& graph, ValueId y, std::string_view op_type, ValueId x, std::int64_t channels,
                    NodeId& reader) {
  reader = sole_reader(graph, y);
  if (!reader.valid() || !graph.node(reader).is(op_type)) {
    return {};
  }
  const ValueId other = other_input(graph, reader, y);
  return other.valid() && is_channel_map(graph, other, x, channels) ? other : ValueId{};
}

std::optional<GroupNorm> match(const Graph& graph, NodeId middle, PassResult& result) {
  GroupNorm found;
  found.middle = middle;
  found.first = sole_producer(graph, graph.input(middle, 0), "Reshape");
  if (!found.first.valid()) {
    return std::nullopt;
  }
  found.x = graph.input(found.first, 0);
  if (ops::element_of(graph, found.x) != DataType::kFloat32) {
    decline(result, graph, middle, "only float32 has the range for sums of squares");
    return std::nullopt;
  }
  if (!is_uniform(graph, graph.input(middle, 1), 1.0) || !is_uniform(graph, graph.input(middle, 2), 0.0)) {
    return std::nullopt;
  }
  const std::optional<std::int64_t> rank = ops::rank_of(graph, found.x);
  const std::optional<std::int64_t> channels = ops::dim_of(graph, found.x, 1);
  const std::optional<std::int64_t> groups = ops::dim_of(graph, graph.input(middle, 0), 1);
  const NodeId last = sole_reader(graph, graph.output(middle));
  if (!rank || *rank < 3 || !channels || !groups || *groups < 1 || *channels % *groups != 0 ||
      ops::rank_of(graph, graph.input(middle, 0)) != 3 || !last.valid() || !graph.node(last).is("Reshape")) {
    return std::nullopt;
  }
  // The first dimension must be the batch's own, or groups of one sample would mix with another's.
  if (graph.value(graph.input(middle, 0)).type.shape->at(0) != graph.value(found.x).type.shape->at(0)) {
    decline(result, graph, middle, "the batch dimension is reshaped too, or unknown");
    return std::nullopt;
  }
  found.y = graph.output(last);
  if (!same_shape(graph, found.x, found.y)) {
    decline(result, graph, middle, "the result is not known to have the shape of the input");
    return std::nullopt;
  }
  found.channels = *channels;
  found.groups = *groups;
  found.epsilon = graph.attribute<float>(middle, "epsilon", 1e-5F);
  NodeId reader;
  if (auto gamma = channel_constant(graph, found.y, "Mul", *rank, *channels, reader)) {
    found.gamma = std::move(*gamma);
    found.y = graph.output(reader);
  }
  if (auto beta = channel_constant(graph, found.y, "Add", *rank, *channels, reader)) {
    found.beta = std::move(*beta);
    found.y = graph.output(reader);
  }
  if (found.gamma.empty()) {
    found.gamma.assign(static_cast<std::size_t>(*channels), 1.0);
  }
  if (found.beta.empty()) {
    found.beta.assign(static_cast<std::size_t>(*channels), 0.0);
  }
  return found;
}

// Extends the pattern by the scale and shift that a time embedding makes.
void match_modulation(const Graph& graph, GroupNorm& found) {
  NodeId reader;
  if (const ValueId scale = channel_map(graph, found.y, "Mul", found.x, found.channels, reader);
      scale.valid()) {
    found.scale = scale;
    found.y = graph.output(reader);
    if (const ValueId shift = channel_map(graph, found.y, "Add", found.x, found.channels, reader);
        shift.valid()) {
      found.shift = shift;
      found.y = graph.output(reader);
    }
  }
}

ValueId floats(ops::Builder& build, graph::Dims dims, const std::vector<double>& values) {
  return build.constant(*encode_weights(DataType::kFloat32, std::move(dims), values));
}

ValueId emit_instance_norm(Graph& graph, ops::Builder& build, const GroupNorm& found) {
  return build.node(
      "InstanceNormalization",
      {found.x, floats(build, {found.channels}, found.gamma), floats(build, {found.channels}, found.beta)},
      {{"epsilon", found.epsilon}}, graph.value(found.x).type);
}

ValueId emit_statistics(Graph& graph, ops::Builder& build, const GroupNorm& found, double pixels) {
  const std::int64_t k = found.channels / found.groups;
  const std::vector<std::int64_t> grouped = {0, found.groups, k};  // 0 keeps the batch dimension
  const auto scalar = [&](double value) { return build.scalar(value, DataType::kFloat32); };
  const auto mean_of_group = [&](ValueId value) { return build.reduce("ReduceMean", value, {2}, true); };

  const ValueId mean =
      mean_of_group(build.reshape(build.reduce("ReduceMean", found.x, {2, 3}, false), grouped));
  const ValueId norm = build.reshape(build.reduce("ReduceL2", found.x, {2, 3}, false), grouped);
  const ValueId square =
      mean_of_group(build.node("Mul", {build.node("Mul", {norm, norm}), scalar(1.0 / pixels)}));
  const ValueId variance =
      build.node("Max", {build.node("Sub", {square, build.node("Mul", {mean, mean})}), scalar(0.0)});
  const ValueId deviation =
      build.node("Sqrt", {build.node("Add", {variance, scalar(static_cast<double>(found.epsilon))})});
  ValueId a = build.node("Div", {floats(build, {1, found.groups, k}, found.gamma), deviation});
  ValueId b =
      build.node("Sub", {floats(build, {1, found.groups, k}, found.beta), build.node("Mul", {mean, a})});
  if (found.scale.valid()) {
    const ValueId scale = build.reshape(found.scale, grouped);
    a = build.node("Mul", {a, scale});
    b = build.node("Mul", {b, scale});
  }
  if (found.shift.valid()) {
    b = build.node("Add", {b, build.reshape(found.shift, grouped)});
  }
  const std::vector<std::int64_t> spread = {0, found.channels, 1, 1};
  const ValueId scaled =
      build.node("Mul", {found.x, build.reshape(a, spread)}, {}, graph.value(found.x).type);
  return build.node("Add", {scaled, build.reshape(b, spread)}, {}, graph.value(found.x).type);
}

}  // namespace

PassResult group_norm(Graph& graph, const PassContext& context) {
  PassResult result;
  if (!context.lossy_rounding) {
    return result;
  }
  for (const NodeId id : graph.nodes()) {
    if (!graph.alive(id) || !graph.node(id).is("InstanceNormalization")) {
      continue;
    }
    std::optional<GroupNorm> found = match(graph, id, result);
    if (!found) {
      continue;
    }
    ops::Builder build(graph, context.opset, site(graph, id) + "_group_norm");
    ValueId replacement;
    std::string form;
    if (found->groups == found->channels) {
      replacement = emit_instance_norm(graph, build, *found);
      form = "InstanceNormalization";
    } else {
      const std::optional<std::int64_t> height = ops::dim_of(graph, found->x, 2);
      const std::optional<std::int64_t> width = ops::dim_of(graph, found->x, 3);
      if (context.target_engine != "openvino" || ops::rank_of(graph, found->x) != 4 || !height || !width) {
        continue;
      }
      match_modulation(graph, *found);
      replacement = emit_statistics(graph, build, *found, static_cast<double>(*height * *width));
      form = found->scale.valid() ? "channel statistics, modulation folded in" : "channel statistics";
    }
    note(result, graph, id,
         fmt::format("group norm of {} groups over {} channels -> {}", found->groups, found->channels, form));
    substitute(graph, found->y, replacement);
    graph.remove_dead();
  }
  return finish(graph, std::move(result));
}

}  // namespace tempera::pass
