#include "tempera/engine/compare.h"

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tempera/base/error.h"
#include "tempera/engine/openvino/openvino_engine.h"
#include "tempera/onnx/text.h"

namespace tempera::engine {
namespace {

using graph::Tensor;
using testing::ElementsAre;
using testing::IsEmpty;

const Engine& engine() {
  static const std::unique_ptr<Engine> instance = make_openvino_engine();
  return *instance;
}

constexpr const char* kModel =
    "g (float[2] x, float[2] s) => (float[2] y) "
    "<float[2] w = {1.0, 2.0}> { a = Neg(x) [mul] b = Mul(a, w) c = Sub(b, s) y = Exp(c) }";

class CompareTest : public testing::Test {
 protected:
  CompareReport run(const graph::Model& a, const graph::Model& b, CompareOptions options = {}) const {
    return compare({&a, &engine(), {}}, {&b, &engine(), {}}, samples_, options, {*log_, *progress_, {}});
  }

  static std::vector<std::string> names(const std::vector<Compared>& tensors) {
    std::vector<std::string> result;
    for (const Compared& tensor : tensors) {
      result.push_back(tensor.name);
    }
    return result;
  }

  static void set_weight(graph::Model& model, float first, float second) {
    model.graph.set_constant(model.graph.find_value("w").value(), Tensor::from<float>({2}, {first, second}));
  }

  // x, s of two samples
  std::vector<std::vector<Tensor>> samples_{{Tensor::from<float>({2}, {0, 0}), Tensor::from<float>({2}, {1, 1})},
                                            {Tensor::from<float>({2}, {1, 2}), Tensor::from<float>({2}, {0, 1})}};
  std::unique_ptr<Logger> log_ = make_null_logger();
  std::unique_ptr<Progress> progress_ = make_null_progress();
};

TEST_F(CompareTest, AModelEqualsItselfTensorByTensor) {
  const graph::Model model = onnx::parse_graph(kModel);
  const CompareReport report = run(model, model);
  EXPECT_THAT(names(report.outputs), ElementsAre("y"));
  EXPECT_THAT(names(report.tensors), ElementsAre("a", "b", "c", "y"));
  EXPECT_FALSE(report.diverges());
  EXPECT_THAT(report.only_a, IsEmpty());
  EXPECT_THAT(report.only_b, IsEmpty());
  for (const Compared& tensor : report.tensors) {
    ASSERT_EQ(tensor.samples.size(), 2U);
    EXPECT_EQ(tensor.mean_relative_l2(), 0.0);
  }
}

// With w = (1, 2.5) only the second sample shows it: b = -x w is (-1, -5) instead of (-1, -4), so 1 / sqrt(17).
TEST_F(CompareTest, TheFirstDivergenceIsNamed) {
  const graph::Model a = onnx::parse_graph(kModel);
  graph::Model b = a;
  set_weight(b, 1.0F, 2.5F);
  const CompareReport report = run(a, b);
  ASSERT_TRUE(report.first_divergence);
  const Compared& first = report.tensors.at(*report.first_divergence);
  EXPECT_EQ(first.name, "b");
  EXPECT_EQ(first.node, "mul");
  EXPECT_EQ(first.op_type, "Mul");
  EXPECT_EQ(first.worst_sample(), 1U);
  EXPECT_EQ(first.samples[0].relative_l2, 0.0);
  EXPECT_NEAR(first.samples[1].relative_l2, 0.24253562503633297, 1e-6);  // float32 inputs
  EXPECT_EQ(first.samples[1].worst_index, (graph::Dims{1}));
  EXPECT_TRUE(report.outputs[0].diverges);
}

TEST_F(CompareTest, ANaNOnOneSideDiverges) {
  const graph::Model a = onnx::parse_graph(kModel);
  graph::Model b = a;
  set_weight(b, 1.0F, std::numeric_limits<float>::infinity());  // 0 times infinity in the first sample
  CompareOptions options;
  options.tolerance = 1e9;
  const CompareReport report = run(a, b, options);
  ASSERT_TRUE(report.first_divergence);
  EXPECT_EQ(report.tensors[*report.first_divergence].name, "b");
  EXPECT_EQ(report.tensors[*report.first_divergence].samples[0].non_finite_pairs, 1);
}

// b computes b = x (-w) in one node: a is gone, the product stands for b, and what has no counterpart is listed.
TEST_F(CompareTest, ARewrittenGraphIsLinedUpByOrigin) {
  const graph::Model a = onnx::parse_graph(kModel);
  graph::Model b = onnx::parse_graph(
      "g (float[2] x, float[2] s) => (float[2] y) <float[2] w = {-1.0, -2.0}> "
      "{ h = Abs(w) v = Neg(h) p = Mul(x, v) c = Sub(p, s) y = Exp(c) }");
  b.graph.set_origin(b.graph.find_value("p").value(), {"b", true});
  b.graph.set_origin(b.graph.find_value("v").value(), {"a", false});
  b.graph.set_origin(b.graph.find_value("h").value(), {"gone", true});
  const CompareReport report = run(a, b);
  EXPECT_THAT(names(report.tensors), ElementsAre("b", "c", "y"));
  EXPECT_EQ(report.tensors[0].name_b, "p");
  EXPECT_THAT(report.derived, ElementsAre("v"));
  EXPECT_THAT(report.only_b, ElementsAre("h"));
  EXPECT_THAT(report.only_a, IsEmpty());
  EXPECT_FALSE(report.diverges());
}

TEST_F(CompareTest, BatchesChangeNothing) {
  const graph::Model a = onnx::parse_graph(kModel);
  graph::Model b = a;
  set_weight(b, 3.0F, 2.0F);
  CompareOptions options;
  options.batch_bytes = 1;
  const CompareReport small = run(a, b, options);
  const CompareReport large = run(a, b);
  EXPECT_EQ(names(small.tensors), names(large.tensors));
  EXPECT_EQ(small.first_divergence, large.first_divergence);
}

TEST_F(CompareTest, InputsAreMatchedByName) {
  const graph::Model a = onnx::parse_graph(kModel);
  const graph::Model b = onnx::parse_graph(
      "g (float[2] s, float[2] x) => (float[2] y) "
      "<float[2] w = {1.0, 2.0}> { a = Neg(x) b = Mul(a, w) c = Sub(b, s) y = Exp(c) }");
  EXPECT_FALSE(run(a, b).diverges());
}

TEST_F(CompareTest, WithoutInnerTensorsOnlyOutputsAreCompared) {
  const graph::Model a = onnx::parse_graph(kModel);
  graph::Model b = a;
  set_weight(b, 3.0F, 2.0F);
  CompareOptions options;
  options.tensors = false;
  const CompareReport report = run(a, b, options);
  EXPECT_THAT(report.tensors, IsEmpty());
  EXPECT_EQ(report.first_divergence, 0U);
}

TEST_F(CompareTest, WhatCannotBeComparedIsAnError) {
  const graph::Model a = onnx::parse_graph(kModel);
  const graph::Model other = onnx::parse_graph("g (float[2] x, float[2] s) => (float[2] z) { z = Add(x, s) }");
  EXPECT_THROW((void)run(a, other), Error);
  const graph::Model more = onnx::parse_graph("g (float[2] x, float[2] t) => (float[2] y) { y = Add(x, t) }");
  EXPECT_THROW((void)run(a, more), Error);
  samples_[1].pop_back();
  EXPECT_THROW((void)run(a, a), Error);
  samples_.clear();
  EXPECT_THROW((void)run(a, a), Error);
}

TEST_F(CompareTest, CanBeCancelled) {
  const graph::Model a = onnx::parse_graph(kModel);
  const CancelToken cancel;
  cancel.cancel();
  try {
    (void)compare({&a, &engine(), {}}, {&a, &engine(), {}}, samples_, {}, {*log_, *progress_, cancel});
    FAIL() << "expected an error";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kCancelled);
  }
}

}  // namespace
}  // namespace tempera::engine
