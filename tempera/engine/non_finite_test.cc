#include "tempera/engine/non_finite.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tempera/base/error.h"
#include "tempera/engine/openvino/openvino_engine.h"
#include "tempera/onnx/text.h"

namespace tempera::engine {
namespace {

using graph::Tensor;
using testing::HasSubstr;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(FindNonFiniteTest, PrefersNaNAndKnowsItsPlace) {
  const Tensor tensor = Tensor::from<float>({2, 2}, {1, kInf, -kInf, kNan});
  const auto found = find_non_finite(tensor);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->index, (graph::Dims{1, 1}));
  EXPECT_TRUE(std::isnan(found->value));
  EXPECT_EQ(find_non_finite(Tensor::from<float>({3}, {0, -kInf, kInf}))->index, (graph::Dims{1}));
  EXPECT_FALSE(find_non_finite(Tensor::from<float>({2}, {0, std::numeric_limits<float>::max()})));
  EXPECT_FALSE(find_non_finite(Tensor::from<std::int64_t>({1}, {7})));
  EXPECT_FALSE(find_non_finite(Tensor::from<float>({0}, {})));
}

class TraceTest : public testing::Test {
 protected:
  std::vector<NonFiniteSource> trace(const char* text, std::vector<float> x) {
    model_ = onnx::parse_graph(text);
    side_ = {&model_, engine_.get(), {}};
    inputs_ = {Tensor::from<float>({static_cast<std::int64_t>(x.size())}, std::span<const float>(x))};
    return trace_non_finite(side_, inputs_, "y");
  }

  std::unique_ptr<Engine> engine_ = make_openvino_engine();
  graph::Model model_;
  Side side_;
  std::vector<Tensor> inputs_;
};

TEST_F(TraceTest, TheNodeThatMakesIt) {
  const auto sources = trace("g (float[2] x) => (float[2] y) { a = Abs(x) b = Neg(a) [root] c = Sqrt(b) y = Tanh(c) }", {0, 4});
  ASSERT_EQ(sources.size(), 1U);
  EXPECT_EQ(sources[0].node, "root");
  EXPECT_EQ(sources[0].op_type, "Sqrt");
  EXPECT_EQ(sources[0].tensor, "c");
  EXPECT_EQ(sources[0].element.index, (graph::Dims{1}));
}

// exp(100) leaves float32; the NaN comes of inf - inf two nodes later.
TEST_F(TraceTest, ANaNOfInfinitiesLeadsToTheInfinity) {
  const auto sources = trace("g (float[2] x) => (float[2] y) { a = Exp(x) b = Mul(a, x) d = Sub(a, b) y = Neg(d) }", {1, 100});
  ASSERT_EQ(sources.size(), 2U);
  EXPECT_EQ(sources[0].node, "a");
  EXPECT_EQ(sources[0].element.value, kInf);
  EXPECT_EQ(sources[1].node, "d");
  EXPECT_TRUE(std::isnan(sources[1].element.value));
}

// The infinity of a mask is a constant and meant; what divides by zero behind it is not.
TEST_F(TraceTest, InfiniteConstantsAreNoSource) {
  const auto sources = trace(
      "g (float[2] x) => (float[2] y) <float[2] mask = {-inf, 0.0}> "
      "{ a = Add(x, mask) b = Exp(a) y = Div(x, b) }",
      {1, 1});
  ASSERT_EQ(sources.size(), 1U);
  EXPECT_EQ(sources[0].op_type, "Div");
}

TEST_F(TraceTest, BranchesThatTheOutputDoesNotReadAreIgnored) {
  const auto sources = trace(
      "g (float[1] x) => (float[1] y, float[1] z) { a = Log(x) z = Identity(a) b = Sub(x, x) [here] y = Reciprocal(b) }", {-1});
  ASSERT_EQ(sources.size(), 1U);
  EXPECT_EQ(sources[0].node, "here");
}

TEST_F(TraceTest, TheErrorNamesOutputElementAndNode) {
  (void)trace("g (float[2] x) => (float[2] y) { b = Neg(x) [root] c = Sqrt(b) y = Tanh(c) }", {0, 4});
  const auto session = engine_->compile(model_, {});
  const auto outputs = session->run(inputs_);
  try {
    require_finite_outputs(side_, inputs_, session->outputs(), outputs);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kEngineFailed);
    EXPECT_THAT(error.what(), HasSubstr("output 'y' is"));
    EXPECT_THAT(error.what(), HasSubstr("element [1]"));
    EXPECT_THAT(error.what(), HasSubstr("node 'root' (Sqrt)"));
  }
  const std::vector<Tensor> fine = {Tensor::from<float>({2}, {0, 1})};
  EXPECT_NO_THROW(require_finite_outputs(side_, inputs_, session->outputs(), fine));
}

}  // namespace
}  // namespace tempera::engine
