#include "tempera/pass/layout/delay_reshape.h"

#include "tempera/pass/testing.h"

namespace tempera::pass {
namespace {

using testing::expect_untouched;
using testing::only;
using testing::parse;
using testing::run;

TEST(DelayReshapeTest, AFactorMovesInFront) {
  graph::Model model = parse(R"(
    g (float[1,4,3,3] x) => (float[1,4,9] y) <int64[3] s = {1, 4, 9}, float[1,1] c = {0.5}> {
      c1 = Relu(x)
      r = Reshape(c1, s)
      y = Mul(r, c)
    })");
  EXPECT_EQ(run(delay_reshape, model).rewrites.size(), 1U);
  const graph::NodeId mul = only(model, "Mul");
  EXPECT_EQ(model.graph.node(model.graph.producer(model.graph.input(mul, 0))).op_type, "Relu");
}

TEST(DelayReshapeTest, ASplitOfChannelsMovesInFront) {
  graph::Model model = parse(R"(
    g (float[1,4,3,3] x) => (float[1,1,9] a, float[1,3,9] b) <int64[3] s = {1, 4, 9}, int64[2] sizes = {1, 3}> {
      r = Reshape(x, s)
      a, b = Split<axis = 1>(r, sizes)
    })");
  EXPECT_EQ(run(delay_reshape, model).rewrites.size(), 1U);
  const graph::NodeId split = only(model, "Split");
  EXPECT_EQ(model.graph.value(model.graph.input(split, 0)).name, "x");
}

TEST(DelayReshapeTest, ASplitOfRegroupedChannelsStays) {
  graph::Model model = parse(R"(
    g (float[1,4,3,3] x) => (float[1,1,18] a, float[1,1,18] b) <int64[3] s = {1, 2, 18}, int64[2] sizes = {1, 1}> {
      r = Reshape(x, s)
      a, b = Split<axis = 1>(r, sizes)
    })");
  expect_untouched(delay_reshape, model);
}

TEST(DelayReshapeTest, AVectorIsNoFactor) {
  graph::Model model = parse(R"(
    g (float[1,4,3,3] x) => (float[1,4,9] y) <int64[3] s = {1, 4, 9}, float[9] c = {1, 2, 3, 4, 5, 6, 7, 8, 9}> {
      r = Reshape(x, s)
      y = Mul(r, c)
    })");
  expect_untouched(delay_reshape, model);
}

TEST(DelayReshapeTest, ASharedReshapeStays) {
  graph::Model model = parse(R"(
    g (float[1,4,3,3] x) => (float[1,4,9] y, float[1,4,9] z) <int64[3] s = {1, 4, 9}, float c = {2}> {
      r = Reshape(x, s)
      y = Mul(r, c)
      z = Relu(r)
    })");
  expect_untouched(delay_reshape, model);
}

TEST(DelayReshapeTest, AFactorOfHigherRankStays) {
  graph::Model model = parse(R"(
    g (float[4,9] x) => (float[1,1,36] y) <int64[1] s = {36}, float[1,1,1] c = {2}> {
      r = Reshape(x, s)
      y = Mul(r, c)
    })");
  expect_untouched(delay_reshape, model);
}

}  // namespace
}  // namespace tempera::pass
