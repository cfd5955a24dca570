#include "tempera/compress/prune/coupling.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "tempera/base/error.h"
#include "tempera/compress/prune/rules.h"
#include "tempera/ops/access.h"
#include "tempera/ops/operators.h"
#include "tempera/pass/rewrite.h"

namespace tempera::compress {

using graph::NodeId;
using graph::ValueId;

namespace {

const Rule* find_rule(const graph::Node& node) {
  if (!node.domain.empty()) {
    return nullptr;
  }
  for (const std::span<const Rule> rules : {layer_rules(), norm_rules(), layout_rules()}) {
    const auto found = std::find_if(rules.begin(), rules.end(),
                                    [&](const Rule& rule) { return rule.op_type == node.op_type; });
    if (found != rules.end()) {
      return &*found;
    }
  }
  static constexpr Rule kUnaryRule{"", couple_unary};
  static constexpr Rule kBroadcastRule{"", couple_broadcast};
  if (ops::has_trait(node, ops::kBroadcast)) {
    return &kBroadcastRule;
  }
  return ops::has_trait(node, ops::kUnary) ? &kUnaryRule : nullptr;
}

// Operators whose rule looks at tensors of sizes itself.
bool follows_sizes(const graph::Node& node) {
  return node.is("Concat") || node.is("Gather") || node.is("Slice") || node.is("Squeeze") ||
         node.is("Unsqueeze") || node.is("Identity") || node.is("Cast") || node.is("Reshape") ||
         node.is("Expand") || node.is("Resize");
}

}  // namespace

std::optional<graph::Shape> input_shape(const graph::Graph& graph, NodeId id, std::size_t i) {
  const ValueId value = graph.input(id, i);
  if (!value.valid()) {
    return std::nullopt;
  }
  if (const auto constant = graph.constant(value)) {
    return graph::shape_of(constant->dims());
  }
  const graph::ValueType& type = graph.value(value).type;
  return type.is_tensor() ? type.shape : std::nullopt;
}

Coupling::Coupling(const graph::Model& model, const std::vector<std::string>& ignore)
    : graph_(model.graph), opset_(model.opset()) {
  for (const NodeId id : graph_.nodes()) {
    visit(id);
  }
  freeze_pinned();
  freeze_ignored(ignore);
  for (const Atom atom : marked_) {
    approximate_.insert(atoms_.find(atom));
  }
}

void Coupling::visit(NodeId id) {
  const graph::Node& node = graph_.node(id);
  const bool fixed =
      ops::is_pure(node) && std::all_of(node.inputs.begin(), node.inputs.end(),
                                        [&](ValueId input) { return !input.valid() || is_fixed(input); });
  if (fixed) {
    fixed_.insert(node.outputs.begin(), node.outputs.end());
  }
  if (!follows_sizes(node)) {
    for (const ValueId input : node.inputs) {
      if (input.valid()) {
        freeze_sizes(id, input);
      }
    }
  }
  const Rule* rule = find_rule(node);
  if (rule == nullptr) {
    freeze_inputs(id, fmt::format("what {} does to channels is not known", node.op_type));
    return;
  }
  rule->apply(*this, id);
}

Labels Coupling::input(NodeId id, std::size_t i) {
  const ValueId value = graph_.input(id, i);
  const auto shape = input_shape(graph_, id, i);
  if (!value.valid()) {
    return {};
  }
  if (const auto constant = graph_.constant(value)) {
    const auto [entry, made] = weights_.try_emplace({id, static_cast<std::uint32_t>(i)});
    if (made) {
      for (const std::int64_t dim : constant->dims()) {
        entry->second.push_back(dim > 1 ? atoms_.add(static_cast<std::size_t>(dim)) : Axis{});
      }
    }
    return entry->second;
  }
  const auto found = labels_.find(value);
  return found != labels_.end() ? found->second : Labels(shape ? shape->size() : 0);
}

void Coupling::set_output(NodeId id, std::size_t i, Labels labels) {
  const ValueId value = graph_.output(id, i);
  if (!value.valid()) {
    return;
  }
  const auto& shape = graph_.value(value).type.shape;
  for (std::size_t axis = 0; axis < labels.size(); ++axis) {
    const bool fits =
        shape && shape->size() == labels.size() &&
        (!(*shape)[axis].fixed() || (*shape)[axis].value == static_cast<std::int64_t>(labels[axis].size()));
    if (!labels[axis].empty() && !fits) {
      freeze(labels[axis], id, "the shape of its output is not known, or not as expected");
      labels[axis].clear();
    }
  }
  if (std::any_of(labels.begin(), labels.end(), [](const Axis& axis) { return !axis.empty(); })) {
    labels_[value] = std::move(labels);
  }
}

void Coupling::unite(const Axis& a, const Axis& b, NodeId why) {
  if (a.size() == b.size()) {
    for (std::size_t i = 0; i < a.size(); ++i) {
      atoms_.unite(a[i], b[i]);
    }
    return;
  }
  for (const Axis& axis : {a, b}) {
    freeze(axis, why,
           a.empty() || b.empty() ? "joined with a tensor whose size is given from outside"
                                  : "joined with an axis of another size");
  }
}

void Coupling::freeze_inputs(NodeId id, const std::string& text) {
  for (const ValueId input : graph_.node(id).inputs) {
    if (const auto found = labels_.find(input); input.valid() && found != labels_.end()) {
      for (const Axis& axis : found->second) {
        freeze(axis, id, text);
      }
    }
  }
}

Axis Coupling::unite_blocks(const Axis& axis, std::size_t block) {
  Axis first;
  for (std::size_t i = 0; i < axis.size(); ++i) {
    if (i % block == 0) {
      first.push_back(axis[i]);
    } else {
      atoms_.unite(first.back(), axis[i]);
    }
  }
  return first;
}

bool Coupling::is_fixed(ValueId id) const { return graph_.constant(id).has_value() || fixed_.contains(id); }

std::vector<SizeEntry> Coupling::sizes(ValueId id) const {
  if (const auto constant = graph_.constant(id)) {
    std::vector<SizeEntry> entries;
    for (const std::int64_t number :
         constant->rank() <= 1 ? ops::constant_ints(graph_, id).value_or(graph::Dims{}) : graph::Dims{}) {
      entries.push_back({SizeEntry::Kind::kConstant, {}, 0, number});
    }
    return entries;
  }
  const auto found = sizes_.find(id);
  return found != sizes_.end() ? found->second : std::vector<SizeEntry>{};
}

void Coupling::freeze_sizes(NodeId id, ValueId sizes) {
  const auto found = sizes_.find(sizes);
  if (found == sizes_.end()) {
    return;
  }
  for (const SizeEntry& entry : found->second) {
    if (const auto labels = labels_.find(entry.value);
        entry.kind == SizeEntry::Kind::kAxis && labels != labels_.end()) {
      freeze(labels->second.at(entry.axis), id, "computes with the number of channels");
    }
  }
}

void Coupling::follow_size(NodeId id, std::size_t input, std::size_t entry, const Axis& axis) {
  const std::vector<SizeEntry> entries = sizes(graph_.input(id, input));
  const SizeEntry found = entry < entries.size() ? entries[entry] : SizeEntry{};
  if (found.kind == SizeEntry::Kind::kAxis) {
    const auto labels = labels_.find(found.value);
    const Axis source = labels != labels_.end() ? labels->second.at(found.axis) : Axis{};
    unite(source, axis, id);
  } else if (found.kind == SizeEntry::Kind::kOther) {
    freeze(axis, id, "the size of its output is computed");
  } else if (!axis.empty() && found.number > 1) {  // -1, 0 and 1 leave it to the input
    edit({Edit::Kind::kShapeEntry, id, input, entry, "", {axis}});
  }
}

void Coupling::freeze_pinned() {
  for (const auto& [value, labels] : labels_) {
    if (!graph_.is_pinned(value)) {
      continue;
    }
    const std::string& name = graph_.value(value).name;
    const std::string text = graph_.is_output(value)
                                 ? fmt::format("graph output '{}' keeps its shape", name)
                                 : fmt::format("'{}' is read inside the body of an If, Loop or Scan", name);
    for (const Axis& axis : labels) {
      freeze(axis, graph_.producer(value), text);
    }
  }
}

void Coupling::freeze_ignored(const std::vector<std::string>& ignore) {
  const std::vector<NodeId> nodes = graph_.nodes();
  for (const std::string& name : ignore) {
    const auto id = std::find_if(nodes.begin(), nodes.end(),
                                 [&](NodeId node) { return pass::site(graph_, node) == name; });
    if (id == nodes.end()) {
      std::vector<std::string> names;
      for (const Producer& producer : producers_) {
        names.push_back(pass::site(graph_, producer.node));
      }
      throw Error(ErrorCode::kNotFound, unknown_name("layer", name, names));
    }
    for (std::size_t i = 0; i < graph_.node(*id).inputs.size(); ++i) {
      if (const auto use = weights_.find({*id, static_cast<std::uint32_t>(i)}); use != weights_.end()) {
        for (const Axis& axis : use->second) {
          freeze(axis, *id, "to be ignored, as asked");
        }
      }
    }
    freeze_inputs(*id, "to be ignored, as asked");
    if (const auto output = labels_.find(graph_.output(*id)); output != labels_.end()) {
      for (const Axis& axis : output->second) {
        freeze(axis, *id, "to be ignored, as asked");
      }
    }
  }
}

Labels couple_leading(Coupling& c, NodeId id, const std::vector<Labels>& inputs,
                      const std::vector<graph::Shape>& shapes) {
  std::size_t rank = 0;
  for (const Labels& labels : inputs) {
    rank = std::max(rank, labels.size());
  }
  Labels out(rank);
  for (std::size_t axis = 0; axis < rank; ++axis) {
    // The axes that meet here; one of size 1 is spread over the others.
    std::vector<const Axis*> meeting;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const std::size_t missing = rank - inputs[i].size();
      if (axis >= missing && shapes[i][axis - missing].value != 1) {
        meeting.push_back(&inputs[i][axis - missing]);
      }
    }
    const auto labelled =
        std::find_if(meeting.begin(), meeting.end(), [](const Axis* one) { return !one->empty(); });
    if (labelled != meeting.end()) {
      out[axis] = **labelled;
      for (const Axis* other : meeting) {
        c.unite(out[axis], *other, id);
      }
    }
  }
  return out;
}

void couple_broadcast(Coupling& c, NodeId id) {
  std::vector<Labels> inputs;
  std::vector<graph::Shape> shapes;
  for (std::size_t i = 0; i < c.graph().node(id).inputs.size(); ++i) {
    const auto shape = input_shape(c.graph(), id, i);
    if (!shape || !ops::is_numpy_broadcast(c.graph(), id)) {
      c.freeze_inputs(id, "the shapes that meet here are not known");
      return;
    }
    inputs.push_back(c.input(id, i));
    shapes.push_back(*shape);
  }
  c.set_output(id, 0, couple_leading(c, id, inputs, shapes));
}

void couple_unary(Coupling& c, NodeId id) {
  const Labels labels = c.input(id, 0);
  for (std::size_t i = 0; i < c.graph().node(id).outputs.size(); ++i) {
    c.set_output(id, i, labels);
  }
  if (c.has_sizes(c.graph().input(id, 0))) {
    c.set_sizes(c.graph().output(id), c.sizes(c.graph().input(id, 0)));
  }
}

}  // namespace tempera::compress
