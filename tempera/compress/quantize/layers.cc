#include "tempera/compress/quantize/layers.h"

#include <optional>
#include <set>
#include <string_view>

#include <fmt/format.h>

#include "tempera/ops/access.h"
#include "tempera/ops/flops.h"
#include "tempera/ops/operators.h"

namespace tempera::compress {
namespace {

using graph::Dims;
using graph::Graph;
using graph::NodeId;
using graph::ValueId;

std::int64_t product(Dims::const_iterator begin, Dims::const_iterator end) {
  return graph::element_count(Dims(begin, end));
}

// The axis of `from` with as many elements before it and as many in it as `axis` of `to` has, so that
// row-major order makes them the same axis. Among axes that qualify (only those of size 1 can be several),
// the one that equals `axis` or else the first.
std::optional<std::int64_t> axis_before_reshape(const Dims& from, const Dims& to, std::int64_t axis) {
  const std::int64_t before = product(to.begin(), to.begin() + axis);
  const std::int64_t size = to[static_cast<std::size_t>(axis)];
  std::optional<std::int64_t> found;
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (from[i] == size && product(from.begin(), from.begin() + static_cast<std::ptrdiff_t>(i)) == before) {
      const auto here = static_cast<std::int64_t>(i);
      if (here == axis) {
        return here;
      }
      found = found.value_or(here);
    }
  }
  return found;
}

struct Root {
  ValueId value;
  std::int64_t channel_axis = 0;
  std::int64_t reduced_axis = 0;
};

// Follows a weight up to the constant it is made from, taking the axes along. Nothing when it varies, passes
// through another operator, or an axis does not survive a Reshape.
std::optional<Root> find_root(const Graph& graph, Root at) {
  while (!graph.constant(at.value)) {
    const NodeId producer = graph.producer(at.value);
    if (!producer.valid()) {
      return std::nullopt;
    }
    const graph::Node& node = graph.node(producer);
    const ValueId source = graph.input(producer, 0);
    if (node.is("Transpose")) {
      const std::optional<Dims> permutation = ops::permutation_of(graph, producer);
      if (!permutation) {
        return std::nullopt;
      }
      at.channel_axis = permutation->at(static_cast<std::size_t>(at.channel_axis));
      at.reduced_axis = permutation->at(static_cast<std::size_t>(at.reduced_axis));
    } else if (node.is("Reshape")) {
      const std::optional<Dims> from = ops::dims_of(graph, source);
      const std::optional<Dims> to = ops::dims_of(graph, at.value);
      const auto channel = from && to ? axis_before_reshape(*from, *to, at.channel_axis) : std::nullopt;
      const auto reduced = from && to ? axis_before_reshape(*from, *to, at.reduced_axis) : std::nullopt;
      if (!channel || !reduced || *channel == *reduced) {
        return std::nullopt;
      }
      at.channel_axis = *channel;
      at.reduced_axis = *reduced;
    } else if (!node.is("Identity")) {
      return std::nullopt;
    }
    at.value = source;
  }
  return at;
}

// Rank of a weight where it enters its node, from the value's type or the constant itself.
std::int64_t rank_of(const Graph& graph, ValueId id) {
  const auto constant = graph.constant(id);
  return constant ? constant->rank() : ops::rank_of(graph, id).value_or(0);
}

// Fills in the weight entering input `input` with these axes there. False when it is no float constant.
bool set_weight(const Graph& graph, std::size_t input, std::int64_t channel_axis, std::int64_t reduced_axis,
                Layer& layer) {
  const std::optional<Root> root =
      find_root(graph, {graph.input(layer.node, input), channel_axis, reduced_axis});
  if (!root || !ops::is_arithmetic_float(graph.constant(root->value)->type())) {
    return false;
  }
  layer.weight = root->value;
  layer.weight_input = input;
  layer.channel_axis = root->channel_axis;
  layer.reduced_axis = root->reduced_axis;
  return true;
}

void set_bias(const Graph& graph, Layer& layer) {
  const ValueId bias = graph.input(layer.node, 2);
  if (bias.valid() && graph.constant(bias)) {
    layer.bias = bias;
  }
}

bool is_convolution(const Graph& graph, Layer& layer) {
  const bool transposed = layer.op_type == "ConvTranspose";
  layer.input = graph.input(layer.node, 0);
  layer.group = graph.attribute<std::int64_t>(layer.node, "group", 1);
  set_bias(graph, layer);
  // [M, C/group, k...], transposed [C, M/group, k...]
  return rank_of(graph, graph.input(layer.node, 1)) >= 3 &&
         set_weight(graph, 1, transposed ? 1 : 0, transposed ? 0 : 1, layer);
}

// Of a matrix factor [.., rows, columns]: the axis that is summed over, and the one that is not.
struct FactorAxes {
  std::int64_t channel;
  std::int64_t reduced;
};
FactorAxes factor_axes(std::int64_t rank, bool left, bool transposed) {
  const bool reduced_is_last = left != transposed;
  return reduced_is_last ? FactorAxes{rank - 2, rank - 1} : FactorAxes{rank - 1, rank - 2};
}

// Values that may change from run to run: not made from constants alone.
std::set<ValueId> find_varying(const Graph& graph) {
  std::set<ValueId> varying;
  const auto varies = [&](ValueId id) {
    const graph::Value& value = graph.value(id);
    return varying.contains(id) || value.is_input || graph.is_capture(id);
  };
  for (const NodeId id : graph.nodes()) {
    const graph::Node& node = graph.node(id);
    bool any = !ops::is_pure(node);
    for (const ValueId input : node.inputs) {
      any = any || (input.valid() && varies(input));
    }
    graph::for_each_body(node, [&](const std::string&, const Graph&) { any = true; });
    for (const ValueId output : node.outputs) {
      if (any && output.valid()) {
        varying.insert(output);
      }
    }
  }
  varying.insert(graph.inputs().begin(), graph.inputs().end());
  return varying;
}

bool is_product(const Graph& graph, const std::set<ValueId>& varying, Layer& layer) {
  const bool gemm = layer.op_type == "Gemm";
  for (const std::size_t input : {std::size_t{1}, std::size_t{0}}) {
    const bool left = input == 0;
    const std::int64_t rank = rank_of(graph, graph.input(layer.node, input));
    if (rank < 2) {
      continue;
    }
    const bool transposed =
        gemm && graph.attribute<std::int64_t>(layer.node, left ? "transA" : "transB", 0) != 0;
    const FactorAxes axes = factor_axes(rank, left, transposed);
    if (set_weight(graph, input, axes.channel, axes.reduced, layer)) {
      layer.input = graph.input(layer.node, 1 - input);
      if (gemm) {
        set_bias(graph, layer);
      }
      return varying.contains(layer.input);
    }
  }
  layer.input = graph.input(layer.node, 0);
  layer.second = graph.input(layer.node, 1);
  const auto is_activation = [&](ValueId id) {
    return varying.contains(id) && ops::is_arithmetic_float(ops::element_of(graph, id));
  };
  return !gemm && is_activation(layer.input) && is_activation(layer.second);
}

}  // namespace

std::vector<Layer> find_layers(const graph::Graph& graph) {
  std::vector<Layer> layers;
  std::set<std::string, std::less<>> names;
  const std::set<ValueId> varying = find_varying(graph);
  for (const NodeId id : graph.nodes()) {
    const graph::Node& node = graph.node(id);
    const bool convolution = node.is("Conv") || node.is("ConvTranspose");
    if (!convolution && !node.is("Gemm") && !node.is("MatMul")) {
      continue;
    }
    Layer layer;
    layer.node = id;
    layer.op_type = node.op_type;
    if (convolution ? !is_convolution(graph, layer) : !is_product(graph, varying, layer)) {
      continue;
    }
    const std::string& output = graph.value(graph.output(id)).name;
    layer.name = node.name.empty() || names.contains(node.name) ? output : node.name;
    for (int n = 2; names.contains(layer.name); ++n) {
      layer.name = fmt::format("{}_{}", output, n);
    }
    names.insert(layer.name);
    layer.multiplications = ops::flops(graph, id).value_or(0) / 2;
    layers.push_back(std::move(layer));
  }
  return layers;
}

std::size_t count_layers_in_bodies(const Graph& graph) {
  std::size_t count = 0;
  graph::for_each_graph(graph, [&](const Graph& inner) {
    if (&inner == &graph) {
      return;
    }
    for (const NodeId id : inner.nodes()) {
      const graph::Node& node = inner.node(id);
      count += node.is("Conv") || node.is("ConvTranspose") || node.is("Gemm") || node.is("MatMul") ? 1U : 0U;
    }
  });
  return count;
}

}  // namespace tempera::compress
