#include "tempera/pass/cleanup/factors.h"

#include "tempera/pass/testing.h"

namespace tempera::pass {
namespace {

using testing::count;
using testing::expect_untouched;
using testing::only;
using testing::parse;
using testing::run;

TEST(MergeFactorsTest, AnyRowOfProductsAndQuotients) {
  graph::Model model = parse(R"(g (float[N,3,4] x) => (float[N,3,4] y)
    <float two = {2}, float[3,1] g = {1, 2, 3}, float[1] eight = {8}> {
      a = Mul(x, two)  b = Mul(g, a)  y = Div(b, eight) })");
  run(merge_factors, model);
  EXPECT_EQ(model.graph.node_count(), 1U);
  EXPECT_EQ(to_doubles(*model.graph.constant(model.graph.input(only(model, "Mul"), 1))),
            (std::vector<double>{0.25, 0.5, 0.75}));
}

TEST(MergeFactorsTest, LeavesOthers) {
  graph::Model shapes = parse(
      "g (float[2,3] x) => (float[2,3] y) <float[3] a = {1, 2, 3}, float[2,1] b = {1, 2}> { m = Mul(x, a)  y = Mul(m, b) }");
  EXPECT_NE(expect_untouched(merge_factors, shapes), "");
  graph::Model tiny = parse("g (float[2] x) => (float[2] y) <float a = {1e-30}> { m = Mul(x, a)  y = Mul(m, a) }");
  EXPECT_NE(expect_untouched(merge_factors, tiny), "");
  graph::Model huge = parse("g (float[2] x) => (float[2] y) <float a = {1e30}> { m = Mul(x, a)  y = Mul(m, a) }");
  EXPECT_NE(expect_untouched(merge_factors, huge), "");
  graph::Model zero = parse("g (float[2] x) => (float[2] y) <float a = {2}, float z = {0}> { m = Mul(x, a)  y = Div(m, z) }");
  EXPECT_NE(expect_untouched(merge_factors, zero), "");
  graph::Model output = parse("g (float[2] x) => (float[2] y, float[2] m) <float a = {2}> { m = Mul(x, a)  y = Mul(m, a) }");
  EXPECT_NE(expect_untouched(merge_factors, output), "");
  graph::Model integers = parse("g (int64[2] x) => (int64[2] y) <int64 a = {2}> { m = Div(x, a)  y = Div(m, a) }");
  expect_untouched(merge_factors, integers);
}

// F.normalize as exporters write it: the norm is expanded to the shape of x.
TEST(DropExpandTest, BeforeADivisionThatBroadcasts) {
  graph::Model model = parse(R"(g (float[N,4,6] x) => (float[N,4,6] y) <int64[1] axis = {1}, float least = {1e-12}> {
      n = ReduceL2(x, axis)  c = Clip(n, least)  s = Shape(x)  e = Expand(c, s)  y = Div(x, e) })",
                             18);
  EXPECT_EQ(run(drop_expand, model).rewrites.size(), 1U);
  EXPECT_EQ(count(model, "Expand"), 0);
  EXPECT_EQ(count(model, "Shape"), 0);
}

TEST(DropExpandTest, LeavesAnExpandThatShapesTheResult) {
  graph::Model both = parse("g (float[1,4] x) => (float[3,4] y) <int64[2] s = {3, 4}> { e = Expand(x, s)  y = Mul(e, e) }");
  expect_untouched(drop_expand, both);
  graph::Model alone = parse("g (float[1,4] x, float[4] z) => (float[3,4] y) <int64[2] s = {3, 4}> { e = Expand(x, s)  y = Mul(e, z) }");
  expect_untouched(drop_expand, alone);
  graph::Model unknown = parse("g (float[1,4] x, float[A,B] z, int64[2] s) => (float[C,D] y) { e = Expand(x, s)  y = Mul(e, z) }");
  expect_untouched(drop_expand, unknown);
}

}  // namespace
}  // namespace tempera::pass
