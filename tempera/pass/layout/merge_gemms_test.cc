#include "tempera/pass/layout/merge_gemms.h"

#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "tempera/pass/layout/split_sliced_linear.h"
#include "tempera/pass/testing.h"

namespace tempera::pass {
namespace {

using testing::count;
using testing::expect_untouched;
using testing::only;
using testing::parse;
using testing::run;

TEST(MergeGemmsTest, OneProductCutUp) {
  graph::Model model = parse(R"(
    g (float[1,3] x, float[4,3] w1, float[4] b1, float[2,3] w2, float[5,3] w3, float[1,5] b3)
      => (float[1,4] p, float[1,2] q, float[1,5] r) {
      p = Gemm<transB = 1>(x, w1, b1)  q = Gemm<transB = 1>(x, w2)  r = Gemm<transB = 1>(x, w3, b3) })",
                             21, {"w1", "b1", "w2", "w3", "b3"});
  EXPECT_EQ(run(merge_gemms, model).rewrites.size(), 1U);
  EXPECT_EQ(model.graph.constant(model.graph.input(only(model, "Gemm"), 1))->dims(), (graph::Dims{11, 3}));
  EXPECT_EQ(count(model, "Split"), 1);
}

TEST(MergeGemmsTest, ASplitBehindOneOfThemJoins) {
  graph::Model model = parse(R"(
    g (float[1,3] x, float[3,4] w1, float[3,2] w2) => (float[1,1] a, float[1,3] b, float[1,2] q)
    <int64[2] sizes = {1, 3}> {
      p = Gemm(x, w1)  a, b = Split<axis = 1>(p, sizes)  q = Gemm(x, w2) })",
                             21, {"w1", "w2"});
  EXPECT_EQ(run(merge_gemms, model).rewrites.size(), 1U);
  EXPECT_EQ(count(model, "Split"), 1);
  // What it makes is not cut up again.
  expect_untouched(split_sliced_linear, model);
}

TEST(MergeGemmsTest, AnOldOpsetWantsABias) {
  graph::Model model = parse(R"(g (float[1,3] x, float[3,4] w1, float[3,2] w2) => (float[1,4] p, float[1,2] q)
    <float z = {0}> { p = Gemm(x, w1, z)  q = Gemm(x, w2, z) })",
                             9, {"w1", "w2"});
  EXPECT_EQ(run(merge_gemms, model).rewrites.size(), 1U);
}

TEST(MergeGemmsTest, VisibleAndSharedOutputsAreReplacedByTheirPieces) {
  graph::Model model = parse(R"(
    g (bool c, float[1,3] x, float[3,4] w1, float[3,4] w2) => (float[1,4] p, float[1,4] s, float[1,4] z) {
      p = Gemm(x, w1)  q = Gemm(x, w2)  s = Add(p, q)
      z = If(c) <then_branch = one () => (float[1,4] o) { o = Identity(q) },
                 else_branch = two () => (float[1,4] o) { o = Neg(q) }> })",
                             21, {"w1", "w2"});
  EXPECT_EQ(run(merge_gemms, model).rewrites.size(), 1U);
}

TEST(MergeGemmsTest, LeavesRowsThatWouldHaveToBeCopiedApart) {
  for (const std::string_view rows : {"2", "N"}) {
    graph::Model model =
        parse(fmt::format(R"(g (float[{0},3] x, float[3,4] w1, float[3,4] w2) => (float[{0},4] p, float[{0},4] q) {{
      p = Gemm(x, w1)  q = Gemm(x, w2) }})",
                          rows),
              21, {"w1", "w2"});
    expect_untouched(merge_gemms, model);
  }
}

TEST(MergeGemmsTest, LeavesWhatIsNotAlike) {
  graph::Model inputs =
      parse(R"(g (float[1,3] x, float[1,3] t, float[3,4] w1, float[3,4] w2) => (float[1,4] p, float[1,4] q) {
      p = Gemm(x, w1)  q = Gemm(t, w2) })",
            21, {"w1", "w2"});
  expect_untouched(merge_gemms, inputs);
  graph::Model alphas = parse(R"(g (float[1,3] x, float[3,4] w1, float[3,4] w2) => (float[1,4] p, float[1,4] q) {
      p = Gemm(x, w1)  q = Gemm<alpha = 2.0>(x, w2) })",
                              21, {"w1", "w2"});
  expect_untouched(merge_gemms, alphas);
  graph::Model varying =
      parse(R"(g (float[1,3] x, float[3,4] w1, float[3,4] w2, float[4] b) => (float[1,4] p, float[1,4] q) {
      p = Gemm(x, w1)  q = Gemm(x, w2, b) })",
            21, {"w1"});
  expect_untouched(merge_gemms, varying);
  graph::Model column = parse(R"(g (float[3,1] x, float[3,4] w1, float[3,4] w2) => (float[1,4] p, float[1,4] q) {
      p = Gemm<transA = 1>(x, w1)  q = Gemm<transA = 1>(x, w2) })",
                              21, {"w1", "w2"});
  expect_untouched(merge_gemms, column);
  graph::Model integers = parse(R"(g (int32[1,3] x) => (int32[1,2] p, int32[1,2] q)
    <int32[3,2] w = {1, 2, 3, 4, 5, 6}, int32[3,2] v = {1, 2, 3, 4, 5, 7}> { p = Gemm(x, w)  q = Gemm(x, v) })");
  expect_untouched(merge_gemms, integers);
}

TEST(MergeGemmsTest, RandomNumbersWidthsAndBiases) {
  std::mt19937 generator(11);
  for (const std::string_view type : {"float", "float16", "double"}) {
    for (int i = 0; i < 8; ++i) {
      const bool turned = generator() % 2 == 0;
      std::string inputs = fmt::format("{}[1,3] x", type);
      std::string outputs;
      std::string nodes;
      std::vector<std::string> weights;
      const unsigned many = 2 + generator() % 4;
      for (unsigned k = 0; k < many; ++k) {
        const unsigned n = 1 + generator() % 6;
        const bool bias = generator() % 2 == 0;
        inputs += turned ? fmt::format(", {}[{},3] w{}", type, n, k) : fmt::format(", {}[3,{}] w{}", type, n, k);
        weights.push_back(fmt::format("w{}", k));
        if (bias) {
          inputs += fmt::format(", {}[{}] b{}", type, generator() % 2 == 0 ? n : 1, k);
          weights.push_back(fmt::format("b{}", k));
        }
        outputs += fmt::format("{}{}[1,{}] y{}", k == 0 ? "" : ", ", type, n, k);
        nodes += fmt::format("y{0} = Gemm<transB = {1}, alpha = 0.5, beta = 2.0>(x, w{0}{2})  ", k, turned ? 1 : 0,
                             bias ? fmt::format(", b{}", k) : "");
      }
      graph::Model model = parse(fmt::format("g ({}) => ({}) {{ {} }}", inputs, outputs, nodes), 21, weights);
      EXPECT_EQ(run(merge_gemms, model).rewrites.size(), 1U) << nodes;
      EXPECT_EQ(count(model, "Gemm"), 1);
    }
  }
}

}  // namespace
}  // namespace tempera::pass
