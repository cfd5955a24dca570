#include "tempera/pass/fuse/batch_norm_before.h"

#include <random>

#include <fmt/format.h>

#include "tempera/pass/testing.h"

namespace tempera::pass {
namespace {

using testing::count;
using testing::expect_untouched;
using testing::only;
using testing::parse;
using testing::run;

// BatchNormalization of four channels, then `next` of n [1,4,5,5]; the numbers of the shift are given.
graph::Model norm_before(std::string_view next, std::string_view shifts = "beta = {0.5, 0, -1, 2}",
                         std::string_view outputs = "float[1,M,H,W] y") {
  return parse(fmt::format(R"(
    g (float[1,4,5,5] x, float[6,4,3,3] w, float[6,2,3,3] v, float[6] b) => ({2})
    <float[4] gamma = {{1, -2, 3, 4}}, float[4] {1}, float[4] mean = {{0, 0, 0, 0}},
     float[4] var = {{1, 4, 0.25, 9}}> {{
      n = BatchNormalization<epsilon = 0.0>(x, gamma, beta, mean, var)
      {0} }})",
                           next, shifts, outputs),
               21, {"w", "v", "b"});
}

TEST(FuseBatchNormBeforeTest, GoesIntoAConvolutionWithoutPadding) {
  for (const std::string_view next :
       {"y = Conv(n, w)", "y = Conv(n, w, b)", "y = Conv<group = 2>(n, v, b)", "y = Conv<strides = [2, 2]>(n, w, b)",
        "y = Conv<dilations = [2, 2]>(n, w)", "y = Conv<auto_pad = \"VALID\">(n, w)"}) {
    graph::Model model = norm_before(next);
    EXPECT_EQ(run(fuse_batch_norm_before, model).rewrites.size(), 1U) << next;
    EXPECT_EQ(model.graph.node_count(), 1U);
  }
}

// s = 1, 2 and t = 0.5, -1: weights 3 1, 5 2 and bias 7 + 3 0.5 - 5 1.
TEST(FuseBatchNormBeforeTest, NumbersByHand) {
  graph::Model model = parse(R"(
    g (float[1,2,1,1] x) => (float[1,1,1,1] y)
    <float[1,2,1,1] w = {3, 5}, float[1] b = {7}, float[2] gamma = {1, 4}, float[2] beta = {0.5, 1},
     float[2] mean = {0, 1}, float[2] var = {1, 4}> {
      n = BatchNormalization<epsilon = 0.0>(x, gamma, beta, mean, var)
      y = Conv(n, w, b) })");
  run(fuse_batch_norm_before, model);
  const graph::NodeId conv = only(model, "Conv");
  EXPECT_EQ(to_doubles(*model.graph.constant(model.graph.input(conv, 1))), (std::vector<double>{3, 10}));
  EXPECT_EQ(to_doubles(*model.graph.constant(model.graph.input(conv, 2))), std::vector<double>{7 + 3 * 0.5 - 5});
}

TEST(FuseBatchNormBeforeTest, PaddingNeedsShiftsOfZero) {
  for (const std::string_view next : {"y = Conv<pads = [1, 1, 1, 1]>(n, w)", "y = Conv<pads = [0, 0, 0, 1]>(n, w)",
                                      "y = Conv<auto_pad = \"SAME_UPPER\">(n, w)"}) {
    graph::Model shifted = norm_before(next);
    EXPECT_EQ(expect_untouched(fuse_batch_norm_before, shifted),
              "the convolution pads with zeros, which the norm does not leave zero");
    graph::Model centred = norm_before(next, "beta = {0, 0, 0, 0}");
    EXPECT_EQ(run(fuse_batch_norm_before, centred).rewrites.size(), 1U) << next;
    EXPECT_FALSE(centred.graph.input(only(centred, "Conv"), 2).valid());
  }
}

// One channel of 4 with a kernel of 3 ones, shift 2: the outer places read one padding each.
TEST(FuseBatchNormPaddedTest, BorderByHand) {
  graph::Model model = parse(R"(
    g (float[1,1,4] x) => (float[1,1,4] y)
    <float[1,1,3] w = {1, 1, 1}, float[1] gamma = {3}, float[1] beta = {2}, float[1] mean = {0}, float[1] var = {1}> {
      n = BatchNormalization<epsilon = 0.0>(x, gamma, beta, mean, var)
      y = Conv<pads = [1, 1]>(n, w) })");
  EXPECT_EQ(run(fuse_batch_norm_padded, model).rewrites.size(), 1U);
  const graph::Graph& graph = model.graph;
  const graph::NodeId conv = only(model, "Conv");
  EXPECT_EQ(to_doubles(*graph.constant(graph.input(conv, 1))), (std::vector<double>{3, 3, 3}));
  EXPECT_EQ(to_doubles(*graph.constant(graph.input(conv, 2))), std::vector<double>{6});
  const graph::NodeId gather = only(model, "Gather");
  EXPECT_EQ(to_doubles(*graph.constant(graph.input(gather, 0))), (std::vector<double>{-2, 0, -2}));
  EXPECT_EQ(to_doubles(*graph.constant(graph.input(gather, 1))), (std::vector<double>{0, 1, 1, 2}));
}

TEST(FuseBatchNormPaddedTest, LeavesWhatOthersDoOrCannotBeKnown) {
  graph::Model valid = norm_before("y = Conv(n, w)");
  EXPECT_EQ(expect_untouched(fuse_batch_norm_padded, valid), "");
  graph::Model centred = norm_before("y = Conv<pads = [1, 1, 1, 1]>(n, w)", "beta = {0, 0, 0, 0}");
  EXPECT_EQ(expect_untouched(fuse_batch_norm_padded, centred), "");
  const std::string unknown = "the size of its input is not known, or its padding is left to the engine";
  graph::Model same = norm_before("y = Conv<auto_pad = \"SAME_UPPER\">(n, w)");
  EXPECT_EQ(expect_untouched(fuse_batch_norm_padded, same), unknown);
  graph::Model dynamic = parse(R"(
    g (float[1,2,H,3] x, float[1,2,3,3] w) => (float[1,1,H,3] y)
    <float[2] gamma = {1, 4}, float[2] beta = {0.5, 1}, float[2] mean = {0, 1}, float[2] var = {1, 4}> {
      n = BatchNormalization(x, gamma, beta, mean, var)  y = Conv<pads = [1, 1, 1, 1]>(n, w) })",
                               21, {"w"});
  EXPECT_EQ(expect_untouched(fuse_batch_norm_padded, dynamic), unknown);
  graph::Model twice = norm_before("y = Conv<pads = [1, 1, 1, 1]>(n, w)  z = Relu(n)", "beta = {0.5, 0, -1, 2}",
                                   "float[1,M,H,W] y, float[1,4,5,5] z");
  EXPECT_EQ(expect_untouched(fuse_batch_norm_padded, twice), "'n' has 2 readers");
}

TEST(FuseBatchNormBeforeTest, GemmOfEitherOrientation) {
  for (const bool turned : {false, true}) {
    graph::Model model = parse(fmt::format(R"(
      g (float[N,2] x, float[{0}] w, float[3] b) => (float[N,3] y)
      <float[2] gamma = {{1, 2}}, float[2] beta = {{3, 4}}, float[2] mean = {{5, 6}}, float[2] var = {{7, 8}}> {{
        n = BatchNormalization(x, gamma, beta, mean, var)
        y = Gemm<transB = {1}, alpha = 0.5, beta = 2.0>(n, w, b) }})",
                                           turned ? "3,2" : "2,3", turned ? 1 : 0),
                               21, {"w", "b"});
    EXPECT_EQ(run(fuse_batch_norm_before, model).rewrites.size(), 1U);
    EXPECT_EQ(model.graph.node_count(), 1U);
  }
}

TEST(FuseBatchNormBeforeTest, LeavesWhatIsReadElsewhere) {
  graph::Model output = norm_before("y = Conv(n, w)", "beta = {0.5, 0, -1, 2}", "float[1,M,H,W] y, float[1,4,5,5] n");
  EXPECT_EQ(expect_untouched(fuse_batch_norm_before, output), "'n' is a graph output");
  graph::Model twice =
      norm_before("y = Conv(n, w)  z = Relu(n)", "beta = {0.5, 0, -1, 2}", "float[1,M,H,W] y, float[1,4,5,5] z");
  EXPECT_EQ(expect_untouched(fuse_batch_norm_before, twice), "'n' has 2 readers");
  graph::Model body = parse(R"(
    g (bool c, float[1,2,3,3] x, float[1,2,3,3] w) => (float[1,1,1,1] y, float[1,2,3,3] z)
    <float[2] gamma = {1, 4}, float[2] beta = {0.5, 1}, float[2] mean = {0, 1}, float[2] var = {1, 4}> {
      n = BatchNormalization(x, gamma, beta, mean, var)  y = Conv(n, w)
      z = If(c) <then_branch = one () => (float[1,2,3,3] o) { o = Identity(n) },
                 else_branch = two () => (float[1,2,3,3] o) { o = Neg(n) }> })",
                            21, {"w"});
  EXPECT_EQ(expect_untouched(fuse_batch_norm_before, body), "'n' is captured by a body");
}

TEST(FuseBatchNormBeforeTest, LeavesOthers) {
  graph::Model varying = parse(R"(
    g (float[1,2,3,3] x, float[1,2,3,3] w) => (float[1,1,1,1] y)
    <float[2] gamma = {1, 4}, float[2] beta = {0.5, 1}, float[2] mean = {0, 1}, float[2] var = {1, 4}> {
      n = BatchNormalization(x, gamma, beta, mean, var)  y = Conv(n, w) })");
  expect_untouched(fuse_batch_norm_before, varying);
  // Borders of a transposed convolution sum over fewer places.
  graph::Model transposed = parse(R"(
    g (float[1,2,3,3] x, float[2,1,3,3] w) => (float[1,1,5,5] y)
    <float[2] gamma = {1, 4}, float[2] beta = {0.5, 1}, float[2] mean = {0, 1}, float[2] var = {1, 4}> {
      n = BatchNormalization(x, gamma, beta, mean, var)  y = ConvTranspose(n, w) })",
                                  21, {"w"});
  expect_untouched(fuse_batch_norm_before, transposed);
  // In codes: gamma 1, beta 60000, mean 0, variance 1, weights 2.
  graph::Model huge = parse(R"(
    g (float16[1,1,3,3] x) => (float16[1,1,3,3] y)
    <float16[1] gamma = {15360}, float16[1] beta = {31571}, float16[1] mean = {0}, float16[1] var = {15360},
     float16[1,1,1,1] w = {16384}> {
      n = BatchNormalization(x, gamma, beta, mean, var)  y = Conv(n, w) })");
  EXPECT_EQ(expect_untouched(fuse_batch_norm_before, huge), "the new weights leave the range of float16");
}

// BatchNormalization and Conv of random sizes.
graph::Model random_pair(std::mt19937& generator, bool padded) {
  const auto pick = [&](unsigned low, unsigned high) { return low + generator() % (high - low + 1); };
  const unsigned group = pick(1, 3);
  const unsigned inputs = pick(1, 3);
  const unsigned outputs = group * pick(1, 3);
  const unsigned kernel = pick(1, 3);
  const unsigned channels = group * inputs;
  const std::string pads = padded ? fmt::format(", pads = [{}, {}, {}, {}], dilations = [1, {}]", pick(1, 2), pick(0, 2), pick(0, 2),
                                                pick(0, 2), pick(1, 2))
                                  : "";
  graph::Model model = parse(fmt::format(R"(
    g (float[2,{0},6,5] x, float[{1},{2},{3},{3}] w, float[{1}] b, float[{0}] gamma, float[{0}] beta, float[{0}] mean,
       float[{0}] variance) => (float[2,{1},H,W] y) {{
      n = BatchNormalization<epsilon = 0.1>(x, gamma, beta, mean, variance)
      y = Conv<group = {4}, strides = [{5}, 1]{6}>(n, w, b) }})",
                                         channels, outputs, inputs, kernel, group, pick(1, 2), pads),
                             21, {"w", "b", "gamma", "beta", "mean", "variance"});
  // A variance is not negative.
  graph::Graph& graph = model.graph;
  const graph::ValueId variance = *graph.find_value("variance");
  std::vector<float> squares;
  for (const double d : to_doubles(*graph.constant(variance))) {
    squares.push_back(static_cast<float>(d * d));
  }
  graph.set_constant(variance, graph::Tensor::from<float>({channels}, squares));
  return model;
}

TEST(FuseBatchNormBeforeTest, RandomShapes) {
  std::mt19937 generator(3);
  for (int i = 0; i < 20; ++i) {
    graph::Model model = random_pair(generator, false);
    EXPECT_EQ(run(fuse_batch_norm_before, model).rewrites.size(), 1U);
    EXPECT_EQ(count(model, "BatchNormalization"), 0);
  }
}

TEST(FuseBatchNormPaddedTest, RandomShapes) {
  std::mt19937 generator(4);
  for (int i = 0; i < 40; ++i) {
    graph::Model model = random_pair(generator, true);
    EXPECT_EQ(run(fuse_batch_norm_padded, model).rewrites.size(), 1U);
    EXPECT_EQ(count(model, "BatchNormalization"), 0);
  }
}

}  // namespace
}  // namespace tempera::pass
