#include "tempera/pass/fuse/affine.h"

#include <cmath>

#include "tempera/pass/testing.h"

namespace tempera::pass {
namespace {

using graph::Tensor;
using testing::count;
using testing::expect_untouched;
using testing::only;
using testing::parse;
using testing::run;

constexpr std::string_view kNormAfterConv = R"(
  g (float[N,2,5,5] x, float[3,2,3,3] w, float[3] b) => (float[N,3,3,3] y)
  <float[3] gamma = {1, 2, 3}, float[3] beta = {0.5, 0, -1}, float[3] mean = {0.1, 0.2, 0.3}, float[3] var = {1, 4, 0.25}> {
    c = Conv(x, w, b)
    y = BatchNormalization<epsilon = 0.0>(c, gamma, beta, mean, var)
  })";

// Expected by hand: s = gamma / sqrt(var) = 1, 1, 6.
TEST(FuseBatchNormTest, GoesIntoTheConvolution) {
  graph::Model model = parse(kNormAfterConv, 21, {"w", "b"});
  const Tensor w = *model.graph.constant(*model.graph.find_value("w"));
  const Tensor b = *model.graph.constant(*model.graph.find_value("b"));
  EXPECT_EQ(run(fuse_batch_norm, model).rewrites.size(), 1U);
  const graph::NodeId conv = only(model, "Conv");
  EXPECT_EQ(model.graph.node_count(), 1U);
  const Tensor fused = *model.graph.constant(model.graph.input(conv, 1));
  const Tensor bias = *model.graph.constant(model.graph.input(conv, 2));
  const double scale[] = {1, 1, 6};
  const double shift[] = {0.5 - 0.1, -0.2, -1 - 6 * 0.3};
  for (std::size_t i = 0; i < 54; ++i) {
    EXPECT_NEAR(fused.values<float>()[i], scale[i / 18] * w.values<float>()[i], 1e-5);
  }
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(bias.values<float>()[i], scale[i] * b.values<float>()[i] + shift[i], 1e-5);
  }
}

TEST(FuseBatchNormTest, NeverBeforeAConvolutionWithPadding) {
  graph::Model model = parse(R"(
    g (float[1,2,5,5] x, float[3,2,3,3] w, float[2] gamma, float[2] beta, float[2] mean) => (float[1,3,5,5] y)
    <float[2] var = {1, 2}> {
      n = BatchNormalization(x, gamma, beta, mean, var)
      y = Conv<pads = [1, 1, 1, 1]>(n, w)
    })",
                             21, {"w", "gamma", "beta", "mean"});
  expect_untouched(fuse_batch_norm, model);
}

// M = 4 outputs in two groups: weights [4, 2, 3, 3], output channel 2 g + j.
TEST(FuseBatchNormTest, ConvTransposeWithGroups) {
  graph::Model model = parse(R"(
    g (float[1,4,5,5] x, float[4,2,3,3] w, float[4] beta, float[4] mean) => (float[1,4,7,7] y)
    <float[4] gamma = {1, 10, 100, 1000}, float[4] var = {1, 1, 1, 1}> {
      c = ConvTranspose<group = 2>(x, w)
      y = BatchNormalization<epsilon = 0.0>(c, gamma, beta, mean, var)
    })",
                             21, {"w", "beta", "mean"});
  const Tensor w = *model.graph.constant(*model.graph.find_value("w"));
  EXPECT_EQ(run(fuse_batch_norm, model).rewrites.size(), 1U);
  const Tensor fused = *model.graph.constant(model.graph.input(only(model, "ConvTranspose"), 1));
  const float scale[4][2] = {{1, 10}, {1, 10}, {100, 1000}, {100, 1000}};
  for (std::size_t i = 0; i < 72; ++i) {
    EXPECT_NEAR(fused.values<float>()[i], scale[i / 18][i / 9 % 2] * w.values<float>()[i], 1e-2);
  }
}

TEST(FuseBatchNormTest, SharedWeightsStayForTheOtherConvolution) {
  graph::Model model = parse(R"(
    g (float[1,2,5,5] x, float[3,2,3,3] w, float[3] gamma, float[3] beta, float[3] mean) => (float[1,3,3,3] y, float[1,3,3,3] z)
    <float[3] var = {1, 2, 3}> {
      c = Conv(x, w)
      y = BatchNormalization(c, gamma, beta, mean, var)
      z = Conv(x, w)
    })",
                             21, {"w", "gamma", "beta", "mean"});
  const Tensor w = *model.graph.constant(*model.graph.find_value("w"));
  EXPECT_EQ(run(fuse_batch_norm, model).rewrites.size(), 1U);
  const graph::NodeId other = model.graph.producer(*model.graph.find_value("z"));
  EXPECT_TRUE(model.graph.constant(model.graph.input(other, 1))->same_bytes(w));
}

TEST(FuseBatchNormTest, LeavesWhatIsReadElsewhere) {
  graph::Model reader = parse(R"(
    g (float[1,2,5,5] x, float[3,2,3,3] w, float[3] s) => (float[1,3,3,3] y, float[1,3,3,3] r)
    <float[3] var = {1, 2, 3}> {
      c = Conv(x, w)
      y = BatchNormalization(c, s, s, s, var)
      r = Relu(c)
    })",
                              21, {"w", "s"});
  EXPECT_THAT(expect_untouched(fuse_batch_norm, reader), ::testing::HasSubstr("2 readers"));
  graph::Model output = parse(R"(
    g (float[1,2,5,5] x, float[3,2,3,3] w, float[3] s) => (float[1,3,3,3] y, float[1,3,3,3] c)
    <float[3] var = {1, 2, 3}> {
      c = Conv(x, w)
      y = BatchNormalization(c, s, s, s, var)
    })",
                              21, {"w", "s"});
  EXPECT_THAT(expect_untouched(fuse_batch_norm, output), ::testing::HasSubstr("graph output"));
  graph::Model captured = parse(R"(
    g (float[1,2,5,5] x, float[3,2,3,3] w, float[3] s, bool k) => (float[1,3,3,3] y, float[1,3,3,3] r)
    <float[3] var = {1, 2, 3}> {
      c = Conv(x, w)
      y = BatchNormalization(c, s, s, s, var)
      r = If(k) <then_branch = yes () => (float[1,3,3,3] a) { a = Relu(c) },
                 else_branch = no () => (float[1,3,3,3] a2) { a2 = Neg(c) }>
    })",
                                21, {"w", "s"});
  EXPECT_THAT(expect_untouched(fuse_batch_norm, captured), ::testing::HasSubstr("captured"));
}

TEST(FuseBatchNormTest, LeavesTrainingModeAndVaryingWeights) {
  graph::Model training = parse(R"(
    g (float[1,2,5,5] x, float[3,2,3,3] w, float[3] s) => (float[1,3,3,3] y, float[3] m2, float[3] v2)
    <float[3] var = {1, 2, 3}> {
      c = Conv(x, w)
      y, m2, v2 = BatchNormalization<training_mode = 1>(c, s, s, s, var)
    })",
                                21, {"w", "s"});
  expect_untouched(fuse_batch_norm, training);
  graph::Model varying = parse(kNormAfterConv);
  expect_untouched(fuse_batch_norm, varying);
}

// 3000 x 40 does not fit float16 (65504). The text form gives halves by their bits.
TEST(FuseBatchNormTest, LeavesHalfWeightsThatWouldOverflow) {
  graph::Model model = parse(R"(
    g (float16[1,1,1,1] x) => (float16[1,1,1,1] y)
    <float16[1,1,1,1] w = {27100}, float16[1] gamma = {20736}, float16[1] zero = {0}, float16[1] one = {15360}> {
      c = Conv(x, w)
      y = BatchNormalization<epsilon = 0.0>(c, gamma, zero, zero, one)
    })");
  EXPECT_THAT(expect_untouched(fuse_batch_norm, model), ::testing::HasSubstr("range of float16"));
}

TEST(FuseBatchNormTest, NotWhenEveryBitMustStay) {
  graph::Model model = parse(kNormAfterConv, 21, {"w", "b"});
  PassContext context;
  context.lossy_rounding = false;
  expect_untouched(fuse_batch_norm, model, context);
}

TEST(FuseScaleTest, EveryKindOfStepBehindAConvolution) {
  graph::Model model = parse(R"(
    g (float[N,2,5,5] x, float[3,2,3,3] w, float[3,1,1] a, float[1,3,1,1] s) => (float[N,3,3,3] y) <float two = {2}> {
      c = Conv(x, w)
      d = Mul(a, c)
      e = Add(d, s)
      f = Div(e, two)
      g2 = Sub(two, f)
      y = Sub(g2, s)
    })",
                             21, {"w", "a", "s"});
  run(fuse_scale, model);
  EXPECT_EQ(model.graph.node_count(), 1U);
}

// The bias of a Gemm may be [1], [N], [1,N] or a scalar, and beta goes into the new one.
TEST(FuseScaleTest, GemmOfEveryBias) {
  for (const std::string bias : {"float[1] b", "float[3] b", "float[1,3] b", "float b"}) {
    graph::Model model = parse("g (float[4,2] x, float[3,2] w, " + bias +
                                   ", float[3] a) => (float[4,3] y) {"
                                   " c = Gemm<transB = 1, alpha = 0.5, beta = 3.0>(x, w, b)  y = Mul(c, a) }",
                               21, {"w", "b", "a"});
    const std::vector<double> b = to_doubles(*model.graph.constant(*model.graph.find_value("b")));
    const std::vector<double> a = to_doubles(*model.graph.constant(*model.graph.find_value("a")));
    run(fuse_scale, model);
    ASSERT_EQ(model.graph.node_count(), 1U) << bias;
    const graph::NodeId gemm = only(model, "Gemm");
    EXPECT_FALSE(model.graph.has_attribute(gemm, "beta"));
    const std::vector<double> fused = to_doubles(*model.graph.constant(model.graph.input(gemm, 2)));
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_NEAR(fused[i], 3.0 * a[i] * b[b.size() == 1 ? 0 : i], 1e-5);
    }
  }
}

TEST(FuseScaleTest, MatMulTakesScalesOnly) {
  graph::Model scaled = parse(
      "g (float[N,4,2] x, float[2,3] w, float[3] a) => (float[N,4,3] y) { c = MatMul(x, w)  y = Mul(c, a) }", 21,
      {"w", "a"});
  EXPECT_EQ(run(fuse_scale, scaled).rewrites.size(), 1U);
  graph::Model shifted = parse(
      "g (float[N,4,2] x, float[2,3] w, float[3] a) => (float[N,4,3] y) { c = MatMul(x, w)  y = Add(c, a) }", 21,
      {"w", "a"});
  EXPECT_THAT(expect_untouched(fuse_scale, shifted), ::testing::HasSubstr("no bias"));
}

TEST(FuseScaleTest, LeavesConstantsAlongOtherAxesOrThatEnlarge) {
  for (const std::string constant : {"float[1,3] a", "float[3,1] a", "float[2,1,1,1] a", "float[1,1,3,1,1] a"}) {
    graph::Model model = parse("g (float[1,2,5,5] x, float[3,2,3,3] w, " + constant +
                                   ") => (y) { c = Conv(x, w)  y = Mul(c, a) }",
                               21, {"w", "a"});
    expect_untouched(fuse_scale, model);
  }
}

}  // namespace
}  // namespace tempera::pass
