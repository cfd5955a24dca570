#include "tempera/pass/layout/merge_gemms.h"

#include <map>
#include <tuple>
#include <vector>

#include <fmt/format.h>

#include "tempera/ops/access.h"
#include "tempera/ops/builder.h"
#include "tempera/pass/origins.h"
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

// What Gemms must share: x, transB, alpha, beta and the type.
using Key = std::tuple<ValueId, bool, float, float, DataType>;

struct Product {
  NodeId node;
  Tensor weight;
  std::int64_t columns = 0;
  std::vector<double> bias;  // empty: none
};

// The Gemms that multiply a row by constants, under what they share.
std::map<Key, std::vector<Product>> find_products(const Graph& graph) {
  std::map<Key, std::vector<Product>> found;
  for (const NodeId id : graph.nodes()) {
    const std::optional<Tensor> weight = graph.node(id).is("Gemm") ? graph.constant(graph.input(id, 1)) : std::nullopt;
    const ValueId x = graph.input(id, 0);
    if (!weight || weight->rank() != 2 || !ops::is_arithmetic_float(weight->type()) || graph.constant(x) ||
        graph.attribute<std::int64_t>(id, "transA", 0) != 0 || ops::dim_of(graph, x, 0) != 1) {
      continue;
    }
    const bool turned = graph.attribute<std::int64_t>(id, "transB", 0) != 0;
    Product product{id, *weight, weight->dims()[turned ? 0 : 1], {}};
    if (const ValueId bias = graph.input(id, 2); bias.valid()) {
      const std::optional<Tensor> tensor = graph.constant(bias);
      const auto spread = tensor ? spread_along(*tensor, 2, 1, product.columns) : std::nullopt;
      if (!spread) {
        continue;
      }
      product.bias = *spread;
    }
    if (product.columns > 0) {
      found[{x, turned, graph.attribute<float>(id, "alpha", 1.0F), graph.attribute<float>(id, "beta", 1.0F),
             weight->type()}]
          .push_back(std::move(product));
    }
  }
  return found;
}

// The pieces that a product's columns end in: itself, or those of the Split that alone reads it.
void add_pieces(const Graph& graph, const Product& product, std::vector<ValueId>& values, Dims& sizes) {
  const ValueId y = graph.output(product.node);
  const NodeId reader = sole_reader(graph, y);
  const auto form = reader.valid() && graph.node(reader).is("Split") ? ops::split_form(graph, reader) : std::nullopt;
  if (form && form->axis == 1) {
    for (std::size_t i = 0; i < form->sizes.size(); ++i) {
      values.push_back(graph.output(reader, i));
      sizes.push_back(form->sizes[i]);
    }
    return;
  }
  values.push_back(y);
  sizes.push_back(product.columns);
}

std::optional<Tensor> joined_bias(DataType type, const std::vector<Product>& products) {
  std::vector<double> all;
  bool any = false;
  for (const Product& product : products) {
    any = any || !product.bias.empty();
    all.insert(all.end(), product.bias.begin(), product.bias.end());
    all.resize(all.size() + (product.bias.empty() ? static_cast<std::size_t>(product.columns) : 0), 0.0);
  }
  return any ? encode_weights(type, {static_cast<std::int64_t>(all.size())}, all) : std::nullopt;
}

void merge(Graph& graph, const Key& key, const std::vector<Product>& products, const PassContext& context) {
  const auto& [x, turned, alpha, beta, type] = key;
  std::vector<Tensor> weights;
  std::vector<ValueId> pieces;
  Dims sizes;
  std::int64_t columns = 0;
  for (const Product& product : products) {
    weights.push_back(product.weight);
    columns += product.columns;
    add_pieces(graph, product, pieces, sizes);
  }
  const NodeId first = products.front().node;
  ops::Builder build(graph, context.opset, site(graph, first) + "_merged");
  std::vector<ValueId> inputs = {x, add_derived(graph, graph.input(first, 1), concat_tensors(weights, turned ? 0 : 1))};
  if (std::optional<Tensor> bias = joined_bias(type, products)) {
    inputs.push_back(build.constant(std::move(*bias)));
  } else if (context.opset < 11) {
    inputs.push_back(build.scalar(0.0, type));  // the bias was not optional
  }
  const ValueId y = build.node("Gemm", std::move(inputs),
                               {{"transB", std::int64_t{turned ? 1 : 0}}, {"alpha", alpha}, {"beta", beta}},
                               graph::ValueType::tensor(type, graph::Shape{1, columns}));
  const std::vector<ValueId> made = build.split(y, 1, sizes);
  for (std::size_t i = 0; i < made.size(); ++i) {
    if (pieces[i].valid()) {
      substitute(graph, pieces[i], made[i]);
    }
  }
}

}  // namespace

PassResult merge_gemms(Graph& graph, const PassContext& context) {
  PassResult result;
  if (!context.lossy_rounding || context.opset < 7) {
    return result;
  }
  for (const auto& [key, products] : find_products(graph)) {
    if (products.size() < 2) {
      continue;
    }
    note(result, graph, products.front().node, fmt::format("{} Gemms of one row -> Gemm + Split", products.size()));
    merge(graph, key, products, context);
  }
  return finish(graph, std::move(result));
}

}  // namespace tempera::pass
