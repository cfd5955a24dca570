#include "tempera/pass/cleanup/chains.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "tempera/ops/access.h"
#include "tempera/ops/builder.h"
#include "tempera/pass/rewrite.h"

namespace tempera::pass {
namespace {

using graph::DataType;
using graph::Dims;
using graph::Graph;
using graph::NodeId;
using graph::ValueId;

// -- casts ---------------------------------------------------------------------------------------------------------------

// Bits of integers that the type holds exactly, sign apart; 0 when unknown.
int integer_bits(DataType type) {
  switch (type) {
    case DataType::kFloat64: return 53;
    case DataType::kFloat32: return 24;
    case DataType::kFloat16: return 11;
    case DataType::kBfloat16: return 8;
    case DataType::kInt64: return 63;
    case DataType::kInt32: return 31;
    case DataType::kInt16: return 15;
    case DataType::kInt8: return 7;
    case DataType::kUint64: return 64;
    case DataType::kUint32: return 32;
    case DataType::kUint16: return 16;
    case DataType::kUint8: return 8;
    case DataType::kBool: return 1;
    default: return 0;
  }
}

bool is_signed(DataType type) {
  return numeric::is_float(type) || type == DataType::kInt64 || type == DataType::kInt32 || type == DataType::kInt16 ||
         type == DataType::kInt8;
}

// Whether `wide` holds every value of `narrow`.
bool holds(DataType wide, DataType narrow) {
  if (integer_bits(wide) == 0 || integer_bits(narrow) == 0) {
    return false;
  }
  if (wide == narrow) {
    return true;
  }
  if (numeric::is_float(narrow)) {
    return wide == DataType::kFloat64 || (wide == DataType::kFloat32 && narrow != DataType::kFloat64);
  }
  return wide != DataType::kBool && integer_bits(wide) >= integer_bits(narrow) &&
         (is_signed(wide) || !is_signed(narrow));
}

// -- reshapes ------------------------------------------------------------------------------------------------------------

bool is_reshape(const graph::Node& node) {
  return node.is("Reshape") || node.is("Squeeze") || node.is("Unsqueeze") || node.is("Flatten");
}

// A constant target that may be applied to `source` in place of the middle value.
std::optional<Dims> target_from(const Graph& graph, NodeId id, ValueId source) {
  const auto positive = [](const Dims& dims) {
    return std::all_of(dims.begin(), dims.end(), [](std::int64_t d) { return d > 0; });
  };
  if (const std::optional<Dims> fixed = ops::dims_of(graph, graph.output(id)); fixed && positive(*fixed)) {
    return fixed;
  }
  if (!graph.node(id).is("Reshape") || graph.attribute<std::int64_t>(id, "allowzero", 0) != 0) {
    return std::nullopt;
  }
  const std::optional<Dims> target = ops::ints_of(graph, id, "shape", 1);
  if (!target) {
    return std::nullopt;
  }
  const auto& middle = graph.value(graph.input(id, 0)).type;
  const auto& from = graph.value(source).type;
  for (std::size_t i = 0; i < target->size(); ++i) {
    if ((*target)[i] != 0) {
      continue;
    }
    if (!middle.shape || !from.shape || i >= middle.shape->size() || i >= from.shape->size()) {
      return std::nullopt;
    }
    const graph::Dim& a = (*middle.shape)[i];
    const graph::Dim& b = (*from.shape)[i];
    if (!(a == b) || (!a.fixed() && a.symbol.empty())) {
      return std::nullopt;
    }
  }
  return target;
}

// -- slices --------------------------------------------------------------------------------------------------------------

struct Cut {
  std::int64_t start = 0;
  std::int64_t end = 0;
  std::int64_t step = 1;
};

std::map<std::int64_t, Cut> cuts_of(const ops::SliceForm& form) {
  std::map<std::int64_t, Cut> cuts;
  for (std::size_t i = 0; i < form.axes.size(); ++i) {
    cuts[form.axes[i]] = {form.starts[i], form.ends[i], form.steps[i]};
  }
  return cuts;
}

// `second` applied to what `first` takes of `size` elements; nothing when that is empty.
std::optional<Cut> compose(const Cut& first, const Cut& second, std::int64_t size) {
  const ops::SliceRange a = ops::clamp_slice(first.start, first.end, first.step, size);
  const ops::SliceRange b = ops::clamp_slice(second.start, second.end, second.step, a.count);
  if (b.count == 0) {
    return std::nullopt;
  }
  Cut cut;
  cut.start = a.start + a.step * b.start;
  // With one element any step serves, and the product of two extreme ones may not exist.
  if (b.count == 1) {
    return Cut{cut.start, cut.start + 1, 1};
  }
  cut.step = a.step * b.step;
  const std::int64_t last = cut.start + cut.step * (b.count - 1);
  cut.end = cut.step > 0 ? last + 1 : (last == 0 ? -(size + 1) : last - 1);
  return cut;
}

std::optional<std::map<std::int64_t, Cut>> merged_cuts(const Graph& graph, NodeId first, NodeId second) {
  const auto a = ops::slice_form(graph, first);
  const auto b = ops::slice_form(graph, second);
  if (!a || !b) {
    return std::nullopt;
  }
  std::map<std::int64_t, Cut> cuts = cuts_of(*a);
  if (cuts.size() != a->axes.size() || cuts_of(*b).size() != b->axes.size()) {
    return std::nullopt;  // an axis named twice
  }
  for (const auto& [axis, cut] : cuts_of(*b)) {
    const auto found = cuts.find(axis);
    if (found == cuts.end()) {
      cuts.emplace(axis, cut);
      continue;
    }
    const auto size = ops::dim_of(graph, graph.input(first, 0), axis);
    const auto both = size ? compose(found->second, cut, *size) : std::nullopt;
    if (!both) {
      return std::nullopt;
    }
    found->second = *both;
  }
  return cuts;
}

// The Split whose outputs, all and in order, are the inputs of the Concat.
NodeId undone_split(const Graph& graph, NodeId concat, std::int64_t axis) {
  const std::vector<ValueId>& parts = graph.node(concat).inputs;
  const NodeId split = producer_of(graph, parts.front(), "Split");
  if (!split.valid() || graph.node(split).outputs != parts || ops::axis_of(graph, split, 13) != axis) {
    return {};
  }
  return split;
}

}  // namespace

PassResult merge_casts(Graph& graph, const PassContext&) {
  PassResult result;
  for (const NodeId id : graph.nodes()) {
    if (!graph.node(id).is("Cast")) {
      continue;
    }
    const ValueId middle = graph.input(id, 0);
    const NodeId first = producer_of(graph, middle, "Cast");
    if (!first.valid()) {
      continue;
    }
    const ValueId x = graph.input(first, 0);
    const auto through = static_cast<DataType>(graph.attribute<std::int64_t>(first, "to", 0));
    if (!holds(through, ops::element_of(graph, x))) {
      decline(result, graph, id, "the first cast may change values");
      continue;
    }
    note(result, graph, id, "Cast + Cast -> Cast");
    graph.set_input(id, 0, x);
  }
  return finish(graph, std::move(result));
}

PassResult merge_transposes(Graph& graph, const PassContext&) {
  PassResult result;
  for (const NodeId id : graph.nodes()) {
    if (!graph.node(id).is("Transpose")) {
      continue;
    }
    const NodeId first = producer_of(graph, graph.input(id, 0), "Transpose");
    if (!first.valid()) {
      continue;
    }
    const auto inner = ops::permutation_of(graph, first);
    const auto outer = ops::permutation_of(graph, id);
    if (!inner || !outer || inner->size() != outer->size()) {
      decline(result, graph, id, "a permutation is not known");
      continue;
    }
    Dims both;
    for (const std::int64_t axis : *outer) {
      both.push_back((*inner)[static_cast<std::size_t>(axis)]);
    }
    note(result, graph, id, "Transpose + Transpose -> Transpose");
    graph.set_input(id, 0, graph.input(first, 0));
    graph.set_attribute(id, "perm", both);
  }
  return finish(graph, std::move(result));
}

PassResult merge_reshapes(Graph& graph, const PassContext& context) {
  PassResult result;
  for (const NodeId id : graph.nodes()) {
    if (!is_reshape(graph.node(id))) {
      continue;
    }
    const NodeId first = graph.producer(graph.input(id, 0));
    if (!first.valid() || !is_reshape(graph.node(first)) || graph.is_unused(graph.output(id))) {
      continue;
    }
    const ValueId source = graph.input(first, 0);
    const std::optional<Dims> target = target_from(graph, id, source);
    if (!target) {
      decline(result, graph, id, "the last shape is not known, or copies a dimension of the middle one");
      continue;
    }
    note(result, graph, id, fmt::format("{} + {} -> Reshape", graph.node(first).op_type, graph.node(id).op_type));
    const ValueId out = graph.output(id);
    const graph::ValueType type = graph.value(out).type;
    const ValueId made = ops::Builder(graph, context.opset, site(graph, id)).reshape(source, *target);
    graph.set_type(made, type);
    substitute(graph, out, made);
  }
  return finish(graph, std::move(result));
}

PassResult merge_slices(Graph& graph, const PassContext& context) {
  PassResult result;
  for (const NodeId id : graph.nodes()) {
    if (!graph.node(id).is("Slice")) {
      continue;
    }
    const NodeId first = producer_of(graph, graph.input(id, 0), "Slice");
    if (!first.valid() || graph.is_unused(graph.output(id))) {
      continue;
    }
    const auto cuts = merged_cuts(graph, first, id);
    if (!cuts) {
      decline(result, graph, id, "limits or sizes are not known, or the slice is empty");
      continue;
    }
    note(result, graph, id, "Slice + Slice -> Slice");
    Dims starts;
    Dims ends;
    Dims axes;
    Dims steps;
    for (const auto& [axis, cut] : *cuts) {
      axes.push_back(axis);
      starts.push_back(cut.start);
      ends.push_back(cut.end);
      steps.push_back(cut.step);
    }
    const ValueId out = graph.output(id);
    const graph::ValueType type = graph.value(out).type;
    const ValueId made = ops::Builder(graph, context.opset, site(graph, id))
                             .slice(graph.input(first, 0), starts, ends, axes, steps);
    graph.set_type(made, type);
    substitute(graph, out, made);
  }
  return finish(graph, std::move(result));
}

PassResult merge_concats(Graph& graph, const PassContext& context) {
  PassResult result;
  for (const NodeId id : graph.nodes()) {
    if (!graph.alive(id) || !graph.node(id).is("Concat") || graph.node(id).inputs.empty()) {
      continue;
    }
    const auto axis = ops::axis_of(graph, id, context.opset);
    if (!axis) {
      continue;
    }
    if (const NodeId split = undone_split(graph, id, *axis); split.valid()) {
      const ValueId whole = graph.input(split, 0);
      if (can_substitute(graph, graph.output(id), whole) && !graph.is_unused(graph.output(id))) {
        note(result, graph, id, "Split + Concat -> nothing");
        substitute(graph, graph.output(id), whole);
      }
      continue;
    }
    std::vector<ValueId> flat;
    bool merged = false;
    for (const ValueId part : graph.node(id).inputs) {
      const NodeId inner = sole_producer(graph, part, "Concat");
      if (inner.valid() && ops::axis_of(graph, inner, context.opset) == axis) {
        flat.insert(flat.end(), graph.node(inner).inputs.begin(), graph.node(inner).inputs.end());
        merged = true;
      } else {
        flat.push_back(part);
      }
    }
    if (merged) {
      note(result, graph, id, "Concat + Concat -> Concat");
      graph.set_inputs(id, std::move(flat));
    }
  }
  return finish(graph, std::move(result));
}

}  // namespace tempera::pass
