#include "tempera/pass/recognise/layer_norm.h"

#include <algorithm>
#include <numeric>

#include "tempera/ops/access.h"
#include "tempera/ops/builder.h"
#include "tempera/pass/rewrite.h"
#include "tempera/pass/weights.h"

namespace tempera::pass {
namespace {

using graph::DataType;
using graph::Dims;
using graph::Graph;
using graph::NodeId;
using graph::Tensor;
using graph::ValueId;

// The first of the axes that a ReduceMean with keepdims takes, when they are the last ones; nothing otherwise.
std::optional<std::int64_t> mean_axis(const Graph& graph, NodeId id) {
  const auto rank = ops::rank_of(graph, graph.input(id, 0));
  const auto axes = ops::axes_of(graph, id);
  if (!rank || !axes || axes->empty() || !ops::keep_dims(graph, id) ||
      axes->back() - axes->front() + 1 != static_cast<std::int64_t>(axes->size()) || axes->back() != *rank - 1) {
    return std::nullopt;
  }
  return axes->front();
}

// The d of d d or d^2.
ValueId squared(const Graph& graph, ValueId id) {
  const NodeId producer = graph.producer(id);
  if (!producer.valid()) {
    return {};
  }
  const ValueId d = graph.input(producer, 0);
  if (graph.node(producer).is("Mul")) {
    return graph.input(producer, 1) == d ? d : ValueId{};
  }
  return graph.node(producer).is("Pow") && ops::constant_scalar(graph, graph.input(producer, 1)) == 2.0 ? d : ValueId{};
}

struct Deviation {
  ValueId d;  // what is squared
  std::int64_t axis = 0;
  double epsilon = 0.0;
};

// s = Sqrt(ReduceMean(d d) + eps).
std::optional<Deviation> match_deviation(const Graph& graph, ValueId s) {
  const NodeId root = sole_producer(graph, s, "Sqrt");
  const NodeId add = root.valid() ? sole_producer(graph, graph.input(root, 0), "Add") : NodeId{};
  if (!add.valid()) {
    return std::nullopt;
  }
  for (std::size_t i = 0; i < 2; ++i) {
    const NodeId mean = sole_producer(graph, graph.input(add, i), "ReduceMean");
    const auto epsilon = ops::constant_scalar(graph, graph.input(add, 1 - i));
    const auto axis = mean.valid() ? mean_axis(graph, mean) : std::nullopt;
    if (!axis || !epsilon || *epsilon < 0.0 || !graph.has_single_use(graph.input(mean, 0))) {
      continue;
    }
    if (const ValueId d = squared(graph, graph.input(mean, 0)); d.valid()) {
      return Deviation{d, *axis, *epsilon};
    }
  }
  return std::nullopt;
}

struct Normalized {
  Deviation deviation;
  ValueId y;  // d / s
};

// The node is d / s, or d times the Reciprocal of s.
std::optional<Normalized> match_normalized(const Graph& graph, NodeId id) {
  const graph::Node& node = graph.node(id);
  if (!ops::is_numpy_broadcast(graph, id)) {
    return std::nullopt;
  }
  if (node.is("Div")) {
    const auto deviation = match_deviation(graph, graph.input(id, 1));
    return deviation && deviation->d == graph.input(id, 0) ? std::optional(Normalized{*deviation, graph.output(id)})
                                                           : std::nullopt;
  }
  if (!node.is("Mul")) {
    return std::nullopt;
  }
  for (std::size_t i = 0; i < 2; ++i) {
    const ValueId factor = graph.input(id, i);
    NodeId inverse = sole_producer(graph, factor, "Reciprocal");
    ValueId s = inverse.valid() ? graph.input(inverse, 0) : ValueId{};
    if (inverse = sole_producer(graph, factor, "Div");
        inverse.valid() && ops::constant_scalar(graph, graph.input(inverse, 0)) == 1.0) {
      s = graph.input(inverse, 1);
    }
    const auto deviation = s.valid() ? match_deviation(graph, s) : std::nullopt;
    if (deviation && deviation->d == graph.input(id, 1 - i)) {
      return Normalized{*deviation, graph.output(id)};
    }
  }
  return std::nullopt;
}

// The sizes of the last axes from `axis` on; nothing when one is not fixed.
std::optional<Dims> last_dims(const Graph& graph, ValueId x, std::int64_t axis) {
  Dims dims;
  for (std::int64_t i = axis; i < ops::rank_of(graph, x).value_or(0); ++i) {
    const auto dim = ops::dim_of(graph, x, i);
    if (!dim) {
      return std::nullopt;
    }
    dims.push_back(*dim);
  }
  return dims;
}

// A following Mul or Add by a constant shaped like the normalised axes; moves `y` behind it and gives the constant.
ValueId take_constant(const Graph& graph, std::string_view op, const Dims& dims, DataType type, ValueId& y) {
  const NodeId next = sole_reader(graph, y);
  if (!next.valid() || !graph.node(next).is(op) || !ops::is_numpy_broadcast(graph, next)) {
    return {};
  }
  const ValueId other = other_input(graph, next, y);
  const std::optional<Tensor> constant = other.valid() ? graph.constant(other) : std::nullopt;
  if (!constant || constant->dims() != dims || constant->type() != type) {
    return {};
  }
  y = graph.output(next);
  return other;
}

bool supported(DataType type) {
  return type == DataType::kFloat32 || type == DataType::kFloat16 || type == DataType::kBfloat16;
}

}  // namespace

PassResult layer_norm(Graph& graph, const PassContext& context) {
  PassResult result;
  if (context.opset < 17 || !context.lossy_rounding) {
    return result;
  }
  for (const NodeId id : graph.nodes()) {
    const auto found = match_normalized(graph, id);
    if (!found) {
      continue;
    }
    const ValueId d = found->deviation.d;
    const NodeId center = producer_of(graph, d, "Sub");
    const NodeId mean = center.valid() ? producer_of(graph, graph.input(center, 1), "ReduceMean") : NodeId{};
    const ValueId x = mean.valid() ? graph.input(mean, 0) : ValueId{};
    if (!x.valid() || graph.input(center, 0) != x || mean_axis(graph, mean) != found->deviation.axis) {
      continue;
    }
    const DataType type = ops::element_of(graph, x);
    const auto dims = last_dims(graph, x, found->deviation.axis);
    if (!supported(type) || !dims) {
      decline(result, graph, id, "of a type whose statistics the operator would round, or of unknown size");
      continue;
    }
    // d is read by its square (once or twice) and by the division.
    if (graph.is_pinned(d) || graph.uses(d).size() > 3) {
      decline(result, graph, id, reason_kept(graph, d));
      continue;
    }
    ValueId y = found->y;
    ValueId gamma = take_constant(graph, "Mul", *dims, type, y);
    if (!gamma.valid()) {
      const std::vector<double> ones(static_cast<std::size_t>(graph::element_count(*dims)), 1.0);
      gamma = graph.add_initializer(site(graph, id) + "_ones", *encode_weights(type, *dims, ones));
    }
    std::vector<ValueId> inputs = {x, gamma};
    if (const ValueId beta = take_constant(graph, "Add", *dims, type, y); beta.valid()) {
      inputs.push_back(beta);
    }
    note(result, graph, id, "normalisation written out -> LayerNormalization");
    substitute(graph, y,
               graph.add_node("LayerNormalization", std::move(inputs), site(graph, id),
                              {{"axis", found->deviation.axis},
                               {"epsilon", static_cast<float>(found->deviation.epsilon)}}));
  }
  return finish(graph, std::move(result));
}

PassResult rms_norm(Graph& graph, const PassContext& context) {
  PassResult result;
  if (context.opset < 23 || !context.lossy_rounding) {
    return result;
  }
  for (const NodeId id : graph.nodes()) {
    const auto found = match_normalized(graph, id);
    if (!found) {
      continue;
    }
    const ValueId x = found->deviation.d;
    const DataType type = ops::element_of(graph, x);
    const auto dims = last_dims(graph, x, found->deviation.axis);
    ValueId y = found->y;
    const ValueId gamma = dims ? take_constant(graph, "Mul", *dims, type, y) : ValueId{};
    if (!supported(type) || !gamma.valid()) {
      decline(result, graph, id, "no constant scale of known size behind it, or of a type the operator would round");
      continue;
    }
    note(result, graph, id, "root mean square written out -> RMSNormalization");
    substitute(graph, y,
               graph.add_node("RMSNormalization", {x, gamma}, site(graph, id),
                              {{"axis", found->deviation.axis},
                               {"epsilon", static_cast<float>(found->deviation.epsilon)}}));
  }
  return finish(graph, std::move(result));
}

}  // namespace tempera::pass
