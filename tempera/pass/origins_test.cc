#include "tempera/pass/origins.h"

#include <gtest/gtest.h>

#include "tempera/onnx/read.h"
#include "tempera/onnx/write.h"
#include "tempera/pass/runner.h"
#include "tempera/pass/testing.h"

namespace tempera::pass {
namespace {

using graph::Origin;
using graph::ValueId;

std::string origin_of(const graph::Graph& graph, ValueId id) {
  const std::optional<Origin>& origin = graph.value(id).origin;
  return !origin ? "none" : (origin->equal ? "= " : "from ") + origin->tensor;
}

std::string origin_of(const graph::Graph& graph, std::string_view name) {
  return origin_of(graph, graph.find_value(name).value());
}

TEST(Origins, WhatNoPassSaysIsDerivedFromTheFirstInputThatVaries) {
  graph::Model model = testing::parse("g (float[2] x) => (float[2] y) <float[2] w = {1.0, 2.0}> { y = Mul(x, w) }");
  graph::Graph& g = model.graph;
  const ValueId w = *g.find_value("w");
  const ValueId x = *g.find_value("x");
  const ValueId fresh = g.add_initializer("", graph::Tensor::from<float>({2}, {1, 1}));
  const ValueId from_input = g.add_node("Add", {w, x}, "p");
  const ValueId from_weight = g.add_node("Add", {fresh, w}, "q");
  const ValueId from_both = g.add_node("Add", {from_input, from_weight}, "r");
  const ValueId from_nothing = g.add_node("Neg", {fresh}, "s");
  derive_origins(g);
  EXPECT_EQ(origin_of(g, from_input), "from x");
  EXPECT_EQ(origin_of(g, from_weight), "from w");
  EXPECT_EQ(origin_of(g, from_both), "from x");
  EXPECT_EQ(origin_of(g, from_nothing), "none");
  EXPECT_EQ(origin_of(g, "y"), "= y");
}

// The convolution's own output c is gone: what bears its name after the fusion holds the numbers of n.
TEST(Origins, AFusedConvolutionStandsForTheNormalised) {
  graph::Model model = testing::parse(R"(
    g (float[1,3,8,8] x, float[4,3,3,3] w, float[4] s, float[4] b, float[4] m, float[4] v) => (float[1,4,6,6] y) {
      c = Conv(x, w) n = Mul(c, k) y = Relu(n) k = Constant <value_float = 2.0> () })",
                                      21, {"w", "s", "b", "m", "v"});
  const RunReport report = run_passes(model, {});
  ASSERT_GT(report.rewrites(), 0U);
  const graph::Graph& g = model.graph;
  const graph::NodeId conv = testing::only(model, "Conv");
  EXPECT_EQ(testing::count(model, "Mul"), 0);
  EXPECT_EQ(origin_of(g, g.output(conv)), "= n");
  EXPECT_EQ(origin_of(g, g.input(conv, 1)), "from w");
  EXPECT_EQ(origin_of(g, "y"), "= y");
}

// Split into three: each part stands for the piece it replaces, also once written and read back.
TEST(Origins, SurviveTheFile) {
  graph::Model model = testing::parse(R"(
    g (float[1,8,4,4] x, float[24,8,1,1] w) => (float[1,8,4,4] y) {
      c = Conv(x, w) q, k, v = Split <axis = 1, num_outputs = 3> (c) qk = Add(q, k) y = Mul(qk, v) })",
                                      21, {"w"});
  RunOptions options;
  options.context.target_engine = "openvino";
  run_passes(model, options);
  ASSERT_EQ(testing::count(model, "Conv"), 3) << onnx::print_text(model);
  const std::string bytes = onnx::serialize(model);
  const graph::Model again = onnx::read_model(std::as_bytes(std::span(bytes)));
  std::vector<std::string> stands_for;
  for (const graph::NodeId id : again.graph.nodes()) {
    if (again.graph.node(id).is("Conv")) {
      stands_for.push_back(origin_of(again.graph, again.graph.output(id)));
      EXPECT_EQ(origin_of(again.graph, again.graph.input(id, 1)), "from w");
    }
  }
  EXPECT_THAT(stands_for, ::testing::UnorderedElementsAre("= q", "= k", "= v"));
  EXPECT_EQ(origin_of(again.graph, "qk"), "= qk");
}

}  // namespace
}  // namespace tempera::pass
