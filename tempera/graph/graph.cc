#include "tempera/graph/graph.h"

#include <algorithm>
#include <queue>
#include <set>
#include <type_traits>

#include <fmt/format.h>

#include "tempera/base/error.h"

namespace tempera::graph {
namespace {

bool holds_body(const Node& node) {
  return std::any_of(node.attributes.begin(), node.attributes.end(), [](const auto& entry) {
    return std::holds_alternative<Body>(entry.second) || std::holds_alternative<std::vector<Body>>(entry.second);
  });
}

template <typename T>
Tensor list_tensor(const std::vector<T>& values) {
  return Tensor::from<T>({static_cast<std::int64_t>(values.size())}, std::span<const T>(values));
}

// The content of a Constant node; empty for the forms that are no dense tensor.
std::optional<Tensor> constant_of(const Node& node) {
  if (node.attributes.size() != 1) {
    return std::nullopt;
  }
  const auto& [name, attribute] = *node.attributes.begin();
  if (const auto* tensor = std::get_if<Tensor>(&attribute); tensor != nullptr && name == "value") {
    return *tensor;
  }
  if (const auto* number = std::get_if<float>(&attribute); number != nullptr && name == "value_float") {
    return Tensor::scalar(*number);
  }
  if (const auto* number = std::get_if<std::int64_t>(&attribute); number != nullptr && name == "value_int") {
    return Tensor::scalar(*number);
  }
  if (const auto* numbers = std::get_if<std::vector<float>>(&attribute); numbers != nullptr && name == "value_floats") {
    return list_tensor(*numbers);
  }
  if (const auto* numbers = std::get_if<std::vector<std::int64_t>>(&attribute);
      numbers != nullptr && name == "value_ints") {
    return list_tensor(*numbers);
  }
  if (const auto* text = std::get_if<std::string>(&attribute); text != nullptr && name == "value_string") {
    return Tensor::strings({}, {*text});
  }
  if (const auto* texts = std::get_if<std::vector<std::string>>(&attribute);
      texts != nullptr && name == "value_strings") {
    return Tensor::strings({static_cast<std::int64_t>(texts->size())}, *texts);
  }
  return std::nullopt;
}

}  // namespace

// -- Body ----------------------------------------------------------------------------------------------------------------

Body::Body(Graph graph) : graph_(std::make_unique<Graph>(std::move(graph))) {}
Body::Body(const Body& other) : graph_(std::make_unique<Graph>(*other.graph_)) {}
Body::Body(Body&& other) noexcept = default;
Body& Body::operator=(const Body& other) {
  if (this != &other) {
    graph_ = std::make_unique<Graph>(*other.graph_);
  }
  return *this;
}
Body& Body::operator=(Body&& other) noexcept = default;
Body::~Body() = default;

// -- reading -------------------------------------------------------------------------------------------------------------

const Node& Graph::node(NodeId id) const {
  TEMPERA_CHECK(alive(id), "a node id is stale");
  return nodes_[id.index].node;
}

Node& Graph::mutable_node(NodeId id) {
  TEMPERA_CHECK(alive(id), "a node id is stale");
  return nodes_[id.index].node;
}

const Graph::ValueSlot& Graph::slot(ValueId id) const {
  TEMPERA_CHECK(alive(id), "a value id is stale");
  return values_[id.index];
}

Graph::ValueSlot& Graph::slot(ValueId id) {
  TEMPERA_CHECK(alive(id), "a value id is stale");
  return values_[id.index];
}

const Value& Graph::value(ValueId id) const { return slot(id).value; }
bool Graph::alive(NodeId id) const noexcept { return id.index < nodes_.size() && nodes_[id.index].alive; }
bool Graph::alive(ValueId id) const noexcept { return id.index < values_.size() && values_[id.index].alive; }

std::vector<NodeId> Graph::nodes() const {
  std::vector<NodeId> live;
  live.reserve(node_count_);
  std::copy_if(order_.begin(), order_.end(), std::back_inserter(live), [&](NodeId id) { return alive(id); });
  return live;
}

std::vector<ValueId> Graph::values() const {
  std::vector<ValueId> live;
  for (std::uint32_t i = 0; i < values_.size(); ++i) {
    if (values_[i].alive) {
      live.push_back({i});
    }
  }
  return live;
}

const std::vector<Use>& Graph::uses(ValueId id) const { return slot(id).uses; }

bool Graph::is_output(ValueId id) const { return std::find(outputs_.begin(), outputs_.end(), id) != outputs_.end(); }

bool Graph::is_captured_by_body(ValueId id) const {
  bool captured = false;
  for (const NodeId owner : body_nodes_) {
    for_each_body(node(owner), [&](const std::string&, const Graph& body) {
      captured = captured || std::any_of(body.captures_.begin(), body.captures_.end(),
                                         [&](const Capture& capture) { return capture.outer == id; });
    });
  }
  return captured;
}

bool Graph::is_capture(ValueId id) const {
  return std::any_of(captures_.begin(), captures_.end(), [&](const Capture& capture) { return capture.inner == id; });
}

bool Graph::has_single_use(ValueId id) const { return uses(id).size() == 1 && !is_pinned(id); }
bool Graph::is_unused(ValueId id) const { return uses(id).empty() && !is_pinned(id); }

ValueId Graph::input(NodeId id, std::size_t i) const {
  const std::vector<ValueId>& inputs = node(id).inputs;
  return i < inputs.size() ? inputs[i] : ValueId{};
}

ValueId Graph::output(NodeId id, std::size_t i) const {
  const std::vector<ValueId>& outputs = node(id).outputs;
  return i < outputs.size() ? outputs[i] : ValueId{};
}

NodeId Graph::producer(ValueId id) const { return id.valid() ? value(id).producer : NodeId{}; }

std::optional<Tensor> Graph::constant(ValueId id) const {
  if (!id.valid()) {
    return std::nullopt;
  }
  const Value& wanted = value(id);
  if (wanted.constant.has_value()) {
    return wanted.is_input ? std::nullopt : wanted.constant;
  }
  if (wanted.producer.valid() && node(wanted.producer).is("Constant")) {
    return constant_of(node(wanted.producer));
  }
  return std::nullopt;
}

bool Graph::has_attribute(NodeId id, std::string_view name) const {
  return node(id).attributes.find(name) != node(id).attributes.end();
}

void Graph::throw_attribute_kind(NodeId id, std::string_view name) const {
  throw Error(ErrorCode::kBadModel, fmt::format("attribute '{}' has the wrong kind", name)).in(describe(id));
}

std::optional<ValueId> Graph::find_value(std::string_view name) const {
  const auto found = names_.find(name);
  return found == names_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<NodeId> Graph::find_node(std::string_view name) const {
  for (const NodeId id : order_) {
    if (alive(id) && node(id).name == name) {
      return id;
    }
  }
  return std::nullopt;
}

std::string Graph::describe(NodeId id) const {
  const Node& n = node(id);
  std::string label = n.name;
  for (std::size_t i = 0; label.empty() && i < n.outputs.size(); ++i) {
    if (n.outputs[i].valid()) {
      label = value(n.outputs[i]).name;
    }
  }
  return fmt::format("node '{}' ({}{}{})", label, n.domain, n.domain.empty() ? "" : ".", n.op_type);
}

// -- names ---------------------------------------------------------------------------------------------------------------

std::string Graph::fresh_name(std::string_view stem) {
  const std::string base = stem.empty() ? "v" : std::string(stem);
  std::string name = base;
  while (name.empty() || names_.find(name) != names_.end()) {
    name = fmt::format("{}_{}", base, ++next_name_);
  }
  return name;
}

std::string Graph::claim_name(std::string_view wanted) { return fresh_name(wanted); }

void Graph::rename(ValueId id, std::string_view wanted) {
  Value& renamed = slot(id).value;
  if (renamed.name == wanted) {
    return;
  }
  if (wanted.empty() || names_.find(wanted) != names_.end()) {
    throw Error(ErrorCode::kInvalidArgument, fmt::format("value name '{}' is taken", wanted));
  }
  names_.erase(renamed.name);
  renamed.name = wanted;
  names_.emplace(renamed.name, id);
}

// -- building ------------------------------------------------------------------------------------------------------------

ValueId Graph::add_value(std::string_view wanted, ValueType type) {
  const ValueId id{static_cast<std::uint32_t>(values_.size())};
  ValueSlot& made = values_.emplace_back();
  made.alive = true;
  made.value.name = claim_name(wanted);
  made.value.type = std::move(type);
  names_.emplace(made.value.name, id);
  return id;
}

ValueId Graph::add_input(std::string_view wanted, ValueType type) {
  const ValueId id = add_value(wanted, std::move(type));
  slot(id).value.is_input = true;
  inputs_.push_back(id);
  return id;
}

ValueId Graph::add_initializer(std::string_view wanted, Tensor tensor) {
  const ValueId id = add_value(wanted, ValueType::tensor(tensor.type(), shape_of(tensor.dims())));
  slot(id).value.constant = std::move(tensor);
  return id;
}

ValueId Graph::add_capture(ValueId outer, std::string_view wanted, ValueType type) {
  const ValueId id = add_value(wanted, std::move(type));
  captures_.push_back({outer, id});
  return id;
}

void Graph::add_output(ValueId id) {
  TEMPERA_CHECK(alive(id), "an output must be a live value");
  outputs_.push_back(id);
}

void Graph::set_output(std::size_t i, ValueId id) {
  TEMPERA_CHECK(alive(id), "an output must be a live value");
  outputs_.at(i) = id;
}

void Graph::remove_input(std::size_t i) {
  slot(inputs_.at(i)).value.is_input = false;
  inputs_.erase(inputs_.begin() + static_cast<std::ptrdiff_t>(i));
}

void Graph::note_bodies(NodeId id) {
  std::erase(body_nodes_, id);
  if (alive(id) && holds_body(node(id))) {
    body_nodes_.push_back(id);
  }
}

NodeId Graph::add_node(Node node) {
  const NodeId id{static_cast<std::uint32_t>(nodes_.size())};
  for (std::uint32_t i = 0; i < node.outputs.size(); ++i) {
    if (!node.outputs[i].valid()) {
      continue;
    }
    Value& made = slot(node.outputs[i]).value;
    TEMPERA_CHECK(!made.producer.valid() && !made.is_input && !made.constant.has_value(),
                  fmt::format("value '{}' already has a source", made.name));
    made.producer = id;
    made.producer_output = i;
  }
  for (std::uint32_t i = 0; i < node.inputs.size(); ++i) {
    add_use(node.inputs[i], {id, i});
  }
  NodeSlot& added = nodes_.emplace_back();
  added.node = std::move(node);
  added.alive = true;
  order_.push_back(id);
  ++node_count_;
  note_bodies(id);
  return id;
}

ValueId Graph::add_node(std::string_view op_type, std::vector<ValueId> inputs, std::string_view wanted,
                        std::map<std::string, Attribute, std::less<>> attributes, std::string_view domain) {
  const ValueId out = add_value(wanted);
  Node made;
  made.op_type = op_type;
  made.domain = domain;
  made.name = value(out).name;
  made.inputs = std::move(inputs);
  made.outputs = {out};
  made.attributes = std::move(attributes);
  add_node(std::move(made));
  return out;
}

void Graph::add_use(ValueId id, Use use) {
  if (id.valid()) {
    slot(id).uses.push_back(use);
  }
}

void Graph::drop_use(ValueId id, Use use) {
  if (id.valid()) {
    std::erase(slot(id).uses, use);
  }
}

void Graph::set_input(NodeId id, std::size_t i, ValueId wanted) {
  Node& changed = mutable_node(id);
  if (i >= changed.inputs.size()) {
    changed.inputs.resize(i + 1);
  }
  const Use use{id, static_cast<std::uint32_t>(i)};
  drop_use(changed.inputs[i], use);
  changed.inputs[i] = wanted;
  add_use(wanted, use);
}

void Graph::set_inputs(NodeId id, std::vector<ValueId> inputs) {
  Node& changed = mutable_node(id);
  for (std::uint32_t i = 0; i < changed.inputs.size(); ++i) {
    drop_use(changed.inputs[i], {id, i});
  }
  changed.inputs = std::move(inputs);
  for (std::uint32_t i = 0; i < changed.inputs.size(); ++i) {
    add_use(changed.inputs[i], {id, i});
  }
}

void Graph::remove_output(NodeId id, std::size_t i) {
  std::vector<ValueId>& outputs = mutable_node(id).outputs;
  const ValueId removed = outputs.at(i);
  if (removed.valid()) {
    TEMPERA_CHECK(is_unused(removed), fmt::format("output '{}' is still read", value(removed).name));
    slot(removed).value.producer = {};
    outputs[i] = {};
    erase(removed);
  }
  while (!outputs.empty() && !outputs.back().valid()) {
    outputs.pop_back();
  }
}

void Graph::set_capture(std::size_t i, ValueId outer) { captures_.at(i).outer = outer; }

void Graph::set_operator(NodeId id, std::string_view op_type, std::string_view domain) {
  Node& changed = mutable_node(id);
  changed.op_type = op_type;
  changed.domain = domain;
}

void Graph::set_attribute(NodeId id, std::string_view name, Attribute attribute) {
  mutable_node(id).attributes.insert_or_assign(std::string(name), std::move(attribute));
  note_bodies(id);
}

void Graph::remove_attribute(NodeId id, std::string_view name) {
  auto& attributes = mutable_node(id).attributes;
  if (const auto found = attributes.find(name); found != attributes.end()) {
    attributes.erase(found);
  }
  note_bodies(id);
}

void Graph::set_name(NodeId id, std::string_view name) { mutable_node(id).name = name; }
void Graph::set_function_path(NodeId id, std::string path) { mutable_node(id).function_path = std::move(path); }
void Graph::set_type(ValueId id, ValueType type) { slot(id).value.type = std::move(type); }
void Graph::set_origin(ValueId id, Origin origin) { slot(id).value.origin = std::move(origin); }
void Graph::set_notes(ValueId id, std::string text, Metadata notes) {
  Value& changed = slot(id).value;
  changed.doc = std::move(text);
  changed.metadata = std::move(notes);
}

void Graph::set_constant(ValueId id, Tensor tensor) {
  Value& changed = slot(id).value;
  TEMPERA_CHECK(!changed.producer.valid() && !is_capture(id),
                fmt::format("value '{}' is no initialiser", changed.name));
  changed.type = ValueType::tensor(tensor.type(), shape_of(tensor.dims()));
  changed.constant = std::move(tensor);
}

Graph& Graph::body(NodeId id, std::string_view attribute, std::size_t i) {
  auto& attributes = mutable_node(id).attributes;
  const auto found = attributes.find(attribute);
  TEMPERA_CHECK(found != attributes.end(), fmt::format("there is no body '{}'", attribute));
  if (auto* one = std::get_if<Body>(&found->second); one != nullptr && i == 0) {
    return one->graph();
  }
  auto* many = std::get_if<std::vector<Body>>(&found->second);
  TEMPERA_CHECK(many != nullptr && i < many->size(), fmt::format("attribute '{}' holds no such body", attribute));
  return (*many)[i].graph();
}

void Graph::replace_uses(ValueId from, ValueId to) {
  if (from == to) {
    return;
  }
  for (const Use use : std::vector<Use>(uses(from))) {
    set_input(use.node, use.input, to);
  }
  for (const NodeId owner : body_nodes_) {
    for_each_body(*this, owner, [&](const std::string&, Graph& body) {
      for (Capture& capture : body.captures_) {
        if (capture.outer == from) {
          capture.outer = to;
        }
      }
    });
  }
  if (!slot(to).value.origin.has_value()) {
    slot(to).value.origin = slot(from).value.origin;
  }
  if (!is_output(from)) {
    return;
  }
  ValueId replacement = to;
  const Value& target = value(to);
  if (target.is_input || target.constant.has_value() || is_capture(to) || is_output(to)) {
    replacement = add_node("Identity", {to}, value(from).name + "_copy");
    slot(replacement).value.type = value(from).type;
    slot(replacement).value.origin = value(from).origin;
  }
  const std::string output_name = value(from).name;
  rename(from, fresh_name(output_name + "_replaced"));
  rename(replacement, output_name);
  std::replace(outputs_.begin(), outputs_.end(), from, replacement);
}

void Graph::erase(NodeId id) {
  Node& removed = mutable_node(id);
  for (const ValueId out : removed.outputs) {
    TEMPERA_CHECK(!out.valid() || is_unused(out), fmt::format("{} is still read", describe(id)));
  }
  for (std::uint32_t i = 0; i < removed.inputs.size(); ++i) {
    drop_use(removed.inputs[i], {id, i});
  }
  for (const ValueId out : removed.outputs) {
    if (out.valid()) {
      slot(out).value.producer = {};
      erase(out);
    }
  }
  nodes_[id.index] = NodeSlot{};
  --node_count_;
  std::erase(body_nodes_, id);
}

void Graph::erase(ValueId id) {
  ValueSlot& removed = slot(id);
  TEMPERA_CHECK(is_unused(id) && !removed.value.producer.valid() && !removed.value.is_input,
                fmt::format("value '{}' is still needed", removed.value.name));
  std::erase_if(captures_, [&](const Capture& capture) { return capture.inner == id; });
  names_.erase(removed.value.name);
  removed = ValueSlot{};
}

std::size_t Graph::remove_dead() {
  std::size_t removed = 0;
  for (const NodeId owner : std::vector<NodeId>(body_nodes_)) {
    for_each_body(*this, owner, [&](const std::string&, Graph& body) { removed += body.remove_dead(); });
  }
  // Consumers stand after producers in order_, or are found on a later round when they do not.
  for (bool changed = true; changed;) {
    changed = false;
    for (auto it = order_.rbegin(); it != order_.rend(); ++it) {
      if (!alive(*it)) {
        continue;
      }
      const std::vector<ValueId>& outputs = node(*it).outputs;
      if (std::all_of(outputs.begin(), outputs.end(), [&](ValueId out) { return !out.valid() || is_unused(out); })) {
        erase(*it);
        ++removed;
        changed = true;
      }
    }
  }
  for (const ValueId id : values()) {
    if (!value(id).producer.valid() && !value(id).is_input && is_unused(id)) {
      erase(id);
    }
  }
  std::erase_if(order_, [&](NodeId id) { return !alive(id); });
  return removed;
}

void Graph::sort() {
  std::erase_if(order_, [&](NodeId id) { return !alive(id); });
  std::vector<std::uint32_t> position(nodes_.size(), 0);
  for (std::uint32_t i = 0; i < order_.size(); ++i) {
    position[order_[i].index] = i;
  }
  std::vector<std::vector<NodeId>> readers(nodes_.size());
  std::vector<std::uint32_t> waiting(nodes_.size(), 0);
  const auto depend = [&](NodeId reader, ValueId read) {
    if (const NodeId source = producer(read); source.valid()) {
      readers[source.index].push_back(reader);
      ++waiting[reader.index];
    }
  };
  for (const NodeId id : order_) {
    for (const ValueId read : node(id).inputs) {
      depend(id, read);
    }
    for_each_body(node(id), [&](const std::string&, const Graph& body) {
      for (const Capture& capture : body.captures_) {
        depend(id, capture.outer);
      }
    });
  }
  std::priority_queue<std::uint32_t, std::vector<std::uint32_t>, std::greater<>> ready;
  for (const NodeId id : order_) {
    if (waiting[id.index] == 0) {
      ready.push(position[id.index]);
    }
  }
  std::vector<NodeId> sorted;
  sorted.reserve(order_.size());
  while (!ready.empty()) {
    const NodeId next = order_[ready.top()];
    ready.pop();
    sorted.push_back(next);
    for (const NodeId reader : readers[next.index]) {
      if (--waiting[reader.index] == 0) {
        ready.push(position[reader.index]);
      }
    }
  }
  if (sorted.size() != order_.size()) {
    const auto stuck =
        std::find_if(order_.begin(), order_.end(), [&](NodeId id) { return waiting[id.index] != 0; });
    throw Error(ErrorCode::kBadModel, "the graph has a cycle: a node depends on its own output").in(describe(*stuck));
  }
  order_ = std::move(sorted);
  for (const NodeId owner : body_nodes_) {
    for_each_body(*this, owner, [](const std::string&, Graph& body) { body.sort(); });
  }
}

// -- bodies --------------------------------------------------------------------------------------------------------------

void for_each_body(const Node& node, const std::function<void(const std::string&, const Graph&)>& visit) {
  for (const auto& [name, attribute] : node.attributes) {
    if (const auto* one = std::get_if<Body>(&attribute)) {
      visit(name, one->graph());
    } else if (const auto* many = std::get_if<std::vector<Body>>(&attribute)) {
      for (const Body& body : *many) {
        visit(name, body.graph());
      }
    }
  }
}

void for_each_body(Graph& graph, NodeId id, const std::function<void(const std::string&, Graph&)>& visit) {
  for (const auto& [name, attribute] : graph.node(id).attributes) {
    if (std::holds_alternative<Body>(attribute)) {
      visit(name, graph.body(id, name));
    } else if (const auto* many = std::get_if<std::vector<Body>>(&attribute)) {
      for (std::size_t i = 0; i < many->size(); ++i) {
        visit(name, graph.body(id, name, i));
      }
    }
  }
}

void for_each_graph(const Graph& graph, const std::function<void(const Graph&)>& visit) {
  visit(graph);
  for (const NodeId id : graph.nodes()) {
    for_each_body(graph.node(id), [&](const std::string&, const Graph& body) { for_each_graph(body, visit); });
  }
}

void for_each_graph(Graph& graph, const std::function<void(Graph&)>& visit) {
  visit(graph);
  for (const NodeId id : graph.nodes()) {
    for_each_body(graph, id, [&](const std::string&, Graph& body) { for_each_graph(body, visit); });
  }
}

}  // namespace tempera::graph
