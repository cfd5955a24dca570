#include "tempera/pass/fuse/channel_affine.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "tempera/ops/access.h"
#include "tempera/pass/origins.h"
#include "tempera/pass/rewrite.h"
#include "tempera/pass/weights.h"

namespace tempera::pass {
namespace {

using graph::Dims;
using graph::Graph;
using graph::NodeId;
using graph::Tensor;
using graph::ValueId;

bool float_constant(const Graph& graph, ValueId id) {
  const std::optional<Tensor> tensor = graph.constant(id);
  return tensor && ops::is_arithmetic_float(tensor->type());
}

// Output channels of a ConvTranspose weight [C, M/G, k...].
struct Grouped {
  std::int64_t group = 1;
  std::int64_t inputs = 0;   // C
  std::int64_t outputs = 0;  // M / G
};

// scale of element i of the weight, by the operator's layout.
void scale_weight(const Graph& graph, const ScalableNode& target, const Dims& dims, const std::vector<double>& scale,
                  std::vector<double>& values) {
  const graph::Node& node = graph.node(target.node);
  if (node.is("Conv")) {
    const std::size_t row = values.size() / scale.size();
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] *= scale[i / row];
    }
  } else if (node.is("ConvTranspose")) {
    const Grouped g{graph.attribute<std::int64_t>(target.node, "group", 1), dims[0], dims[1]};
    const std::size_t kernel = values.size() / static_cast<std::size_t>(g.inputs * g.outputs);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto at = static_cast<std::int64_t>(i / kernel);
      const std::int64_t group = (at / g.outputs) / (g.inputs / g.group);
      values[i] *= scale[static_cast<std::size_t>(group * g.outputs + at % g.outputs)];
    }
  } else {
    const bool rows = node.is("Gemm") && graph.attribute<std::int64_t>(target.node, "transB", 0) != 0;
    const auto columns = static_cast<std::size_t>(dims[1]);
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] *= scale[rows ? i / columns : i % columns];
    }
  }
}

// The bias spread over the channels, times the Gemm's beta; zeros when there is none.
std::optional<std::vector<double>> bias_of(const Graph& graph, const ScalableNode& target) {
  const ValueId id = graph.input(target.node, 2);
  if (!target.takes_shift || !id.valid()) {
    return std::vector<double>(static_cast<std::size_t>(target.channels), 0.0);
  }
  const std::optional<Tensor> tensor = graph.constant(id);
  std::optional<std::vector<double>> bias;
  if (tensor && graph.node(target.node).is("Gemm")) {
    bias = spread_along(*tensor, 2, 1, target.channels);
    for (double& value : *bias) {
      value *= graph.attribute<float>(target.node, "beta", 1.0F);
    }
  } else if (tensor) {
    bias = to_doubles(*tensor);
  }
  return bias;
}

}  // namespace

std::optional<ScalableNode> match_scalable(const Graph& graph, NodeId id) {
  const graph::Node& node = graph.node(id);
  const bool conv = node.is("Conv");
  const bool transposed = node.is("ConvTranspose");
  const bool gemm = node.is("Gemm");
  if ((!conv && !transposed && !gemm && !node.is("MatMul")) || !float_constant(graph, graph.input(id, 1))) {
    return std::nullopt;
  }
  const Dims dims = graph.constant(graph.input(id, 1))->dims();
  ScalableNode found;
  found.node = id;
  const std::int64_t group = graph.attribute<std::int64_t>(id, "group", 1);
  if (conv || transposed) {
    if (dims.size() < 3 || group < 1 || (transposed && (dims[0] % group != 0 || dims[0] == 0))) {
      return std::nullopt;
    }
    found.rank = static_cast<std::int64_t>(dims.size());
    found.axis = 1;
    found.channels = conv ? dims[0] : dims[1] * group;
  } else if (gemm) {
    if (dims.size() != 2) {
      return std::nullopt;
    }
    found.rank = 2;
    found.axis = 1;
    found.channels = dims[graph.attribute<std::int64_t>(id, "transB", 0) != 0 ? 0 : 1];
  } else {
    const std::optional<std::int64_t> rank = ops::rank_of(graph, graph.output(id));
    if (dims.size() != 2 || !rank || *rank < 2) {
      return std::nullopt;
    }
    found.rank = *rank;
    found.axis = *rank - 1;
    found.channels = dims[1];
    found.takes_shift = false;
  }
  if (found.channels == 0) {
    return std::nullopt;
  }
  const ValueId bias = graph.input(id, 2);
  if (found.takes_shift && bias.valid()) {
    if (!float_constant(graph, bias)) {
      return std::nullopt;
    }
    const Tensor tensor = *graph.constant(bias);
    if (gemm ? !spread_along(tensor, 2, 1, found.channels).has_value() : tensor.size() != found.channels) {
      return std::nullopt;
    }
  }
  return found;
}

std::string apply_affine(Graph& graph, const ScalableNode& target, const ChannelAffine& affine) {
  const NodeId id = target.node;
  const bool shifts = std::any_of(affine.shift.begin(), affine.shift.end(), [](double s) { return s != 0.0; });
  const bool scales = std::any_of(affine.scale.begin(), affine.scale.end(), [](double s) { return s != 1.0; });
  if (shifts && !target.takes_shift) {
    return "a MatMul has no bias";
  }
  const Tensor weight = *graph.constant(graph.input(id, 1));
  const ValueId old_bias = target.takes_shift ? graph.input(id, 2) : ValueId{};
  std::optional<Tensor> new_weight;
  if (scales) {
    std::vector<double> values = to_doubles(weight);
    scale_weight(graph, target, weight.dims(), affine.scale, values);
    new_weight = encode_weights(weight.type(), weight.dims(), values);
    if (!new_weight) {
      return fmt::format("the scaled weights leave the range of {}", numeric::to_string(weight.type()));
    }
  }
  std::optional<Tensor> new_bias;
  if (shifts || (old_bias.valid() && scales)) {
    std::vector<double> bias = *bias_of(graph, target);
    for (std::size_t c = 0; c < bias.size(); ++c) {
      bias[c] = affine.scale[c] * bias[c] + affine.shift[c];
    }
    new_bias = encode_weights(weight.type(), {target.channels}, bias);
    if (!new_bias) {
      return fmt::format("the new bias leaves the range of {}", numeric::to_string(weight.type()));
    }
  }
  if (new_weight) {
    graph.set_input(id, 1, add_derived(graph, graph.input(id, 1), std::move(*new_weight)));
  }
  if (new_bias) {
    graph.set_input(id, 2, old_bias.valid() ? add_derived(graph, old_bias, std::move(*new_bias))
                                            : graph.add_initializer(site(graph, id) + "_bias", std::move(*new_bias)));
    if (graph.has_attribute(id, "beta")) {
      graph.remove_attribute(id, "beta");  // it is in the new bias
    }
  }
  return {};
}

namespace {

std::optional<ChannelAffine> match_batch_norm(const Graph& graph, NodeId id, std::int64_t axis,
                                              std::int64_t channels) {
  if (axis != 1 || ops::is_training(graph, id) || graph.attribute<std::int64_t>(id, "spatial", 1) == 0) {
    return std::nullopt;
  }
  std::vector<double> terms[4];
  for (std::size_t i = 0; i < 4; ++i) {
    const std::optional<Tensor> tensor = graph.constant(graph.input(id, i + 1));
    if (!tensor || tensor->size() != channels || !ops::is_arithmetic_float(tensor->type())) {
      return std::nullopt;
    }
    terms[i] = to_doubles(*tensor);
  }
  const double epsilon = graph.attribute<float>(id, "epsilon", 1e-5F);
  ChannelAffine affine;
  for (std::size_t c = 0; c < static_cast<std::size_t>(channels); ++c) {
    const double scale = terms[0][c] / std::sqrt(terms[3][c] + epsilon);
    if (!std::isfinite(scale)) {
      return std::nullopt;
    }
    affine.scale.push_back(scale);
    affine.shift.push_back(terms[1][c] - scale * terms[2][c]);
  }
  return affine;
}

}  // namespace

std::optional<ChannelAffine> match_affine(const Graph& graph, NodeId id, ValueId x, std::int64_t rank,
                                          std::int64_t axis, std::int64_t channels) {
  const graph::Node& node = graph.node(id);
  if (node.is("BatchNormalization")) {
    return graph.input(id, 0) == x ? match_batch_norm(graph, id, axis, channels) : std::nullopt;
  }
  const bool left = graph.input(id, 0) == x;
  const bool mul = node.is("Mul");
  const bool div = node.is("Div");
  const bool add = node.is("Add");
  const bool sub = node.is("Sub");
  if ((!mul && !div && !add && !sub) || (div && !left) || !ops::is_numpy_broadcast(graph, id)) {
    return std::nullopt;
  }
  const std::optional<Tensor> tensor = graph.constant(other_input(graph, id, x));
  const auto values = tensor && ops::is_arithmetic_float(tensor->type())
                          ? spread_along(*tensor, rank, axis, channels)
                          : std::nullopt;
  if (!values) {
    return std::nullopt;
  }
  ChannelAffine affine{std::vector<double>(values->size(), 1.0), std::vector<double>(values->size(), 0.0)};
  for (std::size_t c = 0; c < values->size(); ++c) {
    const double value = (*values)[c];
    if (!std::isfinite(value) || (div && value == 0.0)) {
      return std::nullopt;
    }
    if (mul) {
      affine.scale[c] = value;
    } else if (div) {
      affine.scale[c] = 1.0 / value;
    } else {
      affine.scale[c] = sub && !left ? -1.0 : 1.0;
      affine.shift[c] = sub && left ? -value : value;
    }
  }
  return affine;
}

}  // namespace tempera::pass
