#include "tempera/pass/rewrite.h"

#include <algorithm>

#include <fmt/format.h>

namespace tempera::pass {

using graph::Graph;
using graph::NodeId;
using graph::ValueId;
using graph::ValueType;

std::string site(const Graph& graph, NodeId id) {
  const graph::Node& node = graph.node(id);
  if (!node.name.empty()) {
    return node.name;
  }
  const auto made = std::find_if(node.outputs.begin(), node.outputs.end(), [](ValueId v) { return v.valid(); });
  return made == node.outputs.end() ? node.op_type : graph.value(*made).name;
}

void note(PassResult& result, const Graph& graph, NodeId id, std::string what) {
  result.rewrites.push_back({site(graph, id), std::move(what)});
}

void decline(PassResult& result, const Graph& graph, NodeId id, std::string reason) {
  result.skipped.push_back({site(graph, id), std::move(reason)});
}

bool can_substitute(const Graph& graph, ValueId from, ValueId to) {
  if (!graph.is_output(from)) {
    return true;
  }
  return graph.producer(to).valid() && !graph.is_output(to);
}

void substitute(Graph& graph, ValueId from, ValueId to) {
  const bool declared = graph.is_output(from);
  const ValueType type = graph.value(from).type;
  const bool known = type.kind != ValueType::Kind::kUnknown;
  if (known && (declared || graph.value(to).type.kind == ValueType::Kind::kUnknown) &&
      graph.producer(to).valid()) {
    graph.set_type(to, type);
  }
  graph.replace_uses(from, to);
}

PassResult finish(Graph& graph, PassResult result) {
  if (!result.rewrites.empty()) {
    graph.remove_dead();
    graph.sort();
  }
  return result;
}

bool same_shape(const Graph& graph, ValueId a, ValueId b) {
  if (!a.valid() || !b.valid()) {
    return false;
  }
  const ValueType& left = graph.value(a).type;
  const ValueType& right = graph.value(b).type;
  if (!left.is_tensor() || !right.is_tensor() || !left.shape || !right.shape ||
      left.shape->size() != right.shape->size()) {
    return false;
  }
  return std::equal(left.shape->begin(), left.shape->end(), right.shape->begin(),
                    [](const graph::Dim& p, const graph::Dim& q) {
                      return p.fixed() ? p.value == q.value : !q.fixed() && !p.symbol.empty() && p.symbol == q.symbol;
                    });
}

std::string reason_kept(const Graph& graph, ValueId id) {
  const std::string& name = graph.value(id).name;
  if (graph.is_output(id)) {
    return fmt::format("'{}' is a graph output", name);
  }
  if (graph.is_captured_by_body(id)) {
    return fmt::format("'{}' is captured by a body", name);
  }
  if (graph.uses(id).size() != 1) {
    return fmt::format("'{}' has {} readers", name, graph.uses(id).size());
  }
  return {};
}

NodeId producer_of(const Graph& graph, ValueId id, std::string_view op_type) {
  const NodeId producer = graph.producer(id);
  return producer.valid() && graph.node(producer).is(op_type) ? producer : NodeId{};
}

NodeId sole_producer(const Graph& graph, ValueId id, std::string_view op_type) {
  const NodeId producer = producer_of(graph, id, op_type);
  return producer.valid() && graph.has_single_use(id) ? producer : NodeId{};
}

NodeId sole_reader(const Graph& graph, ValueId id) {
  return id.valid() && graph.has_single_use(id) ? graph.uses(id).front().node : NodeId{};
}

ValueId other_input(const Graph& graph, NodeId id, ValueId one) {
  const ValueId a = graph.input(id, 0);
  const ValueId b = graph.input(id, 1);
  if ((a == one) == (b == one)) {
    return {};
  }
  return a == one ? b : a;
}

}  // namespace tempera::pass
