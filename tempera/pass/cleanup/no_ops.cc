#include "tempera/pass/cleanup/no_ops.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include <fmt/format.h>

#include "tempera/ops/access.h"
#include "tempera/pass/rewrite.h"

namespace tempera::pass {
namespace {

using graph::Graph;
using graph::NodeId;
using graph::ValueId;

// Each gives the number of the input that comes out unchanged, or -1.
using Rule = int (*)(const Graph&, NodeId);

constexpr int kNone = -1;

bool keeps_shape(const Graph& graph, NodeId id, std::size_t input = 0) {
  return same_shape(graph, graph.input(id, input), graph.output(id));
}

int identity(const Graph&, NodeId) { return 0; }

int dropout(const Graph& graph, NodeId id) {
  const ValueId mask = graph.output(id, 1);
  return ops::is_training(graph, id) || (mask.valid() && !graph.is_unused(mask)) ? kNone : 0;
}

int cast(const Graph& graph, NodeId id) {
  const auto from = ops::element_of(graph, graph.input(id, 0));
  return from != graph::DataType::kUndefined &&
                 graph.attribute<std::int64_t>(id, "to", 0) == static_cast<std::int64_t>(from)
             ? 0
             : kNone;
}

int pad(const Graph& graph, NodeId id) {
  const auto form = ops::pad_form(graph, id);
  const auto none = [](const graph::Dims& pads) {
    return std::all_of(pads.begin(), pads.end(), [](std::int64_t p) { return p == 0; });
  };
  return form && none(form->begin) && none(form->end) ? 0 : kNone;
}

int slice(const Graph& graph, NodeId id) {
  const auto form = ops::slice_form(graph, id);
  if (!form) {
    return kNone;
  }
  const bool forward = std::all_of(form->steps.begin(), form->steps.end(), [](std::int64_t s) { return s == 1; });
  if (!forward) {
    return kNone;  // a step of -1 keeps the shape too
  }
  for (std::size_t i = 0; i < form->axes.size(); ++i) {
    const auto size = ops::dim_of(graph, graph.input(id, 0), form->axes[i]);
    const bool whole = form->starts[i] == 0 && form->ends[i] >= std::numeric_limits<std::int32_t>::max();
    if (!whole && (!size || ops::clamp_slice(form->starts[i], form->ends[i], 1, *size).count != *size)) {
      return kNone;
    }
  }
  return 0;
}

int same_shape_rule(const Graph& graph, NodeId id) { return keeps_shape(graph, id) ? 0 : kNone; }

int tile(const Graph& graph, NodeId id) {
  const auto repeats = ops::constant_ints(graph, graph.input(id, 1));
  return repeats && std::all_of(repeats->begin(), repeats->end(), [](std::int64_t r) { return r == 1; }) ? 0 : kNone;
}

int resize(const Graph& graph, NodeId id) {
  const std::size_t scales_input = graph.node(id).inputs.size() > 2 ? 2 : 1;
  const auto scale = ops::constant_uniform(graph, graph.input(id, scales_input));
  return scale == 1.0 && !graph.input(id, 3).valid() && keeps_shape(graph, id) &&
                 graph.attribute<std::string>(id, "coordinate_transformation_mode", "") != "tf_crop_and_resize"
             ? 0
             : kNone;
}

int transpose(const Graph& graph, NodeId id) {
  const auto perm = ops::permutation_of(graph, id);
  return perm && std::is_sorted(perm->begin(), perm->end()) ? 0 : kNone;
}

int one_input(const Graph& graph, NodeId id) { return graph.node(id).inputs.size() == 1 ? 0 : kNone; }

int split(const Graph& graph, NodeId id) { return graph.node(id).outputs.size() == 1 ? 0 : kNone; }

int clip(const Graph& graph, NodeId id) {
  const auto form = ops::clip_form(graph, id);
  return form && std::isinf(form->low) && form->low < 0 && std::isinf(form->high) && form->high > 0 ? 0 : kNone;
}

int neutral_right(const Graph& graph, NodeId id, double neutral) {
  return ops::is_numpy_broadcast(graph, id) && ops::constant_uniform(graph, graph.input(id, 1)) == neutral &&
                 keeps_shape(graph, id)
             ? 0
             : kNone;
}

int neutral_either(const Graph& graph, NodeId id, double neutral) {
  if (neutral_right(graph, id, neutral) == 0) {
    return 0;
  }
  return ops::is_numpy_broadcast(graph, id) && ops::constant_uniform(graph, graph.input(id, 0)) == neutral &&
                 keeps_shape(graph, id, 1)
             ? 1
             : kNone;
}

int add(const Graph& graph, NodeId id) { return neutral_either(graph, id, 0.0); }
int multiply(const Graph& graph, NodeId id) { return neutral_either(graph, id, 1.0); }
int subtract(const Graph& graph, NodeId id) { return neutral_right(graph, id, 0.0); }
int divide(const Graph& graph, NodeId id) { return neutral_right(graph, id, 1.0); }

const std::map<std::string_view, Rule>& rules() {
  static const std::map<std::string_view, Rule> kRules = {
      {"Add", add},
      {"Cast", cast},
      {"Clip", clip},
      {"Concat", one_input},
      {"Div", divide},
      {"Dropout", dropout},
      {"Expand", same_shape_rule},
      {"Flatten", same_shape_rule},
      {"Identity", identity},
      {"Max", one_input},
      {"Mean", one_input},
      {"Min", one_input},
      {"Mul", multiply},
      {"Pad", pad},
      {"Pow", divide},
      {"Reshape", same_shape_rule},
      {"Resize", resize},
      {"Slice", slice},
      {"Split", split},
      {"Squeeze", same_shape_rule},
      {"Sub", subtract},
      {"Sum", one_input},
      {"Tile", tile},
      {"Transpose", transpose},
      {"Unsqueeze", same_shape_rule},
  };
  return kRules;
}

}  // namespace

PassResult remove_no_ops(Graph& graph, const PassContext&) {
  PassResult result;
  for (const NodeId id : graph.nodes()) {
    const graph::Node& node = graph.node(id);
    if (!node.domain.empty()) {
      continue;
    }
    const auto rule = rules().find(node.op_type);
    if (rule == rules().end() || !graph.output(id).valid()) {
      continue;
    }
    const int kept = rule->second(graph, id);
    if (kept == kNone) {
      continue;
    }
    const ValueId from = graph.output(id);
    const ValueId to = graph.input(id, static_cast<std::size_t>(kept));
    if (!can_substitute(graph, from, to)) {
      decline(result, graph, id, "the value is a graph output, and its input has a name of its own to keep");
      continue;
    }
    if (graph.is_unused(from)) {
      continue;
    }
    note(result, graph, id, fmt::format("{} does nothing", node.op_type));
    substitute(graph, from, to);
  }
  return finish(graph, std::move(result));
}

}  // namespace tempera::pass
