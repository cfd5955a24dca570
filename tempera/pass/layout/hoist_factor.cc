#include "tempera/pass/layout/hoist_factor.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "tempera/ops/access.h"
#include "tempera/ops/builder.h"
#include "tempera/pass/fuse/channel_affine.h"
#include "tempera/pass/origins.h"
#include "tempera/pass/rewrite.h"
#include "tempera/pass/weights.h"

namespace tempera::pass {
namespace {

using graph::DataType;
using graph::Graph;
using graph::NodeId;
using graph::Tensor;
using graph::ValueId;

// y = x c.
struct Factor {
  NodeId node;
  ValueId x;
  double c = 1.0;
};

std::optional<Factor> match_factor(const Graph& graph, NodeId id) {
  const graph::Node& node = graph.node(id);
  const bool div = node.is("Div");
  if ((!node.is("Mul") && !div) || !ops::is_numpy_broadcast(graph, id)) {
    return std::nullopt;
  }
  for (const std::size_t i : {1U, 0U}) {
    const std::optional<Tensor> constant = graph.constant(graph.input(id, i));
    const ValueId x = graph.input(id, 1 - i);
    const std::optional<std::int64_t> rank = ops::rank_of(graph, x);
    if (!constant || constant->size() != 1 || !ops::is_arithmetic_float(constant->type()) || (div && i == 0) ||
        graph.constant(x) || !rank || constant->rank() > *rank) {
      continue;
    }
    const double number = to_doubles(*constant).front();
    const double c = div ? 1.0 / number : number;
    if (!std::isfinite(c) || c == 0.0 || (constant->type() == DataType::kFloat16 && std::abs(c) > 1.0)) {
      return std::nullopt;
    }
    return Factor{id, x, c};
  }
  return std::nullopt;
}

bool is_layout(const graph::Node& node) {
  static constexpr std::array kOps = {"Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten"};
  return std::any_of(kOps.begin(), kOps.end(), [&](std::string_view op) { return node.is(op); });
}

// A product of two values that vary.
bool is_product(const Graph& graph, NodeId id) {
  const graph::Node& node = graph.node(id);
  return (node.is("MatMul") || node.is("Einsum")) && node.inputs.size() == 2 && !graph.constant(node.inputs[0]) &&
         !graph.constant(node.inputs[1]);
}

// The input of an Add or Sub that varies, when the other is a constant.
std::optional<std::size_t> shifted_input(const Graph& graph, NodeId id) {
  const graph::Node& node = graph.node(id);
  if ((!node.is("Add") && !node.is("Sub")) || !ops::is_numpy_broadcast(graph, id)) {
    return std::nullopt;
  }
  const bool right = graph.constant(graph.input(id, 0)).has_value();
  return right != graph.constant(graph.input(id, 1)).has_value() ? std::optional<std::size_t>(right ? 1 : 0)
                                                                 : std::nullopt;
}

// The way from a value up to what can take a factor.
struct Path {
  std::vector<ValueId> values;  // whose numbers change, from the far end back
  std::vector<NodeId> shifts;   // their constants change too
  std::optional<ScalableNode> weights;
  std::optional<Factor> factor;  // where there are no weights

  [[nodiscard]] bool found() const { return weights || factor; }
};

// \param reason  set to why a value on the way must keep its numbers, when that is what ends the way
Path way_up(const Graph& graph, ValueId x, std::string& reason) {
  Path path;
  while (true) {
    const NodeId producer = graph.producer(x);
    if (!producer.valid()) {
      return path;
    }
    const bool product = is_product(graph, producer);
    const std::optional<std::size_t> shifted = shifted_input(graph, producer);
    const bool layout = is_layout(graph.node(producer));
    const std::optional<Factor> factor = match_factor(graph, producer);
    const std::optional<ScalableNode> weights = match_scalable(graph, producer);
    if (!product && !shifted && !layout && !factor && !weights) {
      return path;
    }
    if (const std::string kept = reason_kept(graph, x); !kept.empty()) {
      reason = kept;
      return path;
    }
    path.values.push_back(x);
    if (weights || factor) {
      path.weights = weights;
      path.factor = factor;
      return path;
    }
    if (product) {
      for (std::size_t side = 0; side < 2; ++side) {
        Path rest = way_up(graph, graph.input(producer, side), reason);
        if (rest.found()) {
          path.values.insert(path.values.end(), rest.values.begin(), rest.values.end());
          path.shifts.insert(path.shifts.end(), rest.shifts.begin(), rest.shifts.end());
          path.weights = rest.weights;
          path.factor = rest.factor;
          return path;
        }
      }
      return path;
    }
    if (shifted) {
      path.shifts.push_back(producer);
    }
    x = graph.input(producer, shifted.value_or(0));
  }
}

// The number as a constant that keeps the precision of its type; nothing when it would be infinite or subnormal.
std::optional<Tensor> number_tensor(DataType type, double number) {
  const std::optional<Tensor> made = encode_weights(type, {}, std::array{number});
  // 2^-7: more than the rounding of any of the types
  return made && std::abs(to_doubles(*made).front() - number) <= std::abs(number) / 128.0 ? made : std::nullopt;
}

std::size_t constant_input(const Graph& graph, NodeId id) { return graph.constant(graph.input(id, 0)) ? 0 : 1; }

// Multiplies the constants on the way by c. \return why that cannot be; empty when done
std::string apply(Graph& graph, const Path& path, double c) {
  std::vector<std::pair<NodeId, Tensor>> shifts;
  for (const NodeId id : path.shifts) {
    const Tensor old = *graph.constant(graph.input(id, constant_input(graph, id)));
    std::vector<double> values = to_doubles(old);
    std::transform(values.begin(), values.end(), values.begin(), [c](double v) { return c * v; });
    std::optional<Tensor> made = encode_weights(old.type(), old.dims(), values);
    if (!made) {
      return fmt::format("the scaled constant leaves the range of {}", numeric::to_string(old.type()));
    }
    shifts.emplace_back(id, std::move(*made));
  }
  if (path.weights) {
    const auto channels = static_cast<std::size_t>(path.weights->channels);
    const ChannelAffine affine{std::vector<double>(channels, c), std::vector<double>(channels, 0.0)};
    if (std::string reason = apply_affine(graph, *path.weights, affine); !reason.empty()) {
      return reason;
    }
  } else {
    const NodeId id = path.factor->node;
    const std::optional<Tensor> made = number_tensor(ops::element_of(graph, path.factor->x), path.factor->c * c);
    if (!made) {
      return "the product of two factors leaves the range of their type";
    }
    const ValueId old = graph.input(id, constant_input(graph, id));
    const ValueId number = add_derived(graph, old, *made);
    graph.set_operator(id, "Mul");
    graph.set_inputs(id, {path.factor->x, number});
  }
  for (const auto& [id, tensor] : shifts) {
    const std::size_t i = constant_input(graph, id);
    graph.set_input(id, i, add_derived(graph, graph.input(id, i), tensor));
  }
  for (const ValueId value : path.values) {
    no_longer_equal(graph, value);
  }
  return {};
}

std::string where_to(const Graph& graph, const Path& path) {
  return path.weights ? fmt::format("the weights of '{}'", site(graph, path.weights->node))
                      : fmt::format("the factor '{}'", site(graph, path.factor->node));
}

// The factor goes up the way that its own input came.
bool hoist(Graph& graph, const Factor& factor, PassResult& result, std::string& reason) {
  const Path path = way_up(graph, factor.x, reason);
  if (path.found()) {
    reason = apply(graph, path, factor.c);
  }
  if (!path.found() || !reason.empty()) {
    return false;
  }
  note(result, graph, factor.node, fmt::format("factor {:.4g} into {}", factor.c, where_to(graph, path)));
  const ValueId y = graph.output(factor.node);
  take_over_origin(graph, factor.x, y);
  substitute(graph, y, factor.x);
  graph.erase(factor.node);
  return true;
}

// The factor is on one side of a product (with layout steps between): it goes up the other side.
bool cross(Graph& graph, const Factor& factor, PassResult& result) {
  std::vector<ValueId> between;
  ValueId y = graph.output(factor.node);
  NodeId reader = sole_reader(graph, y);
  while (reader.valid() && is_layout(graph.node(reader)) && graph.input(reader, 0) == y) {
    y = graph.output(reader);
    between.push_back(y);
    reader = sole_reader(graph, y);
  }
  if (!reader.valid() || !is_product(graph, reader)) {
    return false;
  }
  std::string reason;
  const bool from_right = graph.input(reader, 1) == y;
  const Path path = way_up(graph, graph.input(reader, from_right ? 0 : 1), reason);
  // From left to right only when the factor disappears: two factors meet on the left.
  if (!path.found() || (!from_right && !path.weights) || !apply(graph, path, factor.c).empty()) {
    return false;
  }
  note(result, graph, factor.node,
       fmt::format("factor {:.4g} into {} on the other side of a product", factor.c, where_to(graph, path)));
  for (const ValueId value : between) {
    no_longer_equal(graph, value);
  }
  graph.replace_uses(graph.output(factor.node), factor.x);
  graph.erase(factor.node);
  return true;
}

// The factor behind a product goes to the side that has fewer elements than the product.
bool shrink(Graph& graph, const Factor& factor, const PassContext& context, PassResult& result) {
  const NodeId product = sole_producer(graph, factor.x, "MatMul");
  if (!product.valid() || !is_product(graph, product)) {
    return false;
  }
  const auto elements = [&](ValueId id) {
    const std::optional<graph::Dims> dims = ops::dims_of(graph, id);
    return dims && dims->size() >= 3 ? std::optional(graph::element_count(*dims)) : std::nullopt;
  };
  const auto all = elements(factor.x);
  const auto left = elements(graph.input(product, 0));
  const auto right = elements(graph.input(product, 1));
  if (!all || !left || !right || std::min(*left, *right) >= *all) {
    return false;
  }
  const std::size_t side = *right < *left ? 1 : 0;
  const ValueId operand = graph.input(product, side);
  const std::optional<Tensor> number = number_tensor(ops::element_of(graph, operand), factor.c);
  if (!number) {
    return false;
  }
  note(result, graph, factor.node,
       fmt::format("factor {:.4g} from {} elements to {}", factor.c, *all, std::min(*left, *right)));
  ops::Builder build(graph, context.opset, site(graph, factor.node));
  graph.set_input(product, side, build.node("Mul", {operand, build.constant(*number)}, {}, graph.value(operand).type));
  const ValueId y = graph.output(factor.node);
  take_over_origin(graph, factor.x, y);
  substitute(graph, y, factor.x);
  graph.erase(factor.node);
  return true;
}

}  // namespace

PassResult hoist_factor(Graph& graph, const PassContext& context) {
  PassResult result;
  if (!context.lossy_rounding || context.opset < 7) {
    return result;
  }
  for (const NodeId id : graph.nodes()) {
    const std::optional<Factor> factor = graph.alive(id) ? match_factor(graph, id) : std::nullopt;
    std::string reason;
    if (factor && !hoist(graph, *factor, result, reason) && !cross(graph, *factor, result) &&
        !shrink(graph, *factor, context, result) && !reason.empty()) {
      decline(result, graph, id, reason);
    }
  }
  return finish(graph, std::move(result));
}

}  // namespace tempera::pass
