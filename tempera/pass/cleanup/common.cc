#include "tempera/pass/cleanup/common.h"

#include <algorithm>
#include <map>
#include <tuple>

#include <fmt/format.h>

#include "tempera/ops/access.h"
#include "tempera/ops/operators.h"
#include "tempera/pass/rewrite.h"

namespace tempera::pass {
namespace {

using graph::Graph;
using graph::NodeId;
using graph::ValueId;

bool same_attributes(const graph::Node& a, const graph::Node& b) {
  return a.attributes.size() == b.attributes.size() &&
         std::equal(a.attributes.begin(), a.attributes.end(), b.attributes.begin(), [](const auto& p, const auto& q) {
           return p.first == q.first && graph::same_attribute(p.second, q.second);
         });
}

bool mergeable(const Graph& graph, NodeId id) {
  const graph::Node& node = graph.node(id);
  bool bodies = false;
  graph::for_each_body(node, [&](const std::string&, const Graph&) { bodies = true; });
  return ops::is_pure(node) && !bodies && !ops::is_training(graph, id);
}

std::vector<ValueId> sorted_inputs(const graph::Node& node) {
  std::vector<ValueId> inputs = node.inputs;
  static constexpr std::string_view kCommutative[] = {"Add", "And", "Equal", "Max", "Min", "Mul", "Or", "Xor"};
  if (inputs.size() == 2 && std::find(std::begin(kCommutative), std::end(kCommutative), node.op_type) !=
                                std::end(kCommutative)) {
    std::sort(inputs.begin(), inputs.end());
  }
  return inputs;
}

// Each asked-for output of `gone` has a counterpart that may take its readers.
bool can_replace(const Graph& graph, const graph::Node& gone, const graph::Node& kept) {
  for (std::size_t i = 0; i < gone.outputs.size(); ++i) {
    const ValueId from = gone.outputs[i];
    if (!from.valid()) {
      continue;
    }
    const ValueId to = i < kept.outputs.size() ? kept.outputs[i] : ValueId{};
    if (!to.valid() || !can_substitute(graph, from, to)) {
      return false;
    }
  }
  return true;
}

void merge_nodes(Graph& graph, PassResult& result) {
  std::map<std::pair<std::string, std::vector<ValueId>>, std::vector<NodeId>> seen;
  graph.sort();  // so that the first of two equal nodes stands before the readers of the second
  for (const NodeId id : graph.nodes()) {
    if (!mergeable(graph, id)) {
      continue;
    }
    const graph::Node& node = graph.node(id);
    std::vector<NodeId>& alike = seen[{node.op_type, sorted_inputs(node)}];
    const auto kept = std::find_if(alike.begin(), alike.end(), [&](NodeId other) {
      return same_attributes(graph.node(other), node) && can_replace(graph, node, graph.node(other));
    });
    if (kept == alike.end()) {
      alike.push_back(id);
      continue;
    }
    note(result, graph, id, fmt::format("equal to {}", graph.describe(*kept)));
    const std::vector<ValueId> from = node.outputs;
    const std::vector<ValueId> to = graph.node(*kept).outputs;
    for (std::size_t i = 0; i < from.size(); ++i) {
      if (from[i].valid()) {
        substitute(graph, from[i], to[i]);
      }
    }
    graph.erase(id);
  }
}

void merge_initializers(Graph& graph, PassResult& result) {
  std::map<std::pair<int, graph::Dims>, std::vector<ValueId>> seen;
  for (const ValueId id : graph.values()) {
    const graph::Value& value = graph.value(id);
    if (!value.constant || value.is_input || graph.is_output(id) || graph.is_unused(id)) {
      continue;
    }
    std::vector<ValueId>& alike = seen[{static_cast<int>(value.constant->type()), value.constant->dims()}];
    const auto kept = std::find_if(alike.begin(), alike.end(), [&](ValueId other) {
      return graph.value(other).constant->same_bytes(*value.constant);
    });
    if (kept == alike.end()) {
      alike.push_back(id);
      continue;
    }
    result.rewrites.push_back({value.name, fmt::format("the same constant as '{}'", graph.value(*kept).name)});
    graph.replace_uses(id, *kept);
    graph.erase(id);
  }
}

}  // namespace

PassResult merge_common(Graph& graph, const PassContext&) {
  PassResult result;
  merge_initializers(graph, result);
  merge_nodes(graph, result);
  return finish(graph, std::move(result));
}

}  // namespace tempera::pass
