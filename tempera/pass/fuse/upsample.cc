#include "tempera/pass/fuse/upsample.h"

#include <algorithm>
#include <array>

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

constexpr std::int64_t kMostScale = 8;
constexpr std::int64_t kMostPhases = 64;  // output channels of the convolution before DepthToSpace

// Whether pixel j of the result is pixel floor(j / r) of the input, for every j: see the table of modes of ONNX Resize-11.
bool picks_floor(const Graph& graph, NodeId id, std::int64_t r) {
  if (graph.attribute<std::string>(id, "mode", "nearest") != "nearest" ||
      graph.attribute<std::int64_t>(id, "antialias", 0) != 0 || graph.has_attribute(id, "axes")) {
    return false;
  }
  const auto coordinates = graph.attribute<std::string>(id, "coordinate_transformation_mode", "half_pixel");
  const auto rounding = graph.attribute<std::string>(id, "nearest_mode", "round_prefer_floor");
  if (coordinates == "asymmetric") {  // j / r = i + a / r, and for r = 2 the half is rounded down
    return rounding == "floor" || (rounding == "round_prefer_floor" && r == 2);
  }
  if (coordinates == "half_pixel" || coordinates == "pytorch_half_pixel") {  // within half a pixel of i
    return rounding == "round_prefer_floor" || rounding == "round_prefer_ceil";
  }
  return false;
}

// The scale of height and width; 0 when they differ, vary or are no whole number.
std::int64_t scale_of(const Graph& graph, NodeId id) {
  std::vector<double> scales;
  if (const std::optional<Tensor> given = graph.constant(graph.input(id, 2)); given && given->size() == 4) {
    scales = to_doubles(*given);
  } else if (const auto sizes = ops::constant_ints(graph, graph.input(id, 3)); sizes && sizes->size() == 4) {
    for (std::int64_t axis = 0; axis < 4; ++axis) {
      const std::int64_t from = ops::dim_of(graph, graph.input(id, 0), axis).value_or(0);
      scales.push_back(from > 0 ? static_cast<double>((*sizes)[static_cast<std::size_t>(axis)]) /
                                      static_cast<double>(from)
                                : 0.0);
    }
  } else {
    return 0;
  }
  const auto r = static_cast<std::int64_t>(std::clamp(scales[2], 0.0, 1000.0));
  const bool plain = scales[0] == 1.0 && scales[1] == 1.0 && scales[2] == scales[3] &&
                     scales[2] == static_cast<double>(r) && r >= 2 && r <= kMostScale;
  return plain ? r : 0;
}

bool keeps_size(const ops::ConvForm& form) {
  const std::int64_t k = form.kernel.size() == 2 ? form.kernel[0] : 0;
  const Dims half(2, (k - 1) / 2);
  return k % 2 == 1 && form.kernel == Dims{k, k} && form.strides == Dims{1, 1} && form.dilations == Dims{1, 1} &&
         form.pads_begin == half && form.pads_end == half && form.group == 1 && form.auto_pad == "NOTSET";
}

std::int64_t floor_div(std::int64_t a, std::int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }

// The first form: W' [O r r, I, K, K] and how far it reaches before and after.
struct Phases {
  Tensor weight;
  std::int64_t before = 0;
  std::int64_t after = 0;
};

std::optional<Phases> phase_weights(const Tensor& weight, std::int64_t r) {
  const std::int64_t outputs = weight.dims()[0];
  const std::int64_t inputs = weight.dims()[1];
  const std::int64_t k = weight.dims()[2];
  const std::int64_t half = (k - 1) / 2;
  const std::int64_t low = floor_div(-half, r);
  const std::int64_t high = floor_div(r - 1 + half, r);
  const std::int64_t reach = high - low + 1;
  const std::vector<double> w = to_doubles(weight);
  std::vector<double> v(static_cast<std::size_t>(outputs * r * r * inputs * reach * reach), 0.0);
  for (std::int64_t o = 0; o < outputs; ++o) {
    for (std::int64_t phase = 0; phase < r * r; ++phase) {
      for (std::int64_t i = 0; i < inputs; ++i) {
        for (std::int64_t tap = 0; tap < k * k; ++tap) {
          const std::int64_t s = floor_div(phase / r + tap / k - half, r) - low;
          const std::int64_t t = floor_div(phase % r + tap % k - half, r) - low;
          v[static_cast<std::size_t>((((o * r * r + phase) * inputs + i) * reach + s) * reach + t)] +=
              w[static_cast<std::size_t>((o * inputs + i) * k * k + tap)];
        }
      }
    }
  }
  std::optional<Tensor> made = encode_weights(weight.type(), {outputs * r * r, inputs, reach, reach}, v);
  return made ? std::optional(Phases{std::move(*made), -low, high}) : std::nullopt;
}

// Each element `times` times in a row.
Tensor repeated(const Tensor& bias, std::int64_t times) {
  std::vector<double> values;
  for (const double value : to_doubles(bias)) {
    values.insert(values.end(), static_cast<std::size_t>(times), value);
  }
  return *encode_weights(bias.type(), {static_cast<std::int64_t>(values.size())}, values);
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

ValueId build_phases(Graph& graph, NodeId id, ValueId x, const Phases& phases, std::int64_t r) {
  std::vector<ValueId> inputs = {x, add_derived(graph, graph.input(id, 1), phases.weight)};
  if (const ValueId bias = graph.input(id, 2); bias.valid()) {
    inputs.push_back(add_derived(graph, bias, repeated(*graph.constant(bias), r * r)));
  }
  const std::int64_t reach = phases.weight.dims()[2];
  const Dims pads = {phases.before, phases.before, phases.after, phases.after};
  const ValueId low = graph.add_node("Conv", std::move(inputs), site(graph, id),
                                     {{"kernel_shape", Dims{reach, reach}}, {"pads", pads}});
  return graph.add_node("DepthToSpace", {low}, site(graph, id), {{"blocksize", r}, {"mode", std::string("CRD")}});
}

ValueId build_transposed(Graph& graph, NodeId id, ValueId x, Tensor weight) {
  std::vector<ValueId> inputs = graph.node(id).inputs;
  inputs[0] = x;
  inputs[1] = add_derived(graph, inputs[1], std::move(weight));
  return graph.add_node("ConvTranspose", std::move(inputs), site(graph, id),
                        {{"kernel_shape", Dims{4, 4}}, {"strides", Dims{2, 2}}, {"pads", Dims{1, 1, 1, 1}}});
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
    const std::int64_t r = resize.valid() ? scale_of(graph, resize) : 0;
    if (r == 0 || !picks_floor(graph, resize, r)) {
      continue;
    }
    if (const std::string reason = reason_kept(graph, graph.output(resize)); !reason.empty()) {
      decline(result, graph, id, reason);
      continue;
    }
    const std::optional<Tensor> weight = graph.constant(graph.input(id, 1));
    const std::optional<ops::ConvForm> form = ops::conv_form(graph, id);
    const ValueId bias = graph.input(id, 2);
    if (!weight || !ops::is_arithmetic_float(weight->type()) || weight->rank() != 4 || !form || !keeps_size(*form) ||
        (bias.valid() && !graph.constant(bias))) {
      decline(result, graph, id, "not a plain convolution of the same size with constant weights");
      continue;
    }
    const bool phased = weight->dims()[0] * r * r <= kMostPhases;
    if (!phased && (r != 2 || form->kernel[0] != 3)) {
      decline(result, graph, id, fmt::format("{} channels at scale {} are too many to shuffle", weight->dims()[0], r));
      continue;
    }
    const std::string out_of_range =
        fmt::format("the summed weights leave the range of {}", numeric::to_string(weight->type()));
    const ValueId x = graph.input(resize, 0);
    ValueId made;
    if (phased) {
      const std::optional<Phases> phases = phase_weights(*weight, r);
      if (!phases) {
        decline(result, graph, id, out_of_range);
        continue;
      }
      note(result, graph, id, "Resize + Conv -> Conv + DepthToSpace");
      made = build_phases(graph, id, x, *phases, r);
    } else {
      std::optional<Tensor> summed = transposed_weights(*weight);
      if (!summed) {
        decline(result, graph, id, out_of_range);
        continue;
      }
      note(result, graph, id, "Resize + Conv -> ConvTranspose");
      made = build_transposed(graph, id, x, std::move(*summed));
    }
    substitute(graph, graph.output(id), made);
  }
  return finish(graph, std::move(result));
}

}  // namespace tempera::pass
