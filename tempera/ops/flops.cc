#include "tempera/ops/flops.h"

#include <map>

#include "tempera/ops/access.h"
#include "tempera/ops/einsum.h"
#include "tempera/ops/operators.h"

namespace tempera::ops {
namespace {

// Products of dimensions; nothing on overflow, which only a hostile file reaches.
std::optional<std::int64_t> product(std::initializer_list<std::int64_t> factors) {
  std::int64_t result = 1;
  for (const std::int64_t factor : factors) {
    if (factor < 0 || __builtin_mul_overflow(result, factor, &result)) {
      return std::nullopt;
    }
  }
  return result;
}

std::optional<std::int64_t> count(const Dims& dims) {
  std::int64_t result = 1;
  for (const std::int64_t dim : dims) {
    const auto next = product({result, dim});
    if (!next.has_value()) {
      return std::nullopt;
    }
    result = *next;
  }
  return result;
}

// weight: [M, C/group, k...]: each output element takes C/group * k products.
std::optional<std::int64_t> convolution(const Graph& graph, NodeId id, std::size_t weight_input) {
  const auto weight = dims_of(graph, graph.input(id, weight_input));
  const auto out = dims_of(graph, graph.output(id));
  if (!weight || !out || weight->size() < 2) {
    return std::nullopt;
  }
  const auto kernel = count(Dims(weight->begin() + 1, weight->end()));
  const auto elements = count(*out);
  return kernel && elements ? product({2, *elements, *kernel}) : std::nullopt;
}

// weight: [C, M/group, k...]: each input element takes M/group * k products.
std::optional<std::int64_t> transposed_convolution(const Graph& graph, NodeId id) {
  const auto weight = dims_of(graph, graph.input(id, 1));
  const auto in = dims_of(graph, graph.input(id, 0));
  if (!weight || !in || weight->size() < 2) {
    return std::nullopt;
  }
  const auto kernel = count(Dims(weight->begin() + 1, weight->end()));
  const auto elements = count(*in);
  return kernel && elements ? product({2, *elements, *kernel}) : std::nullopt;
}

std::optional<std::int64_t> matrix_product(const Graph& graph, NodeId id) {
  const auto left = dims_of(graph, graph.input(id, 0));
  const auto out = dims_of(graph, graph.output(id));
  if (!left || !out || left->empty()) {
    return std::nullopt;
  }
  const auto elements = count(*out);
  return elements ? product({2, *elements, left->back()}) : std::nullopt;
}

std::optional<std::int64_t> gemm(const Graph& graph, NodeId id) {
  const auto left = dims_of(graph, graph.input(id, 0));
  const auto out = dims_of(graph, graph.output(id));
  if (!left || !out || left->size() != 2 || out->size() != 2) {
    return std::nullopt;
  }
  const std::int64_t depth = (*left)[graph.attribute<std::int64_t>(id, "transA", 0) != 0 ? 0 : 1];
  return product({2, (*out)[0], (*out)[1], depth});
}

std::optional<std::int64_t> einsum(const Graph& graph, NodeId id) {
  const auto form = parse_einsum(graph.attribute<std::string>(id, "equation", ""));
  if (!form || form->operands.size() != graph.node(id).inputs.size()) {
    return std::nullopt;
  }
  std::map<char, std::int64_t> sizes;
  for (std::size_t i = 0; i < form->operands.size(); ++i) {
    const auto dims = dims_of(graph, graph.input(id, i));
    if (!dims || dims->size() != form->operands[i].size()) {
      return std::nullopt;
    }
    for (std::size_t axis = 0; axis < dims->size(); ++axis) {
      std::int64_t& size = sizes[form->operands[i][axis]];
      size = std::max(size, (*dims)[axis]);
    }
  }
  std::int64_t result = form->operands.size() < 2 ? 0 : 2 * (static_cast<std::int64_t>(form->operands.size()) - 1);
  for (const auto& [label, size] : sizes) {
    const auto next = product({result, size});
    if (!next) {
      return std::nullopt;
    }
    result = *next;
  }
  return result;
}

// Q [B,H,L,E], K [B,H,S,E], V [B,H,S,F], or with the heads folded in the last axis: [B,L,H*E], [B,S,H*E], [B,S,H*F].
std::optional<std::int64_t> attention(const Graph& graph, NodeId id) {
  const auto q = dims_of(graph, graph.input(id, 0));
  const auto k = dims_of(graph, graph.input(id, 1));
  const auto out = dims_of(graph, graph.output(id));
  if (!q || !k || !out || q->size() < 3 || k->size() != q->size()) {
    return std::nullopt;
  }
  const auto queries = count(*q);
  const auto results = count(*out);
  const std::int64_t keys = (*k)[k->size() - 2];
  return queries && results ? product({2, *queries + *results, keys}) : std::nullopt;
}

// X [T,B,I], W [D, gates*H, I], R [D, gates*H, H].
std::optional<std::int64_t> recurrent(const Graph& graph, NodeId id) {
  const auto x = dims_of(graph, graph.input(id, 0));
  const auto w = dims_of(graph, graph.input(id, 1));
  const auto r = dims_of(graph, graph.input(id, 2));
  if (!x || !w || !r || x->size() != 3 || w->size() != 3 || r->size() != 3) {
    return std::nullopt;
  }
  return product({2, (*x)[0], (*x)[1], (*w)[0], (*w)[1], (*w)[2] + (*r)[2]});
}

}  // namespace

std::optional<std::int64_t> flops(const Graph& graph, NodeId id) {
  const graph::Node& node = graph.node(id);
  if (!has_trait(node, kMultiply)) {
    return 0;
  }
  const std::string_view type = node.op_type;
  if (type == "Conv" || type == "ConvInteger" || type == "DeformConv" || type == "CausalConvWithState") {
    return convolution(graph, id, 1);
  }
  if (type == "QLinearConv") {
    return convolution(graph, id, 3);
  }
  if (type == "ConvTranspose") {
    return transposed_convolution(graph, id);
  }
  if (type == "MatMul" || type == "MatMulInteger" || type == "QLinearMatMul") {
    return matrix_product(graph, id);
  }
  if (type == "Gemm") {
    return gemm(graph, id);
  }
  if (type == "Einsum") {
    return einsum(graph, id);
  }
  if (type == "Attention") {
    return attention(graph, id);
  }
  if (type == "LSTM" || type == "GRU" || type == "RNN") {
    return recurrent(graph, id);
  }
  return std::nullopt;
}

FlopCount count_flops(const Graph& graph) {
  FlopCount total;
  graph::for_each_graph(graph, [&](const Graph& inner) {
    for (const NodeId id : inner.nodes()) {
      const std::optional<std::int64_t> one = flops(inner, id);
      if (!one.has_value() || __builtin_add_overflow(total.flops, *one, &total.flops)) {
        ++total.unknown_nodes;
      }
    }
  });
  return total;
}

}  // namespace tempera::ops
