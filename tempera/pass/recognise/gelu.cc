#include "tempera/pass/recognise/gelu.h"

#include <cmath>

#include "tempera/ops/access.h"
#include "tempera/pass/rewrite.h"

namespace tempera::pass {
namespace {

using graph::Graph;
using graph::NodeId;
using graph::ValueId;

bool near(double value, double wanted) { return std::abs(value - wanted) <= 1e-3 * std::abs(wanted); }

// A value as a constant factor times another value: takes Mul and Div by one number off.
struct Scaled {
  ValueId value;
  double factor = 1.0;
};

// One step: the operand and factor of a Mul or Div by a constant; the value itself when it is none.
Scaled unscale(const Graph& graph, ValueId id) {
  const NodeId producer = graph.producer(id);
  if (!producer.valid() || !ops::is_numpy_broadcast(graph, producer)) {
    return {id, 1.0};
  }
  const ValueId a = graph.input(producer, 0);
  const ValueId b = graph.input(producer, 1);
  if (graph.node(producer).is("Mul")) {
    if (const auto factor = ops::constant_scalar(graph, b)) {
      return {a, *factor};
    }
    if (const auto factor = ops::constant_scalar(graph, a)) {
      return {b, *factor};
    }
  } else if (graph.node(producer).is("Div")) {
    if (const auto factor = ops::constant_scalar(graph, b); factor && *factor != 0.0) {
      return {a, 1.0 / *factor};
    }
  }
  return {id, 1.0};
}

// The operand of an Add that is not `one`, when the other is.
ValueId added_to(const Graph& graph, ValueId sum, ValueId one) {
  const NodeId add = producer_of(graph, sum, "Add");
  return add.valid() && ops::is_numpy_broadcast(graph, add) ? other_input(graph, add, one) : ValueId{};
}

bool is_cube(const Graph& graph, ValueId id, ValueId x) {
  if (const NodeId pow = producer_of(graph, id, "Pow"); pow.valid()) {
    return graph.input(pow, 0) == x && ops::constant_scalar(graph, graph.input(pow, 1)) == 3.0;
  }
  const NodeId mul = producer_of(graph, id, "Mul");
  const ValueId square = mul.valid() ? other_input(graph, mul, x) : ValueId{};
  const NodeId inner = square.valid() ? producer_of(graph, square, "Mul") : NodeId{};
  return inner.valid() && graph.input(inner, 0) == x && graph.input(inner, 1) == x;
}

// The x of the argument of the Erf or Tanh.
ValueId match_argument(const Graph& graph, NodeId id) {
  const Scaled inner = unscale(graph, graph.input(id, 0));
  if (graph.node(id).is("Erf")) {
    return near(inner.factor, 1.0 / std::sqrt(2.0)) ? inner.value : ValueId{};
  }
  const NodeId add = producer_of(graph, inner.value, "Add");
  if (!add.valid() || !near(inner.factor, std::sqrt(2.0 / std::acos(-1.0)))) {
    return {};
  }
  for (std::size_t i = 0; i < 2; ++i) {
    const ValueId x = graph.input(add, i);
    const Scaled cubic = unscale(graph, added_to(graph, inner.value, x));
    if (near(cubic.factor, 0.044715) && is_cube(graph, cubic.value, x)) {
      return x;
    }
  }
  return {};
}

// Follows 1 + f(x) through the products with x and 1/2; the last value, or an invalid id.
ValueId match_products(const Graph& graph, NodeId id, ValueId x) {
  const NodeId add = sole_reader(graph, graph.output(id));
  if (!add.valid() || !graph.node(add).is("Add") ||
      ops::constant_scalar(graph, other_input(graph, add, graph.output(id))) != 1.0) {
    return {};
  }
  ValueId value = graph.output(add);
  double factor = 1.0;
  bool with_x = false;
  for (int step = 0; step < 3; ++step) {
    const NodeId next = sole_reader(graph, value);
    if (!next.valid() || !ops::is_numpy_broadcast(graph, next)) {
      return {};
    }
    const ValueId other = other_input(graph, next, value);
    const auto constant = other.valid() ? ops::constant_scalar(graph, other) : std::nullopt;
    if (graph.node(next).is("Mul") && constant) {
      factor *= *constant;
    } else if (graph.node(next).is("Div") && graph.input(next, 0) == value && constant && *constant != 0.0) {
      factor /= *constant;
    } else if (graph.node(next).is("Mul") && other.valid() && !with_x) {
      const Scaled scaled = other == x ? Scaled{x, 1.0} : unscale(graph, other);
      if (scaled.value != x) {
        return {};
      }
      factor *= scaled.factor;
      with_x = true;
    } else {
      return {};
    }
    value = graph.output(next);
    if (with_x && near(factor, 0.5)) {
      return same_shape(graph, value, x) ? value : ValueId{};
    }
  }
  return {};
}

}  // namespace

PassResult gelu(Graph& graph, const PassContext& context) {
  PassResult result;
  if (context.opset < 20 || !context.lossy_rounding) {
    return result;
  }
  for (const NodeId id : graph.nodes()) {
    const bool erf = graph.node(id).is("Erf");
    if (!erf && !graph.node(id).is("Tanh")) {
      continue;
    }
    const ValueId x = match_argument(graph, id);
    const ValueId y = x.valid() ? match_products(graph, id, x) : ValueId{};
    if (!y.valid() || !ops::is_arithmetic_float(ops::element_of(graph, x))) {
      continue;
    }
    note(result, graph, id, erf ? "x/2 (1 + erf(x / sqrt(2))) -> Gelu" : "x/2 (1 + tanh(..)) -> Gelu, by tanh");
    substitute(graph, y,
               graph.add_node("Gelu", {x}, site(graph, id), {{"approximate", std::string(erf ? "none" : "tanh")}}));
  }
  return finish(graph, std::move(result));
}

}  // namespace tempera::pass
