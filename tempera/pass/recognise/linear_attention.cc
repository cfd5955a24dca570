#include "tempera/pass/recognise/linear_attention.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "tempera/ops/access.h"
#include "tempera/ops/builder.h"
#include "tempera/ops/einsum.h"
#include "tempera/pass/recognise/unit_norm.h"
#include "tempera/pass/rewrite.h"
#include "tempera/pass/weights.h"

namespace tempera::pass {
namespace {

using graph::Dims;
using graph::Graph;
using graph::NodeId;
using graph::Tensor;
using graph::ValueId;

// e^40 summed over 2^31 pixels and multiplied by activations stays far inside float32.
constexpr double kLargestLogit = 40.0;

// A 1x1 convolution with constant weights.
struct Projection {
  NodeId node;
  ValueId x;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::vector<double> weight;  // [rows, columns]
  std::vector<double> bias;    // [rows], or empty
};

struct LinearAttention {
  Projection q, k, v, out;
  Dims map;  // of x: 1, C, H, W
  std::int64_t heads = 0;
  std::int64_t depth = 0;
  std::int64_t pixels = 0;
  double scale = 1.0;
  std::int64_t memory = 0;
  std::vector<double> memory_k;  // [D, m]
  std::vector<double> memory_v;  // [D, m]

  [[nodiscard]] std::int64_t width() const { return heads * depth; }
};

bool all_are(const Dims& list, std::int64_t value) {
  return std::all_of(list.begin(), list.end(), [&](std::int64_t x) { return x == value; });
}

std::optional<Projection> match_projection(const Graph& graph, NodeId id) {
  if (!id.valid() || !graph.node(id).is("Conv")) {
    return std::nullopt;
  }
  const std::optional<Tensor> weight = graph.constant(graph.input(id, 1));
  const std::optional<ops::ConvForm> form = ops::conv_form(graph, id);
  if (!weight || weight->type() != graph::DataType::kFloat32 || weight->rank() != 4 || !form ||
      form->group != 1 || !all_are(form->kernel, 1) || !all_are(form->strides, 1) ||
      !all_are(form->pads_begin, 0) || !all_are(form->pads_end, 0)) {
    return std::nullopt;
  }
  Projection found{id, graph.input(id, 0), weight->dims()[0], weight->dims()[1], to_doubles(*weight), {}};
  if (graph.input(id, 2).valid()) {
    const std::optional<Tensor> bias = graph.constant(graph.input(id, 2));
    if (!bias) {
      return std::nullopt;
    }
    found.bias = to_doubles(*bias);
  }
  return found;
}

bool is_einsum(const Graph& graph, NodeId id, std::string_view equation) {
  if (!id.valid() || !graph.node(id).is("Einsum")) {
    return false;
  }
  const auto form = ops::parse_einsum(graph.attribute<std::string>(id, "equation", ""));
  return form && ops::same_contraction(*form, equation);
}

// The projection behind `id` [1, h, d, n], through a Reshape and with constant columns in front of it or not.
std::optional<Projection> match_columns(const Graph& graph, ValueId id, const LinearAttention& a,
                                        std::vector<double>* memory) {
  if (const NodeId concat = sole_producer(graph, id, "Concat"); concat.valid() && memory != nullptr) {
    const std::optional<std::int64_t> rank = ops::rank_of(graph, id);
    const std::optional<Tensor> columns = graph.constant(graph.input(concat, 0));
    const std::int64_t axis = graph.attribute<std::int64_t>(concat, "axis", 0);
    if (graph.node(concat).inputs.size() != 2 || rank != 4 || ops::normalize_axis(axis, 4) != 3 || !columns ||
        columns->type() != graph::DataType::kFloat32 || columns->rank() != 4 || columns->dims()[0] != 1 ||
        columns->dims()[1] != a.heads || columns->dims()[2] != a.depth) {
      return std::nullopt;
    }
    *memory = to_doubles(*columns);
    id = graph.input(concat, 1);
  }
  const NodeId reshape = sole_producer(graph, id, "Reshape");
  if (!reshape.valid() || ops::dims_of(graph, id) != Dims{1, a.heads, a.depth, a.pixels} ||
      !graph.has_single_use(graph.input(reshape, 0))) {
    return std::nullopt;
  }
  std::optional<Projection> found = match_projection(graph, graph.producer(graph.input(reshape, 0)));
  return found && found->rows == a.width() ? found : std::nullopt;
}

// softmax over d, times a number or divided by one.
NodeId match_scaled_softmax(const Graph& graph, ValueId id, double& scale) {
  const NodeId product = graph.producer(id);
  if (product.valid() && graph.has_single_use(id) &&
      (graph.node(product).is("Mul") || graph.node(product).is("Div"))) {
    const bool division = graph.node(product).is("Div");
    const std::size_t fixed = !division && graph.constant(graph.input(product, 0)).has_value() ? 0 : 1;
    const std::optional<double> number = ops::constant_scalar(graph, graph.input(product, fixed));
    if (!number || !std::isfinite(*number) || *number == 0.0) {
      return {};
    }
    scale = division ? 1.0 / *number : *number;
    id = graph.input(product, 1 - fixed);
  }
  return sole_producer(graph, id, "Softmax");
}

std::optional<LinearAttention> match(const Graph& graph, NodeId mix, const PassContext& context) {
  if (!is_einsum(graph, mix, "bhde,bhdn->bhen")) {
    return std::nullopt;
  }
  LinearAttention a;
  const NodeId sum = sole_producer(graph, graph.input(mix, 0), "Einsum");
  const NodeId soft_q = match_scaled_softmax(graph, graph.input(mix, 1), a.scale);
  const NodeId reshape = sole_reader(graph, graph.output(mix));
  const std::optional<Dims> mixed = ops::dims_of(graph, graph.output(mix));
  if (!is_einsum(graph, sum, "bhdn,bhen->bhde") || !soft_q.valid() || !reshape.valid() ||
      !graph.node(reshape).is("Reshape") || !mixed || mixed->size() != 4 || mixed->at(0) != 1) {
    return std::nullopt;
  }
  const NodeId soft_k = sole_producer(graph, graph.input(sum, 0), "Softmax");
  const auto projection = match_projection(graph, sole_reader(graph, graph.output(reshape)));
  if (!soft_k.valid() || ops::axis_of(graph, soft_k, context.opset) != 3 ||
      ops::axis_of(graph, soft_q, context.opset) != 2 || !projection ||
      projection->x != graph.output(reshape)) {
    return std::nullopt;
  }
  a.out = *projection;
  a.heads = mixed->at(1);
  a.depth = mixed->at(2);
  a.pixels = mixed->at(3);
  const auto q = match_columns(graph, graph.input(soft_q, 0), a, nullptr);
  const auto k = match_columns(graph, graph.input(soft_k, 0), a, &a.memory_k);
  const auto v = match_columns(graph, graph.input(sum, 1), a, &a.memory_v);
  if (!q || !k || !v || q->x != k->x || q->x != v->x || a.out.columns != a.width() ||
      a.memory_k.size() != a.memory_v.size()) {
    return std::nullopt;
  }
  a.q = *q;
  a.k = *k;
  a.v = *v;
  a.memory = static_cast<std::int64_t>(a.memory_k.size()) / a.width();
  const std::optional<Dims> map = ops::dims_of(graph, a.q.x);
  if (!map || map->size() != 4 || map->at(0) != 1 || map->at(2) * map->at(3) != a.pixels ||
      ops::dims_of(graph, graph.output(reshape)) != Dims{1, a.width(), map->at(2), map->at(3)}) {
    return std::nullopt;
  }
  a.map = *map;
  return a;
}

// Why Exp without the largest logit subtracted might overflow, or the rewrite cost more than it saves; empty
// when neither.
std::string reason_against(const Graph& graph, const LinearAttention& a) {
  if (ops::element_of(graph, a.q.x) != graph::DataType::kFloat32) {
    return "only float32 has the range for exponentials without their maximum";
  }
  if (a.width() * (a.k.columns + a.out.rows) > 2 * a.depth * a.pixels) {
    return fmt::format("{} pixels are too few for the matrices that the heads become", a.pixels);
  }
  const std::optional<std::vector<double>> scale = unit_norm_scale(graph, a.k.x);
  if (!scale) {
    return "the input is not seen to be divided by its norm, so the logits have no bound";
  }
  double largest = 0.0;
  for (std::int64_t row = 0; row < a.k.rows; ++row) {
    double squares = 0.0;
    for (std::int64_t c = 0; c < a.k.columns; ++c) {
      const double w =
          a.k.weight[static_cast<std::size_t>(row * a.k.columns + c)] * (*scale)[static_cast<std::size_t>(c)];
      squares += w * w;
    }
    const double bias = a.k.bias.empty() ? 0.0 : std::abs(a.k.bias[static_cast<std::size_t>(row)]);
    largest = std::max(largest, std::sqrt(squares) + bias);
  }
  for (const double logit : a.memory_k) {
    largest = std::max(largest, std::abs(logit));
  }
  // Negated, so that NaN declines too.
  return !(largest <= kLargestLogit)
             ? fmt::format("the logits may reach {:.3g}, more than {:g}", largest, kLargestLogit)
             : "";
}

// The constants that are computed; what only changes shape is made on the spot.
struct Constants {
  Tensor out_weight;       // scale W_o [O, D]
  Tensor memory_sums;      // sum of exp(m_k) over the memory [1, D]
  Tensor memory_products;  // MASK * (m_v exp(m_k)^T) [D, D]
};

// Nothing when one of them leaves float32.
std::optional<Constants> make_constants(const LinearAttention& a) {
  const auto width = static_cast<std::size_t>(a.width());
  const auto depth = static_cast<std::size_t>(a.depth);
  const auto memory = static_cast<std::size_t>(a.memory);
  std::vector<double> scaled = a.out.weight;
  std::transform(scaled.begin(), scaled.end(), scaled.begin(), [&](double w) { return w * a.scale; });
  std::vector<double> sums(width, 0.0);
  std::vector<double> products(width * width, 0.0);
  for (std::size_t d = 0; d < width; ++d) {
    const std::size_t head = d / depth * depth;
    for (std::size_t m = 0; m < memory; ++m) {
      const double weight = std::exp(a.memory_k[d * memory + m]);
      sums[d] += weight;
      for (std::size_t e = head; e < head + depth; ++e) {
        products[e * width + d] += a.memory_v[e * memory + m] * weight;
      }
    }
  }
  const auto encode = [](Dims dims, const std::vector<double>& values) {
    return encode_weights(graph::DataType::kFloat32, std::move(dims), values);
  };
  const std::int64_t size = a.width();
  auto out_weight = encode({a.out.rows, size}, scaled);
  auto memory_sums = encode({1, size}, sums);
  auto memory_products = encode({size, size}, products);
  if (!out_weight || !memory_sums || !memory_products) {
    return std::nullopt;
  }
  return Constants{std::move(*out_weight), std::move(*memory_sums), std::move(*memory_products)};
}

// MASK: block diagonal, blocks of ones.
Tensor head_mask(std::int64_t heads, std::int64_t depth) {
  const std::int64_t width = heads * depth;
  Tensor::Writable mask = Tensor::allocate(graph::DataType::kFloat32, {width, width});
  const std::span<float> values = mask.values<float>();
  for (std::int64_t e = 0; e < width; ++e) {
    std::fill_n(values.begin() + e * width + e / depth * depth, depth, 1.0F);
  }
  return std::move(mask.tensor);
}

class Emitter {
 public:
  Emitter(Graph& graph, std::int64_t opset, const LinearAttention& a, const Constants& constants)
      : graph_(graph),
        a_(a),
        constants_(constants),
        build_(graph, opset, site(graph, a.out.node) + "_linear_attention") {}

  ValueId emit() {
    const std::int64_t width = a_.width();
    const ValueId weights = build_.node("MatMul", {build_.constant(constants_.out_weight), context_matrix()});
    std::vector<ValueId> inputs = {normalised_q(), build_.reshape(weights, {a_.out.rows, width, 1, 1})};
    if (!a_.out.bias.empty()) {
      inputs.push_back(graph_.input(a_.out.node, 2));
    }
    return build_.node("Conv", std::move(inputs), {{"kernel_shape", std::vector<std::int64_t>{1, 1}}},
                       graph_.value(graph_.output(a_.out.node)).type);
  }

 private:
  graph::ValueType map_type() {
    return graph::ValueType::tensor(graph::DataType::kFloat32,
                                    graph::shape_of({1, a_.width(), a_.map[2], a_.map[3]}));
  }

  ValueId project(const Projection& projection) {
    return build_.node("Conv", graph_.node(projection.node).inputs, graph_.node(projection.node).attributes,
                       map_type());
  }

  // Pixels as rows: OpenVINO's convolutions leave them so, and the Transpose costs nothing.
  ValueId rows(ValueId map, Dims dims) {
    return build_.reshape(build_.transpose(map, {0, 2, 3, 1}), std::move(dims));
  }

  ValueId normalised_q() {
    const ValueId by_head = rows(project(a_.q), {1, a_.pixels * a_.heads, a_.depth});
    const ValueId soft =
        build_.node("Softmax", {by_head}, {{"axis", std::int64_t{-1}}}, graph_.value(by_head).type);
    return build_.transpose(build_.reshape(soft, {1, a_.map[2], a_.map[3], a_.width()}), {0, 3, 1, 2});
  }

  // Input number `i` of a projection, shaped as a matrix.
  ValueId matrix(const Projection& projection, std::size_t i, Dims dims) {
    return build_.constant(graph_.constant(graph_.input(projection.node, i))->reshaped(std::move(dims)));
  }

  // Z [D(e), D(d)].
  ValueId context_matrix() {
    const std::int64_t width = a_.width();
    const ValueId exponentials = build_.node("Exp", {project(a_.k)}, {}, map_type());
    const ValueId sums = build_.reshape(build_.reduce("ReduceSum", exponentials, {2, 3}, true), {1, width});
    const ValueId by_channel = build_.reshape(a_.v.x, {a_.map[1], a_.pixels});
    const ValueId gram = build_.node("MatMul", {by_channel, rows(exponentials, {a_.pixels, width})});
    ValueId products = build_.node("MatMul", {matrix(a_.v, 1, {width, a_.map[1]}), gram});
    if (!a_.v.bias.empty()) {
      products = build_.node("Add", {products, build_.node("Mul", {matrix(a_.v, 2, {width, 1}), sums})});
    }
    products = build_.node("Mul", {products, build_.constant(head_mask(a_.heads, a_.depth))});
    if (a_.memory == 0) {
      return build_.node("Div", {products, sums});
    }
    products = build_.node("Add", {products, build_.constant(constants_.memory_products)});
    return build_.node("Div",
                       {products, build_.node("Add", {sums, build_.constant(constants_.memory_sums)})});
  }

  Graph& graph_;
  const LinearAttention& a_;
  const Constants& constants_;
  ops::Builder build_;
};

}  // namespace

PassResult linear_attention(Graph& graph, const PassContext& context) {
  PassResult result;
  if (!context.lossy_rounding || context.target_engine != "openvino" || context.opset < 13) {
    return result;
  }
  for (const NodeId id : graph.nodes()) {
    if (!graph.alive(id)) {
      continue;
    }
    const std::optional<LinearAttention> found = match(graph, id, context);
    if (!found) {
      continue;
    }
    std::string reason = reason_against(graph, *found);
    std::optional<Constants> constants;
    if (reason.empty() && !(constants = make_constants(*found))) {
      reason = "a weight would leave float32";
    }
    if (!reason.empty()) {
      decline(result, graph, id, reason);
      continue;
    }
    note(
        result, graph, id,
        fmt::format(
            "linear attention of {} heads over {} pixels -> products of exponentials, and a convolution with "
            "computed weights",
            found->heads, found->pixels));
    const ValueId y = graph.output(found->out.node);
    substitute(graph, y, Emitter(graph, context.opset, *found, *constants).emit());
    graph.remove_dead();
  }
  return finish(graph, std::move(result));
}

}  // namespace tempera::pass
