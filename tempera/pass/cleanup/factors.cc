#include "tempera/pass/cleanup/factors.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "tempera/ops/access.h"
#include "tempera/ops/operators.h"
#include "tempera/pass/rewrite.h"
#include "tempera/pass/weights.h"

namespace tempera::pass {
namespace {

using graph::Dims;
using graph::Graph;
using graph::NodeId;
using graph::Tensor;
using graph::ValueId;

// x times a constant.
struct Factor {
  ValueId x;
  Dims dims;
  std::vector<double> values;
};

std::optional<Factor> match_factor(const Graph& graph, NodeId id) {
  const graph::Node& node = graph.node(id);
  const bool div = node.is("Div");
  if ((!node.is("Mul") && !div) || !ops::is_numpy_broadcast(graph, id)) {
    return std::nullopt;
  }
  for (const std::size_t i : {1, 0}) {
    const std::optional<Tensor> constant = graph.constant(graph.input(id, i));
    const ValueId x = graph.input(id, 1 - i);
    if (!constant || (div && i == 0) || graph.constant(x) || !ops::is_arithmetic_float(constant->type())) {
      continue;
    }
    Factor factor{x, constant->dims(), to_doubles(*constant)};
    for (double& value : factor.values) {
      value = div ? 1.0 / value : value;
    }
    return factor;
  }
  return std::nullopt;
}

// The product of two constants of which one is a single number or both have one shape.
std::optional<Factor> multiply(const Factor& inner, const Factor& outer) {
  const Factor& wide = inner.values.size() > 1 ? inner : outer;
  const Factor& narrow = inner.values.size() > 1 ? outer : inner;
  if (wide.values.empty() || narrow.values.empty() ||
      (narrow.values.size() > 1 ? narrow.dims != wide.dims : narrow.dims.size() > wide.dims.size())) {
    return std::nullopt;
  }
  Factor product{inner.x, wide.dims, wide.values};
  for (std::size_t i = 0; i < product.values.size(); ++i) {
    product.values[i] *= narrow.values[narrow.values.size() > 1 ? i : 0];
  }
  return product;
}

// The type holds every number, and none but a zero becomes zero.
std::optional<Tensor> encode_factor(graph::DataType type, const Factor& factor) {
  if (!std::all_of(factor.values.begin(), factor.values.end(), [](double v) { return std::isfinite(v); })) {
    return std::nullopt;
  }
  std::optional<Tensor> tensor = encode_weights(type, factor.dims, factor.values);
  if (!tensor) {
    return std::nullopt;
  }
  const std::vector<double> rounded = to_doubles(*tensor);
  for (std::size_t i = 0; i < rounded.size(); ++i) {
    // Within a few units in the last place of a half: subnormal results lose more.
    if (std::abs(rounded[i] - factor.values[i]) > std::abs(factor.values[i]) / 128.0) {
      return std::nullopt;
    }
  }
  return tensor;
}

}  // namespace

PassResult merge_factors(Graph& graph, const PassContext& context) {
  PassResult result;
  if (!context.lossy_rounding) {
    return result;
  }
  for (const NodeId id : graph.nodes()) {
    const std::optional<Factor> outer = match_factor(graph, id);
    const NodeId first = outer ? graph.producer(outer->x) : NodeId{};
    const std::optional<Factor> inner = first.valid() ? match_factor(graph, first) : std::nullopt;
    if (!inner) {
      continue;
    }
    if (const std::string reason = reason_kept(graph, outer->x); !reason.empty()) {
      decline(result, graph, id, reason);
      continue;
    }
    const auto type = ops::element_of(graph, outer->x);
    const std::optional<Factor> product = multiply(*inner, *outer);
    const std::optional<Tensor> constant =
        product && ops::is_arithmetic_float(type) ? encode_factor(type, *product) : std::nullopt;
    if (!constant) {
      decline(result, graph, id, "the constants have different shapes, or their product leaves the type's range");
      continue;
    }
    note(result, graph, id, "two constant factors -> one");
    graph.set_operator(id, "Mul");
    graph.set_inputs(id, {product->x, graph.add_initializer(site(graph, id) + "_factor", *constant)});
    graph.erase(first);
  }
  return finish(graph, std::move(result));
}

PassResult drop_expand(Graph& graph, const PassContext&) {
  PassResult result;
  for (const NodeId id : graph.nodes()) {
    if (!graph.alive(id) || !ops::has_trait(graph.node(id), ops::kBroadcast) || !ops::is_numpy_broadcast(graph, id) ||
        graph.node(id).is("PRelu")) {
      continue;  // PRelu broadcasts one way only
    }
    const std::size_t operands = graph.node(id).inputs.size();
    for (std::size_t i = 0; i < operands; ++i) {
      const NodeId expand = producer_of(graph, graph.input(id, i), "Expand");
      if (!expand.valid()) {
        continue;
      }
      const ValueId small = graph.input(expand, 0);
      const auto rank = ops::rank_of(graph, small);
      const auto result_rank = ops::rank_of(graph, graph.output(id));
      bool carried = false;  // another operand, not this Expand itself, has the whole shape
      for (std::size_t k = 0; k < operands; ++k) {
        carried = carried || (k != i && graph.input(id, k) != graph.input(id, i) &&
                              same_shape(graph, graph.input(id, k), graph.output(id)));
      }
      if (!carried || !rank || !result_rank || *rank > *result_rank) {
        continue;
      }
      note(result, graph, id, fmt::format("Expand + {} -> {}", graph.node(id).op_type, graph.node(id).op_type));
      graph.set_input(id, i, small);
    }
  }
  return finish(graph, std::move(result));
}

}  // namespace tempera::pass
