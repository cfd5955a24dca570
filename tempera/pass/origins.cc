#include "tempera/pass/origins.h"

#include <optional>
#include <utility>

namespace tempera::pass {
namespace {

using graph::Graph;
using graph::Origin;
using graph::ValueId;

std::optional<Origin> derived(const Graph& graph, ValueId from) {
  std::optional<Origin> origin = from.valid() ? graph.value(from).origin : std::nullopt;
  if (origin) {
    origin->equal = false;
  }
  return origin;
}

std::optional<Origin> derived_from_inputs(const Graph& graph, const graph::Node& node) {
  std::optional<Origin> of_constant;
  for (const ValueId input : node.inputs) {
    std::optional<Origin> origin = derived(graph, input);
    if (origin && !graph.value(input).constant) {
      return origin;
    }
    if (!of_constant) {
      of_constant = std::move(origin);
    }
  }
  return of_constant;
}

}  // namespace

ValueId add_derived(Graph& graph, ValueId from, graph::Tensor tensor) {
  const ValueId made = graph.add_initializer(graph.value(from).name, std::move(tensor));
  if (std::optional<Origin> origin = derived(graph, from)) {
    graph.set_origin(made, std::move(*origin));
  }
  return made;
}

void take_over_origin(Graph& graph, ValueId changed, ValueId target) {
  if (const std::optional<Origin>& origin = graph.value(target).origin) {
    graph.set_origin(changed, *origin);
  } else {
    no_longer_equal(graph, changed);
  }
}

void no_longer_equal(Graph& graph, ValueId changed) {
  if (std::optional<Origin> own = derived(graph, changed)) {
    graph.set_origin(changed, std::move(*own));
  }
}

void derive_origins(Graph& graph) {
  for (const graph::NodeId id : graph.nodes()) {
    const graph::Node& node = graph.node(id);
    for (const ValueId out : node.outputs) {
      if (out.valid() && !graph.value(out).origin) {
        if (std::optional<Origin> origin = derived_from_inputs(graph, node)) {
          graph.set_origin(out, std::move(*origin));
        }
      }
    }
  }
}

}  // namespace tempera::pass
