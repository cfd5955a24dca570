#include "tempera/pass/fuse/upsample.h"

#include <array>

#include <fmt/format.h>

#include "tempera/ops/access.h"
#include "tempera/pass/rewrite.h"
#include "tempera/pass/weights.h"

namespace tempera::pass {
namespace {

using graph::Dims;
using graph::Graph;
using graph::NodeId;
using graph::Tensor;
using graph::ValueId;

// Whether pixel j of the result is pixel floor(j / 2) of the input, for every j: see the table of modes of ONNX Resize-11.
bool picks_half_index(const Graph& graph, NodeId id) {
  if (graph.attribute<std::string>(id, "mode", "nearest") != "nearest" ||
      graph.attribute<std::int64_t>(id, "antialias", 0) != 0 || graph.has_attribute(id, "axes")) {
    return false;
  }
  const auto coordinates = graph.attribute<std::string>(id, "coordinate_transformation_mode", "half_pixel");
  const auto rounding = graph.attribute<std::string>(id, "nearest_mode", "round_prefer_floor");
  if (coordinates == "asymmetric") {  // j / 2 = i or i + 0.5
    return rounding == "floor" || rounding == "round_prefer_floor";
  }
  if (coordinates == "half_pixel" || coordinates == "pytorch_half_pixel") {  // j / 2 - 0.25 = i - 0.25 or i + 0.25
    return rounding == "round_prefer_floor" || rounding == "round_prefer_ceil";
  }
  return false;
}

bool doubles(const Graph& graph, NodeId id) {
  if (const std::optional<Tensor> scales = graph.constant(graph.input(id, 2)); scales && scales->size() == 4) {
    return to_doubles(*scales) == std::vector<double>{1.0, 1.0, 2.0, 2.0};
  }
  const auto from = ops::dims_of(graph, graph.input(id, 0));
  const auto to = ops::dims_of(graph, graph.output(id));
  return graph.input(id, 3).valid() && from && to && from->size() == 4 && (*to)[0] == (*from)[0] &&
         (*to)[1] == (*from)[1] && (*to)[2] == 2 * (*from)[2] && (*to)[3] == 2 * (*from)[3];
}

bool is_plain_3x3(const ops::ConvForm& form) {
  return form.kernel == Dims{3, 3} && form.strides == Dims{1, 1} && form.dilations == Dims{1, 1} &&
         form.pads_begin == Dims{1, 1} && form.pads_end == Dims{1, 1} && form.group == 1 && form.auto_pad == "NOTSET";
}

// W [O,I,3,3] -> V [I,O,4,4].
std::optional<Tensor> transposed_weights(const Tensor& weight) {
  constexpr std::array<std::array<double, 3>, 4> kA = {{{0, 0, 1}, {0, 1, 1}, {1, 1, 0}, {1, 0, 0}}};
  const auto outputs = static_cast<std::size_t>(weight.dims()[0]);
  const auto inputs = static_cast<std::size_t>(weight.dims()[1]);
  const std::vector<double> w = to_doubles(weight);
  std::vector<double> v(inputs * outputs * 16, 0.0);
  for (std::size_t o = 0; o < outputs; ++o) {
    for (std::size_t i = 0; i < inputs; ++i) {
      const double* from = &w[(o * inputs + i) * 9];
      double* to = &v[(i * outputs + o) * 16];
      for (std::size_t a = 0; a < 4; ++a) {
        for (std::size_t b = 0; b < 4; ++b) {
          for (std::size_t k = 0; k < 3; ++k) {
            for (std::size_t l = 0; l < 3; ++l) {
              to[a * 4 + b] += kA[a][k] * kA[b][l] * from[k * 3 + l];
            }
          }
        }
      }
    }
  }
  return encode_weights(weight.type(), {weight.dims()[1], weight.dims()[0], 4, 4}, v);
}

}  // namespace

PassResult fuse_upsample(Graph& graph, const PassContext& context) {
  PassResult result;
  if (context.target_engine != "openvino" || !context.lossy_rounding || context.opset < 11) {
    return result;
  }
  for (const NodeId id : graph.nodes()) {
    if (!graph.node(id).is("Conv")) {
      continue;
    }
    const NodeId resize = producer_of(graph, graph.input(id, 0), "Resize");
    if (!resize.valid() || !picks_half_index(graph, resize) || !doubles(graph, resize)) {
      continue;
    }
    if (const std::string reason = reason_kept(graph, graph.output(resize)); !reason.empty()) {
      decline(result, graph, id, reason);
      continue;
    }
    const std::optional<Tensor> weight = graph.constant(graph.input(id, 1));
    const std::optional<ops::ConvForm> form = ops::conv_form(graph, id);
    if (!weight || !ops::is_arithmetic_float(weight->type()) || weight->rank() != 4 || !form || !is_plain_3x3(*form)) {
      decline(result, graph, id, "not a plain 3x3 convolution with constant weights");
      continue;
    }
    std::optional<Tensor> summed = transposed_weights(*weight);
    if (!summed) {
      decline(result, graph, id, fmt::format("the sums leave the range of {}", numeric::to_string(weight->type())));
      continue;
    }
    note(result, graph, id, "Resize + Conv -> ConvTranspose");
    std::vector<ValueId> inputs = graph.node(id).inputs;
    inputs[0] = graph.input(resize, 0);
    inputs[1] = graph.add_initializer(graph.value(inputs[1]).name, std::move(*summed));
    const ValueId out = graph.add_node(
        "ConvTranspose", std::move(inputs), site(graph, id),
        {{"kernel_shape", Dims{4, 4}}, {"strides", Dims{2, 2}}, {"pads", Dims{1, 1, 1, 1}}});
    substitute(graph, graph.output(id), out);
  }
  return finish(graph, std::move(result));
}

}  // namespace tempera::pass
