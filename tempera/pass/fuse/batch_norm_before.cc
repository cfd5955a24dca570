#include "tempera/pass/fuse/batch_norm_before.h"

#include <algorithm>
#include <optional>
#include <string>
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

using graph::Graph;
using graph::NodeId;
using graph::Tensor;
using graph::ValueId;

// A node that multiplies x by constant weights. As W[m, c, k]: output m, input c of its group, place k in the kernel.
struct Linear {
  NodeId node;
  Tensor weight;
  std::int64_t rank = 0;      // of x
  std::int64_t channels = 0;  // of x
  std::int64_t outputs = 0;
  std::int64_t inputs = 0;  // of a group
  std::int64_t places = 1;
  bool output_first = true;  // else W[c, m]
  double alpha = 1.0;        // y = alpha W x + bias
  std::vector<double> bias;

  // Index in the weight of W[m, c, k].
  [[nodiscard]] std::size_t at(std::int64_t m, std::int64_t c, std::int64_t k) const {
    return static_cast<std::size_t>(output_first ? (m * inputs + c) * places + k : c * outputs + m);
  }
  // The channel of x that is input c of the group that makes output m.
  [[nodiscard]] std::size_t channel(std::int64_t m, std::int64_t c) const {
    const std::int64_t groups = channels / inputs;
    return static_cast<std::size_t>(m / (outputs / groups) * inputs + c);
  }
};

std::optional<Linear> match_linear(const Graph& graph, NodeId id) {
  const graph::Node& node = graph.node(id);
  const std::optional<Tensor> weight = graph.constant(graph.input(id, 1));
  const bool gemm = node.is("Gemm");
  if ((!gemm && !node.is("Conv")) || !weight || !ops::is_arithmetic_float(weight->type()) || weight->size() == 0) {
    return std::nullopt;
  }
  Linear linear;
  linear.node = id;
  linear.weight = *weight;
  linear.rank = weight->rank();
  double beta = 1.0;
  if (gemm) {
    if (linear.rank != 2 || graph.attribute<std::int64_t>(id, "transA", 0) != 0) {
      return std::nullopt;
    }
    linear.output_first = graph.attribute<std::int64_t>(id, "transB", 0) != 0;
    linear.outputs = weight->dims()[linear.output_first ? 0 : 1];
    linear.inputs = weight->dims()[linear.output_first ? 1 : 0];
    linear.channels = linear.inputs;
    linear.alpha = graph.attribute<float>(id, "alpha", 1.0F);
    beta = graph.attribute<float>(id, "beta", 1.0F);
  } else {
    const std::int64_t group = graph.attribute<std::int64_t>(id, "group", 1);
    if (linear.rank < 3 || group < 1 || weight->dims()[0] % group != 0) {
      return std::nullopt;
    }
    linear.outputs = weight->dims()[0];
    linear.inputs = weight->dims()[1];
    linear.channels = linear.inputs * group;
    linear.places = weight->size() / (linear.outputs * linear.inputs);
  }
  linear.bias.assign(static_cast<std::size_t>(linear.outputs), 0.0);
  if (const ValueId bias = graph.input(id, 2); bias.valid()) {
    const std::optional<Tensor> tensor = graph.constant(bias);
    const auto spread = tensor ? spread_along(*tensor, gemm ? 2 : 1, gemm ? 1 : 0, linear.outputs) : std::nullopt;
    if (!spread) {
      return std::nullopt;
    }
    std::transform(spread->begin(), spread->end(), linear.bias.begin(), [beta](double b) { return beta * b; });
  }
  return linear;
}

bool may_pad(const Graph& graph, NodeId id) {
  if (!graph.node(id).is("Conv")) {
    return false;
  }
  const std::optional<ops::ConvForm> form = ops::conv_form(graph, id);
  const auto none = [](const graph::Dims& pads) {
    return std::all_of(pads.begin(), pads.end(), [](std::int64_t p) { return p == 0; });
  };
  return !form || (form->auto_pad != "VALID" &&
                   (form->auto_pad != "NOTSET" || !none(form->pads_begin) || !none(form->pads_end)));
}

// \return why it cannot be; empty when done
std::string apply(Graph& graph, const Linear& linear, const ChannelAffine& affine) {
  std::vector<double> weights = to_doubles(linear.weight);
  std::vector<double> bias = linear.bias;
  for (std::int64_t m = 0; m < linear.outputs; ++m) {
    for (std::int64_t c = 0; c < linear.inputs; ++c) {
      const std::size_t channel = linear.channel(m, c);
      for (std::int64_t k = 0; k < linear.places; ++k) {
        double& w = weights[linear.at(m, c, k)];
        bias[static_cast<std::size_t>(m)] += linear.alpha * w * affine.shift[channel];
        w *= affine.scale[channel];
      }
    }
  }
  std::optional<Tensor> weight = encode_weights(linear.weight.type(), linear.weight.dims(), weights);
  std::optional<Tensor> shift = encode_weights(linear.weight.type(), {linear.outputs}, bias);
  if (!weight || !shift) {
    return fmt::format("the new weights leave the range of {}", numeric::to_string(linear.weight.type()));
  }
  const NodeId id = linear.node;
  const ValueId old_bias = graph.input(id, 2);
  graph.set_input(id, 1, add_derived(graph, graph.input(id, 1), std::move(*weight)));
  if (old_bias.valid() || std::any_of(bias.begin(), bias.end(), [](double b) { return b != 0.0; })) {
    graph.set_input(id, 2,
                    old_bias.valid() ? add_derived(graph, old_bias, std::move(*shift))
                                     : graph.add_initializer(site(graph, id) + "_bias", std::move(*shift)));
    if (graph.has_attribute(id, "beta")) {
      graph.remove_attribute(id, "beta");  // it is in the new bias
    }
  }
  return {};
}

// A BatchNormalization and the multiplying node that alone reads it.
struct Pair {
  NodeId norm;
  Linear linear;
  ChannelAffine affine;
};

std::optional<Pair> match_pair(const Graph& graph, NodeId id) {
  const ValueId middle = graph.input(id, 0);
  const NodeId norm = middle.valid() ? producer_of(graph, middle, "BatchNormalization") : NodeId{};
  std::optional<Linear> linear = norm.valid() ? match_linear(graph, id) : std::nullopt;
  std::optional<ChannelAffine> affine =
      linear ? match_affine(graph, norm, graph.input(norm, 0), linear->rank, 1, linear->channels) : std::nullopt;
  return affine ? std::optional(Pair{norm, *std::move(linear), *std::move(affine)}) : std::nullopt;
}

bool shifts(const ChannelAffine& affine) {
  return std::any_of(affine.shift.begin(), affine.shift.end(), [](double t) { return t != 0.0; });
}

void remove_norm(Graph& graph, const Pair& pair) {
  graph.set_input(pair.linear.node, 0, graph.input(pair.norm, 0));
  graph.erase(pair.norm);
}

// Along one axis of the output: which of few kinds each place is of, and for each kind which places of the kernel lie on
// the input.
struct BorderAxis {
  std::vector<std::int64_t> kinds;        // of each place of the output
  std::vector<std::vector<bool>> inside;  // of each kind, of each place of the kernel
};

BorderAxis border_axis(const ops::ConvForm& form, std::size_t axis, std::int64_t input, std::int64_t output) {
  BorderAxis border;
  for (std::int64_t place = 0; place < output; ++place) {
    std::vector<bool> inside;
    for (std::int64_t k = 0; k < form.kernel[axis]; ++k) {
      const std::int64_t at = place * form.strides[axis] - form.pads_begin[axis] + k * form.dilations[axis];
      inside.push_back(at >= 0 && at < input);
    }
    const auto known = std::find(border.inside.begin(), border.inside.end(), inside);
    border.kinds.push_back(known - border.inside.begin());
    if (known == border.inside.end()) {
      border.inside.push_back(std::move(inside));
    }
  }
  return border;
}

// The border along each spatial axis; nothing where a size is not known or the padding is the engine's to find.
std::vector<BorderAxis> match_border(const Graph& graph, NodeId conv) {
  const std::optional<ops::ConvForm> form = ops::conv_form(graph, conv);
  const auto input = ops::dims_of(graph, graph.input(conv, 0));
  const auto output = ops::dims_of(graph, graph.output(conv));
  std::vector<BorderAxis> border;
  if (!form || form->auto_pad != "NOTSET" || !input || !output) {
    return border;
  }
  for (std::size_t axis = 0; axis < form->kernel.size(); ++axis) {
    border.push_back(border_axis(*form, axis, input->at(axis + 2), output->at(axis + 2)));
  }
  return border;
}

// E of the header by kinds of places: [1, M, kinds along each axis].
Tensor border_tensor(const Linear& linear, const ChannelAffine& affine, const std::vector<BorderAxis>& border, bool& fits) {
  const std::vector<double> weights = to_doubles(linear.weight);
  std::vector<double> shares(static_cast<std::size_t>(linear.outputs * linear.places), 0.0);  // of m at k
  for (std::int64_t m = 0; m < linear.outputs; ++m) {
    for (std::int64_t c = 0; c < linear.inputs; ++c) {
      for (std::int64_t k = 0; k < linear.places; ++k) {
        shares[static_cast<std::size_t>(m * linear.places + k)] += weights[linear.at(m, c, k)] * affine.shift[linear.channel(m, c)];
      }
    }
  }
  graph::Dims dims = {1, linear.outputs};
  std::int64_t kinds = 1;
  for (const BorderAxis& axis : border) {
    dims.push_back(static_cast<std::int64_t>(axis.inside.size()));
    kinds *= dims.back();
  }
  const auto is_inside = [&](std::int64_t kind, std::int64_t k) {
    bool inside = true;
    for (std::size_t axis = border.size(); axis-- > 0;) {
      const auto count = static_cast<std::int64_t>(border[axis].inside.size());
      const auto size = static_cast<std::int64_t>(border[axis].inside.front().size());
      inside = inside && border[axis].inside[static_cast<std::size_t>(kind % count)][static_cast<std::size_t>(k % size)];
      kind /= count;
      k /= size;
    }
    return inside;
  };
  std::vector<double> values;
  for (std::int64_t m = 0; m < linear.outputs; ++m) {
    for (std::int64_t kind = 0; kind < kinds; ++kind) {
      double missing = 0.0;
      for (std::int64_t k = 0; k < linear.places; ++k) {
        missing += is_inside(kind, k) ? 0.0 : shares[static_cast<std::size_t>(m * linear.places + k)];
      }
      values.push_back(-missing);
    }
  }
  std::optional<Tensor> tensor = encode_weights(linear.weight.type(), dims, values);
  fits = tensor.has_value();
  return tensor.value_or(Tensor());
}

// Adds E to the output of the convolution.
void add_border(Graph& graph, NodeId conv, const std::vector<BorderAxis>& border, Tensor tensor, std::int64_t opset) {
  const ValueId output = graph.output(conv);
  ops::Builder builder(graph, opset, site(graph, conv) + "_border");
  ValueId spread = builder.constant(std::move(tensor));
  for (std::size_t axis = 0; axis < border.size(); ++axis) {
    if (border[axis].inside.size() > 1) {
      spread = builder.node("Gather", {spread, builder.ints(border[axis].kinds)}, {{"axis", static_cast<std::int64_t>(axis) + 2}});
    }
  }
  const ValueId sum = builder.node("Add", {spread, spread}, {}, graph.value(output).type);
  substitute(graph, output, sum);  // before the Add reads the output itself
  graph.set_input(graph.producer(sum), 0, output);
  no_longer_equal(graph, output);
}

}  // namespace

PassResult fuse_batch_norm_before(Graph& graph, const PassContext& context) {
  PassResult result;
  if (!context.lossy_rounding) {
    return result;
  }
  for (const NodeId id : graph.nodes()) {
    const std::optional<Pair> pair = match_pair(graph, id);
    if (!pair) {
      continue;
    }
    std::string reason = reason_kept(graph, graph.input(id, 0));
    if (reason.empty() && may_pad(graph, id) && shifts(pair->affine)) {
      reason = "the convolution pads with zeros, which the norm does not leave zero";
    }
    if (reason.empty()) {
      reason = apply(graph, pair->linear, pair->affine);
    }
    if (!reason.empty()) {
      decline(result, graph, id, reason);
      continue;
    }
    note(result, graph, id, fmt::format("BatchNormalization + {0} -> {0}", graph.node(id).op_type));
    remove_norm(graph, *pair);
  }
  return finish(graph, std::move(result));
}

PassResult fuse_batch_norm_padded(Graph& graph, const PassContext& context) {
  PassResult result;
  if (!context.lossy_rounding || context.opset < 7) {
    return result;
  }
  for (const NodeId id : graph.nodes()) {
    const std::optional<Pair> pair = match_pair(graph, id);
    if (!pair || !may_pad(graph, id) || !shifts(pair->affine)) {
      continue;
    }
    std::string reason = reason_kept(graph, graph.input(id, 0));
    const std::vector<BorderAxis> border = match_border(graph, id);
    if (reason.empty() && border.empty()) {
      reason = "the size of its input is not known, or its padding is left to the engine";
    }
    bool fits = true;
    Tensor tensor = reason.empty() ? border_tensor(pair->linear, pair->affine, border, fits) : Tensor();
    if (reason.empty()) {
      reason = fits ? apply(graph, pair->linear, pair->affine) : "the sums at the border leave the range of the weights' type";
    }
    if (!reason.empty()) {
      decline(result, graph, id, reason);
      continue;
    }
    note(result, graph, id, "BatchNormalization + Conv -> Conv + Add");
    remove_norm(graph, *pair);
    add_border(graph, id, border, std::move(tensor), context.opset);
  }
  return finish(graph, std::move(result));
}

}  // namespace tempera::pass
