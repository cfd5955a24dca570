#pragma once

#include <algorithm>
#include <initializer_list>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tempera/base/error.h"
#include "tempera/graph/model.h"
#include "tempera/numeric/convert.h"
#include "tempera/onnx/infer.h"
#include "tempera/onnx/text.h"
#include "tempera/pass/pass.h"

/// What the tests of passes share: graphs from text, and what must hold of every pass.
namespace tempera::pass::testing {

using PassFunction = PassResult (*)(graph::Graph&, const PassContext&);

/// Normal numbers rounded to the type; the same for the same seed.
inline graph::Tensor random_tensor(graph::DataType type, const graph::Dims& dims, std::uint64_t seed) {
  std::mt19937_64 generator(seed);
  std::normal_distribution<float> normal(0.0F, 1.0F);
  std::vector<float> values(static_cast<std::size_t>(graph::element_count(dims)));
  std::generate(values.begin(), values.end(), [&] { return normal(generator); });
  graph::Tensor::Writable made = graph::Tensor::allocate(type, dims);
  numeric::encode(type, values, made.bytes);
  return std::move(made.tensor);
}

/// Reads a graph in ONNX's text form. Inputs named in `weights` become initialisers of random numbers, so that a text may
/// say "float[8,4,1,1] w" instead of listing them.
inline graph::Model parse(std::string_view text, std::int64_t opset = 21,
                          const std::vector<std::string>& weights = {}) {
  graph::Model model = onnx::parse_graph(text, opset);
  graph::Graph& graph = model.graph;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const auto found = std::find_if(graph.inputs().begin(), graph.inputs().end(),
                                    [&](graph::ValueId id) { return graph.value(id).name == weights[i]; });
    if (found == graph.inputs().end()) {
      ADD_FAILURE() << "no input named " << weights[i];
      continue;
    }
    const graph::ValueId id = *found;
    const graph::ValueType type = graph.value(id).type;
    graph.remove_input(static_cast<std::size_t>(found - graph.inputs().begin()));
    graph.set_constant(id, random_tensor(type.element, type.dims().value(), 1000 + i));
  }
  onnx::infer_types(model);
  return model;
}

/// Runs both models in the reference engine on the same random inputs (symbolic sizes are 2, 3, ..) and expects equal outputs:
/// relative L2 within 1e-5 for float32, the type's own rounding for others, integers exactly. The same of every tensor whose
/// origin says that it holds the numbers of one in `before`.
void expect_equal_outputs(const graph::Model& before, const graph::Model& after, std::uint64_t seed);

/// Runs a pass and checks what holds for all: the graph stays valid and keeps its inputs and outputs, the ONNX checker
/// accepts it, a second run changes nothing, and what was rewritten computes the same (checked with two seeds).
inline PassResult run(PassFunction pass, graph::Model& model, PassContext context = {}) {
  context.opset = model.opset();
  const auto names = [&](const std::vector<graph::ValueId>& ids) {
    std::vector<std::string> list;
    for (const graph::ValueId id : ids) {
      list.push_back(model.graph.value(id).name);
    }
    return list;
  };
  const std::vector<std::string> inputs = names(model.graph.inputs());
  const std::vector<std::string> outputs = names(model.graph.outputs());
  const graph::Model before = model;
  PassResult result = pass(model.graph, context);
  try {
    graph::verify(model.graph);
    onnx::infer_types(model);
    onnx::check_model(model);
    EXPECT_EQ(names(model.graph.inputs()), inputs);
    EXPECT_EQ(names(model.graph.outputs()), outputs);
    const PassResult again = pass(model.graph, context);
    EXPECT_TRUE(again.rewrites.empty()) << "the second run still rewrites: " << again.rewrites.front().what;
    for (std::uint64_t seed = 1; seed <= 2 && !result.rewrites.empty(); ++seed) {
      expect_equal_outputs(before, model, seed);
    }
  } catch (const Error& error) {
    ADD_FAILURE() << error.text() << "\n" << onnx::print_text(model);
  }
  return result;
}

/// Expects that the pass leaves the graph alone, and gives the first reason it stated ("" for none).
inline std::string expect_untouched(PassFunction pass, graph::Model& model, PassContext context = {}) {
  const graph::Graph before = model.graph;
  const PassResult result = run(pass, model, context);
  EXPECT_TRUE(result.rewrites.empty()) << result.rewrites.front().site << ": " << result.rewrites.front().what;
  EXPECT_TRUE(graph::same_graph(before, model.graph));
  return result.skipped.empty() ? "" : result.skipped.front().reason;
}

/// Nodes of an operator in the main graph.
inline int count(const graph::Model& model, std::string_view op_type) {
  const std::vector<graph::NodeId> nodes = model.graph.nodes();
  return static_cast<int>(std::count_if(nodes.begin(), nodes.end(), [&](graph::NodeId id) {
    return model.graph.node(id).op_type == op_type;
  }));
}

/// The only node of an operator. Fails when there is none or more.
inline graph::NodeId only(const graph::Model& model, std::string_view op_type) {
  EXPECT_EQ(count(model, op_type), 1) << op_type << " in\n" << onnx::print_text(model);
  for (const graph::NodeId id : model.graph.nodes()) {
    if (model.graph.node(id).op_type == op_type) {
      return id;
    }
  }
  return {};
}

}  // namespace tempera::pass::testing
