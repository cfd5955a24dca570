#include "tempera/pass/fold/shapes.h"

#include <algorithm>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "tempera/ops/access.h"
#include "tempera/pass/rewrite.h"

namespace tempera::pass {
namespace {

using graph::DataType;
using graph::Dims;
using graph::Graph;
using graph::NodeId;
using graph::Tensor;
using graph::ValueId;

constexpr std::int64_t kMostElements = 64;

// A number, the size of a named dimension, or (neither) unknown.
struct Element {
  std::optional<std::int64_t> number;
  std::string symbol;

  [[nodiscard]] bool known() const { return number.has_value() || !symbol.empty(); }
  bool operator==(const Element&) const = default;
};

// A small integer or boolean tensor of rank 0 or 1.
struct Content {
  bool vector = false;
  std::vector<Element> elements;

  [[nodiscard]] bool all_numbers() const {
    return std::all_of(elements.begin(), elements.end(), [](const Element& e) { return e.number.has_value(); });
  }
};

Element element_of(const graph::Dim& dim) {
  return dim.fixed() ? Element{dim.value, {}} : Element{std::nullopt, dim.symbol};
}

Content numbers(const Dims& values, bool vector) {
  Content content{vector, {}};
  for (const std::int64_t value : values) {
    content.elements.push_back({value, {}});
  }
  return content;
}

bool follows(DataType type) {
  return type == DataType::kInt64 || type == DataType::kInt32 || type == DataType::kBool;
}

using Binary = std::optional<std::int64_t> (*)(std::int64_t, std::int64_t);

std::optional<std::int64_t> add(std::int64_t a, std::int64_t b) {
  std::int64_t r = 0;
  return __builtin_add_overflow(a, b, &r) ? std::nullopt : std::optional(r);
}
std::optional<std::int64_t> subtract(std::int64_t a, std::int64_t b) {
  std::int64_t r = 0;
  return __builtin_sub_overflow(a, b, &r) ? std::nullopt : std::optional(r);
}
std::optional<std::int64_t> multiply(std::int64_t a, std::int64_t b) {
  std::int64_t r = 0;
  return __builtin_mul_overflow(a, b, &r) ? std::nullopt : std::optional(r);
}
std::optional<std::int64_t> divide(std::int64_t a, std::int64_t b) {
  // Only where every implementation agrees: truncation and floor are the same for operands of one sign.
  return b == 0 || a < 0 || b < 0 ? std::nullopt : std::optional(a / b);
}
std::optional<std::int64_t> modulo(std::int64_t a, std::int64_t b) {
  return b <= 0 || a < 0 ? std::nullopt : std::optional(a % b);
}

const std::map<std::string_view, Binary>& binaries() {
  static const std::map<std::string_view, Binary> kTable = {
      {"Add", add},
      {"Sub", subtract},
      {"Mul", multiply},
      {"Div", divide},
      {"Mod", modulo},
      {"Min", [](std::int64_t a, std::int64_t b) { return std::optional(std::min(a, b)); }},
      {"Max", [](std::int64_t a, std::int64_t b) { return std::optional(std::max(a, b)); }},
      {"Equal", [](std::int64_t a, std::int64_t b) { return std::optional<std::int64_t>(a == b); }},
      {"Less", [](std::int64_t a, std::int64_t b) { return std::optional<std::int64_t>(a < b); }},
      {"Greater", [](std::int64_t a, std::int64_t b) { return std::optional<std::int64_t>(a > b); }},
      {"And", [](std::int64_t a, std::int64_t b) { return std::optional<std::int64_t>((a != 0) && (b != 0)); }},
      {"Or", [](std::int64_t a, std::int64_t b) { return std::optional<std::int64_t>((a != 0) || (b != 0)); }},
  };
  return kTable;
}

// Follows the contents of one graph's small integer tensors.
class Follower {
 public:
  explicit Follower(const Graph& graph) : graph_(graph) {}

  const std::map<ValueId, Content>& run() {
    for (const NodeId id : graph_.nodes()) {
      const ValueId out = graph_.output(id);
      if (!out.valid() || graph_.constant(out).has_value()) {
        continue;
      }
      std::optional<Content> content = follow(id);
      if (content && static_cast<std::int64_t>(content->elements.size()) <= kMostElements) {
        contents_.emplace(out, std::move(*content));
      }
    }
    return contents_;
  }

 private:
  std::optional<Content> of(ValueId id) const {
    if (!id.valid()) {
      return std::nullopt;
    }
    if (const auto found = contents_.find(id); found != contents_.end()) {
      return found->second;
    }
    const std::optional<Tensor> constant = graph_.constant(id);
    if (!constant || constant->rank() > 1 || constant->size() > kMostElements || !follows(constant->type())) {
      return std::nullopt;
    }
    return numbers(to_int64s(*constant), constant->rank() == 1);
  }

  std::optional<Content> in(NodeId id, std::size_t i) const { return of(graph_.input(id, i)); }

  std::optional<Content> shape(NodeId id) const {
    const auto& type = graph_.value(graph_.input(id, 0)).type;
    if (!type.is_tensor() || !type.shape) {
      return std::nullopt;
    }
    const auto rank = static_cast<std::int64_t>(type.shape->size());
    const ops::SliceRange range = ops::clamp_slice(graph_.attribute<std::int64_t>(id, "start", 0),
                                                   graph_.attribute<std::int64_t>(id, "end", rank), 1, rank);
    Content content{true, {}};
    for (std::int64_t i = 0; i < range.count; ++i) {
      content.elements.push_back(element_of((*type.shape)[static_cast<std::size_t>(range.start + i)]));
    }
    return content;
  }

  std::optional<Content> size(NodeId id) const {
    const std::optional<Dims> dims = ops::dims_of(graph_, graph_.input(id, 0));
    return dims ? std::optional(numbers({graph::element_count(*dims)}, false)) : std::nullopt;
  }

  std::optional<Content> gather(NodeId id) const {
    const auto data = in(id, 0);
    const auto index = in(id, 1);
    if (!data || !data->vector || !index || !index->all_numbers()) {
      return std::nullopt;
    }
    Content content{index->vector, {}};
    for (const Element& i : index->elements) {
      const auto at = ops::normalize_axis(*i.number, static_cast<std::int64_t>(data->elements.size()));
      if (!at) {
        return std::nullopt;
      }
      content.elements.push_back(data->elements[static_cast<std::size_t>(*at)]);
    }
    return content;
  }

  std::optional<Content> slice(NodeId id) const {
    const auto data = in(id, 0);
    const auto form = ops::slice_form(graph_, id);
    if (!data || !data->vector || !form || form->axes != Dims{0}) {
      return std::nullopt;
    }
    const ops::SliceRange range = ops::clamp_slice(form->starts[0], form->ends[0], form->steps[0],
                                                   static_cast<std::int64_t>(data->elements.size()));
    Content content{true, {}};
    for (std::int64_t i = 0; i < range.count; ++i) {
      content.elements.push_back(data->elements[static_cast<std::size_t>(range.start + i * range.step)]);
    }
    return content;
  }

  std::optional<Content> concat(NodeId id) const {
    Content content{true, {}};
    for (std::size_t i = 0; i < graph_.node(id).inputs.size(); ++i) {
      const auto part = in(id, i);
      if (!part || !part->vector) {
        return std::nullopt;
      }
      content.elements.insert(content.elements.end(), part->elements.begin(), part->elements.end());
    }
    return content;
  }

  // Squeeze, Unsqueeze, Reshape to rank 0 or 1.
  std::optional<Content> reranked(NodeId id, bool vector) const {
    auto content = in(id, 0);
    if (!content || (!vector && content->elements.size() != 1)) {
      return std::nullopt;
    }
    content->vector = vector;
    return content;
  }

  std::optional<Content> reshape(NodeId id) const {
    const auto target = ops::ints_of(graph_, id, "shape", 1);
    return target && target->size() <= 1 ? reranked(id, target->size() == 1) : std::nullopt;
  }

  std::optional<Content> unsqueeze(NodeId id) const {
    const auto data = in(id, 0);
    return data && !data->vector && ops::axes_of(graph_, id) == Dims{0} ? reranked(id, true) : std::nullopt;
  }

  std::optional<Content> squeeze(NodeId id) const {
    const auto data = in(id, 0);
    if (!data || !data->vector || data->elements.size() != 1) {
      return std::nullopt;
    }
    return reranked(id, false);
  }

  std::optional<Content> cast(NodeId id) const {
    const auto to = graph_.attribute<std::int64_t>(id, "to", 0);
    auto content = in(id, 0);
    if (!content || (to != static_cast<int>(DataType::kInt64) && to != static_cast<int>(DataType::kInt32) &&
                     to != static_cast<int>(DataType::kBool))) {
      return std::nullopt;
    }
    for (Element& e : content->elements) {
      if (to == static_cast<int>(DataType::kBool)) {
        e = e.number ? Element{*e.number != 0, {}} : Element{};
      } else if (to == static_cast<int>(DataType::kInt32) && e.number &&
                 *e.number != static_cast<std::int32_t>(*e.number)) {
        return std::nullopt;
      }
    }
    return content;
  }

  // Element i of operand `content` broadcast to `count` elements.
  static const Element& broadcast(const Content& content, std::size_t i) {
    return content.elements.size() == 1 ? content.elements[0] : content.elements[i];
  }

  static std::optional<std::size_t> broadcast_count(std::initializer_list<const Content*> contents) {
    std::size_t count = 1;
    for (const Content* content : contents) {
      const std::size_t n = content->elements.size();
      if (n != 1 && count != 1 && n != count) {
        return std::nullopt;
      }
      count = n == 1 ? count : n;
    }
    return count;
  }

  static Element combine(std::string_view op, Binary function, const Element& a, const Element& b) {
    if (a.number && b.number) {
      const auto r = function(*a.number, *b.number);
      return r ? Element{r, {}} : Element{};
    }
    if (op == "Mul" && a.number == 1) {
      return b;
    }
    if ((op == "Mul" || op == "Div") && b.number == 1) {
      return a;
    }
    if (op == "Add" && a.number == 0) {
      return b;
    }
    if ((op == "Add" || op == "Sub") && b.number == 0) {
      return a;
    }
    // The size of a dimension is never negative.
    if (op == "Equal" && ((a.number && *a.number < 0 && b.known()) || (b.number && *b.number < 0 && a.known()))) {
      return {0, {}};
    }
    return {};
  }

  std::optional<Content> binary(NodeId id, Binary function) const {
    const graph::Node& node = graph_.node(id);
    if (node.inputs.size() != 2 || !ops::is_numpy_broadcast(graph_, id)) {
      return std::nullopt;
    }
    const auto a = in(id, 0);
    const auto b = in(id, 1);
    const auto count = a && b ? broadcast_count({&*a, &*b}) : std::nullopt;
    if (!count) {
      return std::nullopt;
    }
    Content content{a->vector || b->vector, {}};
    for (std::size_t i = 0; i < *count; ++i) {
      content.elements.push_back(combine(node.op_type, function, broadcast(*a, i), broadcast(*b, i)));
    }
    return content;
  }

  std::optional<Content> identity(NodeId id) const { return in(id, 0); }

  std::optional<Content> negate(NodeId id) const {
    auto content = in(id, 0);
    if (content) {
      for (Element& e : content->elements) {
        e = e.number ? Element{subtract(0, *e.number), {}} : Element{};
      }
    }
    return content;
  }

  std::optional<Content> invert(NodeId id) const {
    auto content = in(id, 0);
    if (content) {
      for (Element& e : content->elements) {
        e = e.number ? Element{static_cast<std::int64_t>(*e.number == 0), {}} : Element{};
      }
    }
    return content;
  }

  std::optional<Content> where(NodeId id) const {
    const auto condition = in(id, 0);
    const auto yes = in(id, 1);
    const auto no = in(id, 2);
    const auto count = condition && yes && no ? broadcast_count({&*condition, &*yes, &*no}) : std::nullopt;
    if (!count) {
      return std::nullopt;
    }
    Content content{condition->vector || yes->vector || no->vector, {}};
    for (std::size_t i = 0; i < *count; ++i) {
      const Element& choice = broadcast(*condition, i);
      const Element& a = broadcast(*yes, i);
      const Element& b = broadcast(*no, i);
      content.elements.push_back(choice.number ? (*choice.number != 0 ? a : b) : (a == b ? a : Element{}));
    }
    return content;
  }

  std::optional<Content> constant_of_shape(NodeId id) const {
    const auto shape = in(id, 0);
    if (!shape || shape->elements.size() > 1 || !shape->all_numbers() || !graph_.has_attribute(id, "value")) {
      return std::nullopt;  // without the attribute: float zeros
    }
    const Tensor value = graph_.attribute<Tensor>(id, "value", {});
    const std::int64_t count = shape->elements.empty() ? 1 : *shape->elements[0].number;
    if (!follows(value.type()) || value.size() != 1 || count < 0 || count > kMostElements) {
      return std::nullopt;
    }
    return numbers(Dims(static_cast<std::size_t>(count), to_int64s(value)[0]), !shape->elements.empty());
  }

  std::optional<Content> expand(NodeId id) const {
    auto data = in(id, 0);
    const auto shape = in(id, 1);
    if (!data || !shape || shape->elements.size() != 1 || !shape->elements[0].number) {
      return std::nullopt;
    }
    const std::int64_t count = *shape->elements[0].number;
    data->vector = true;
    if (data->elements.size() == 1 && count >= 0 && count <= kMostElements) {
      data->elements.assign(static_cast<std::size_t>(count), Element(data->elements[0]));
    } else if (count != 1 && count != static_cast<std::int64_t>(data->elements.size())) {
      return std::nullopt;
    }
    return data;
  }

  std::optional<Content> range(NodeId id) const {
    const auto start = in(id, 0);
    const auto limit = in(id, 1);
    const auto delta = in(id, 2);
    const auto number = [](const std::optional<Content>& content) {
      return content && content->elements.size() == 1 && content->all_numbers();
    };
    if (!number(start) || !number(limit) || !number(delta)) {
      return std::nullopt;
    }
    const std::int64_t step = *delta->elements[0].number;
    if (step == 0) {
      return std::nullopt;
    }
    Dims values;
    for (std::int64_t v = *start->elements[0].number;
         step > 0 ? v < *limit->elements[0].number : v > *limit->elements[0].number;) {
      values.push_back(v);
      if (static_cast<std::int64_t>(values.size()) > kMostElements || __builtin_add_overflow(v, step, &v)) {
        return std::nullopt;
      }
    }
    return numbers(values, true);
  }

  std::optional<Content> reduce_prod(NodeId id) const {
    const auto data = in(id, 0);
    if (!data || !data->vector || !data->all_numbers() || ops::axes_of(graph_, id) != Dims{0}) {
      return std::nullopt;
    }
    std::int64_t result = 1;
    for (const Element& e : data->elements) {
      const auto next = multiply(result, *e.number);
      if (!next) {
        return std::nullopt;
      }
      result = *next;
    }
    return numbers({result}, ops::keep_dims(graph_, id));
  }

  std::optional<Content> follow(NodeId id) const {
    const graph::Node& node = graph_.node(id);
    if (!node.domain.empty() || node.inputs.empty()) {
      return std::nullopt;
    }
    const std::string_view op = node.op_type;
    // Of another type or rank than what is followed: nothing to do.
    const DataType type = ops::element_of(graph_, node.outputs[0]);
    if (type != DataType::kUndefined && !follows(type)) {
      return std::nullopt;
    }
    if (const auto found = binaries().find(op); found != binaries().end()) {
      return binary(id, found->second);
    }
    using Rule = std::optional<Content> (Follower::*)(NodeId) const;
    static const std::map<std::string_view, Rule> kRules = {
        {"Cast", &Follower::cast},
        {"Concat", &Follower::concat},
        {"ConstantOfShape", &Follower::constant_of_shape},
        {"Expand", &Follower::expand},
        {"Gather", &Follower::gather},
        {"Identity", &Follower::identity},
        {"Neg", &Follower::negate},
        {"Not", &Follower::invert},
        {"Range", &Follower::range},
        {"ReduceProd", &Follower::reduce_prod},
        {"Reshape", &Follower::reshape},
        {"Shape", &Follower::shape},
        {"Size", &Follower::size},
        {"Slice", &Follower::slice},
        {"Squeeze", &Follower::squeeze},
        {"Unsqueeze", &Follower::unsqueeze},
        {"Where", &Follower::where},
    };
    const auto rule = kRules.find(op);
    return rule == kRules.end() ? std::nullopt : (this->*rule->second)(id);
  }

  const Graph& graph_;
  std::map<ValueId, Content> contents_;
};

// Whether every number is one of the type: 32-bit arithmetic that would wrap stays as it is.
bool fits(const Content& content, DataType type) {
  return std::all_of(content.elements.begin(), content.elements.end(), [&](const Element& e) {
    return e.number && (type == DataType::kInt64 || (type == DataType::kInt32 && *e.number == static_cast<std::int32_t>(*e.number)) ||
                        (type == DataType::kBool && (*e.number == 0 || *e.number == 1)));
  });
}

Tensor tensor_of(const Content& content, DataType type) {
  Dims dims;
  if (content.vector) {
    dims.push_back(static_cast<std::int64_t>(content.elements.size()));
  }
  Tensor::Writable made = Tensor::allocate(type, std::move(dims));
  for (std::size_t i = 0; i < content.elements.size(); ++i) {
    const std::int64_t number = *content.elements[i].number;
    if (type == DataType::kInt64) {
      made.values<std::int64_t>()[i] = number;
    } else if (type == DataType::kInt32) {
      made.values<std::int32_t>()[i] = static_cast<std::int32_t>(number);
    } else {
      made.values<bool>()[i] = number != 0;
    }
  }
  return std::move(made.tensor);
}

// What is known of element i of a Reshape's target: a number that it must be, or the symbol of the dimension it makes. A
// symbol that was followed from an input is worth more than one that inference made up for the result.
Element target_element(const graph::ValueType& made, const Content& target, std::size_t i) {
  const Element& followed = target.elements[i];
  if (followed.number && *followed.number != -1) {
    return followed;
  }
  if (made.is_tensor() && made.shape && made.shape->size() == target.elements.size()) {
    const Element inferred = element_of((*made.shape)[i]);
    return inferred.number || (followed.symbol.empty() && inferred.known()) ? inferred : followed;
  }
  return followed;
}

// The target of a Reshape as a constant with 0 for copied dimensions and -1 for the one that follows from the others.
std::optional<Dims> reshape_target(const Graph& graph, NodeId id, const Content& target) {
  const auto& from = graph.value(graph.input(id, 0)).type;
  const auto& made = graph.value(graph.output(id)).type;
  Dims dims;
  int unknown = 0;
  for (std::size_t i = 0; i < target.elements.size(); ++i) {
    const Element e = target_element(made, target, i);
    if (e.number && *e.number > 0) {
      dims.push_back(*e.number);
      continue;
    }
    if (e.number && *e.number != -1) {
      return std::nullopt;  // an empty tensor, whose -1 would have no meaning, or a copy already
    }
    const bool copied = !e.symbol.empty() && from.is_tensor() && from.shape && i < from.shape->size() &&
                        (*from.shape)[i].symbol == e.symbol;
    dims.push_back(copied ? 0 : -1);
    unknown += copied ? 0 : 1;
  }
  return unknown <= 1 ? std::optional(dims) : std::nullopt;
}

}  // namespace

PassResult fold_shapes(Graph& graph, const PassContext&) {
  PassResult result;
  Follower follower(graph);
  const std::map<ValueId, Content> contents = follower.run();
  for (const auto& [id, content] : contents) {
    if (!content.all_numbers() || graph.is_unused(id)) {
      continue;
    }
    const NodeId node = graph.producer(id);
    const DataType type = ops::element_of(graph, id);
    if (graph.is_output(id) || !fits(content, type)) {
      if (graph.is_output(id)) {
        decline(result, graph, node, "the value is a graph output");
      }
      continue;
    }
    note(result, graph, node, fmt::format("{} -> constant", graph.node(node).op_type));
    graph.replace_uses(id, graph.add_initializer(graph.value(id).name, tensor_of(content, type)));
  }
  for (const NodeId id : graph.nodes()) {
    if (!graph.node(id).is("Reshape") || !graph.input(id, 1).valid()) {
      continue;
    }
    const auto found = contents.find(graph.input(id, 1));
    if (found == contents.end() || found->second.all_numbers() || !found->second.vector) {
      continue;
    }
    if (const std::optional<Dims> dims = reshape_target(graph, id, found->second)) {
      note(result, graph, id, fmt::format("Reshape by computed shape -> Reshape by {}", graph::to_string(*dims)));
      graph.set_input(id, 1,
                      graph.add_initializer(graph.value(found->first).name,
                                            Tensor::from<std::int64_t>({static_cast<std::int64_t>(dims->size())},
                                                                       std::span<const std::int64_t>(*dims))));
      graph.remove_attribute(id, "allowzero");  // the zeros written here copy
    } else {
      decline(result, graph, id, "more than one element of the target is unknown");
    }
  }
  return finish(graph, std::move(result));
}

}  // namespace tempera::pass
