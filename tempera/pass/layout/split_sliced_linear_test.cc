#include "tempera/pass/layout/split_sliced_linear.h"

#include "tempera/pass/testing.h"

namespace tempera::pass {
namespace {

using testing::count;
using testing::expect_untouched;
using testing::parse;
using testing::run;

constexpr std::string_view kSplit = R"(
  g (float[N,4,6,6] x, float[9,4,1,1] w, float[9] b) => (float[N,2,6,6] q, float[N,3,6,6] k, float[N,4,6,6] v)
  <int64[3] sizes = {2, 3, 4}> {
    y = Conv(x, w, b)
    q, k, v = Split<axis = 1>(y, sizes)
  })";

TEST(SplitSlicedLinearTest, ConvolutionThatIsSplitBecomesThree) {
  graph::Model model = parse(kSplit, 21, {"w", "b"});
  const graph::Graph& g = model.graph;
  const graph::Tensor w = *g.constant(*g.find_value("w"));
  const graph::Tensor b = *g.constant(*g.find_value("b"));
  EXPECT_EQ(run(split_sliced_linear, model).rewrites.size(), 1U);
  EXPECT_EQ(count(model, "Conv"), 3);
  EXPECT_EQ(count(model, "Split"), 0);
  // The second piece: rows 2, 3, 4, and the same bytes, not a copy.
  const graph::NodeId k = g.producer(*g.find_value("k"));
  const graph::Tensor rows = *g.constant(g.input(k, 1));
  EXPECT_EQ(rows.dims(), (graph::Dims{3, 4, 1, 1}));
  EXPECT_EQ(rows.bytes().data(), w.bytes().data() + 2 * 4 * sizeof(float));
  const graph::Tensor shifts = *g.constant(g.input(k, 2));
  EXPECT_EQ(shifts.values<float>()[0], b.values<float>()[2]);
}

TEST(SplitSlicedLinearTest, SlicesCountToo) {
  graph::Model model = parse(R"(
    g (float[N,4,6,6] x, float[9,4,3,3] w) => (float[N,2,6,6] q, float[N,5,6,6] v)
    <int64[1] zero = {0}, int64[1] two = {2}, int64[1] four = {4}, int64[1] most = {9223372036854775807},
     int64[1] axis = {-3}> {
      y = Conv<pads = [1, 1, 1, 1]>(x, w)
      q = Slice(y, zero, two, axis)
      v = Slice(y, four, most, axis)
    })",
                             21, {"w"});
  EXPECT_EQ(run(split_sliced_linear, model).rewrites.size(), 1U);
  EXPECT_EQ(count(model, "Conv"), 2);
  EXPECT_EQ(count(model, "Slice"), 0);
}

TEST(SplitSlicedLinearTest, MatMulWithAnAddedBias) {
  graph::Model model = parse(R"(
    g (float[N,5,4] x, float[4,6] w, float[6] b) => (float[N,5,2] q, float[N,5,2] k, float[N,5,2] v) {
      y = MatMul(x, w)
      z = Add(b, y)
      q, k, v = Split<axis = -1, num_outputs = 3>(z)
    })",
                             21, {"w", "b"});
  EXPECT_EQ(run(split_sliced_linear, model).rewrites.size(), 1U);
  EXPECT_EQ(count(model, "MatMul"), 3);
  EXPECT_EQ(count(model, "Add"), 3);
}

TEST(SplitSlicedLinearTest, MatMulByAConstantOnTheLeft) {
  graph::Model model = parse(R"(
    g (float[1,4,7] x, float[6,4] w) => (float[1,3,7] q, float[1,3,7] k) {
      y = MatMul(w, x)
      q, k = Split<axis = 1, num_outputs = 2>(y)
    })",
                             21, {"w"});
  EXPECT_EQ(run(split_sliced_linear, model).rewrites.size(), 1U);
  EXPECT_EQ(count(model, "MatMul"), 2);
}

// The bias of a Gemm may be [N], [1,N] or one number for all.
TEST(SplitSlicedLinearTest, GemmOfEitherOrientationAndEveryBias) {
  for (const std::string weight : {"float[4,6] w", "float[6,4] w"}) {
    for (const std::string bias : {"float[6] b", "float[1,6] b", "float[1] b", "float b"}) {
      const bool turned = weight == "float[6,4] w";
      graph::Model model = parse("g (float[3,4] x, " + weight + ", " + bias +
                                     ") => (float[3,2] q, float[3,4] k) <int64[2] sizes = {2, 4}> {"
                                     "  y = Gemm<transB = " +
                                     (turned ? "1" : "0") + ", alpha = 0.5, beta = 2.0>(x, w, b)" +
                                     "  q, k = Split<axis = 1>(y, sizes) }",
                                 21, {"w", "b"});
      EXPECT_EQ(run(split_sliced_linear, model).rewrites.size(), 1U) << weight << bias;
      EXPECT_EQ(count(model, "Gemm"), 2);
    }
  }
}

TEST(SplitSlicedLinearTest, OneRowIsLeftWhole) {
  graph::Model model = parse(R"(g (float[1,4] x, float[4,6] w) => (float[1,2] q, float[1,4] k) <int64[2] sizes = {2, 4}> {
      y = Gemm(x, w)  q, k = Split<axis = 1>(y, sizes) })",
                             21, {"w"});
  EXPECT_NE(expect_untouched(split_sliced_linear, model), "");
}

TEST(SplitSlicedLinearTest, UnreadPiecesAreNotComputed) {
  graph::Model model = parse(R"(
    g (float[1,4,6,6] x, float[9,4,1,1] w) => (float[1,3,6,6] k) {
      y = Conv(x, w)
      q, k, v = Split<axis = 1, num_outputs = 3>(y)
    })",
                             21, {"w"});
  run(split_sliced_linear, model);
  EXPECT_EQ(count(model, "Conv"), 1);
}

TEST(SplitSlicedLinearTest, OldOpsetsSplitByAttribute) {
  graph::Model model = parse(R"(
    g (float[1,4,6,6] x, float[9,4,1,1] w) => (float[1,4,6,6] q, float[1,5,6,6] k) {
      y = Conv(x, w)
      q, k = Split<axis = 1, split = [4, 5]>(y)
    })",
                             9, {"w"});
  EXPECT_EQ(run(split_sliced_linear, model).rewrites.size(), 1U);
}

TEST(SplitSlicedLinearTest, LeavesAValueThatIsReadElsewhere) {
  graph::Model model = parse(R"(
    g (float[1,4,6,6] x, float[8,4,1,1] w) => (float[1,4,6,6] q, float[1,4,6,6] k, float[1,8,6,6] r) {
      y = Conv(x, w)
      q, k = Split<axis = 1, num_outputs = 2>(y)
      r = Relu(y)
    })",
                             21, {"w"});
  EXPECT_THAT(expect_untouched(split_sliced_linear, model), ::testing::HasSubstr("reads it whole"));
}

TEST(SplitSlicedLinearTest, LeavesAGraphOutput) {
  graph::Model model = parse(R"(
    g (float[1,4,6,6] x, float[8,4,1,1] w) => (float[1,4,6,6] q, float[1,4,6,6] k, float[1,8,6,6] y) {
      y = Conv(x, w)
      q, k = Split<axis = 1, num_outputs = 2>(y)
    })",
                             21, {"w"});
  EXPECT_THAT(expect_untouched(split_sliced_linear, model), ::testing::HasSubstr("graph output"));
}

TEST(SplitSlicedLinearTest, LeavesAValueCapturedByABody) {
  graph::Model model = parse(R"(
    g (float[1,4,6,6] x, float[8,4,1,1] w, bool c) => (float[1,4,6,6] q, float[1,4,6,6] k, float[1,8,6,6] r) {
      y = Conv(x, w)
      q, k = Split<axis = 1, num_outputs = 2>(y)
      r = If(c) <then_branch = yes () => (float[1,8,6,6] a) { a = Relu(y) },
                 else_branch = no () => (float[1,8,6,6] a2) { a2 = Neg(y) }>
    })",
                             21, {"w"});
  EXPECT_THAT(expect_untouched(split_sliced_linear, model), ::testing::HasSubstr("captured"));
}

TEST(SplitSlicedLinearTest, LeavesOtherAxesGroupsStepsAndOverlaps) {
  graph::Model rows = parse(R"(
    g (float[1,4,6,6] x, float[8,4,1,1] w) => (float[1,8,3,6] q, float[1,8,3,6] k) {
      y = Conv(x, w)
      q, k = Split<axis = 2, num_outputs = 2>(y)
    })",
                            21, {"w"});
  EXPECT_THAT(expect_untouched(split_sliced_linear, rows), ::testing::HasSubstr("another axis"));
  graph::Model groups = parse(R"(
    g (float[1,4,6,6] x, float[8,2,1,1] w) => (float[1,4,6,6] q, float[1,4,6,6] k) {
      y = Conv<group = 2>(x, w)
      q, k = Split<axis = 1, num_outputs = 2>(y)
    })",
                              21, {"w"});
  expect_untouched(split_sliced_linear, groups);
  graph::Model step = parse(R"(
    g (float[1,4,6,6] x, float[8,4,1,1] w) => (float[1,4,6,6] q)
    <int64[1] zero = {0}, int64[1] eight = {8}, int64[1] one = {1}, int64[1] two = {2}> {
      y = Conv(x, w)
      q = Slice(y, zero, eight, one, two)
    })",
                            21, {"w"});
  EXPECT_THAT(expect_untouched(split_sliced_linear, step), ::testing::HasSubstr("step"));
  graph::Model overlap = parse(R"(
    g (float[1,4,6,6] x, float[8,4,1,1] w) => (float[1,6,6,6] q, float[1,5,6,6] k)
    <int64[1] zero = {0}, int64[1] six = {6}, int64[1] three = {3}, int64[1] eight = {8}, int64[1] one = {1}> {
      y = Conv(x, w)
      q = Slice(y, zero, six, one)
      k = Slice(y, three, eight, one)
    })",
                               21, {"w"});
  EXPECT_THAT(expect_untouched(split_sliced_linear, overlap), ::testing::HasSubstr("overlap"));
}

TEST(SplitSlicedLinearTest, LeavesVaryingWeightsAndTheTorchTarget) {
  graph::Model varying = parse(kSplit);
  expect_untouched(split_sliced_linear, varying);
  graph::Model torch = parse(kSplit, 21, {"w", "b"});
  PassContext context;
  context.target_engine = "torch";
  expect_untouched(split_sliced_linear, torch, context);
}

}  // namespace
}  // namespace tempera::pass
