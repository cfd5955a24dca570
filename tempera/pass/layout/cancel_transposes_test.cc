#include "tempera/pass/layout/cancel_transposes.h"

#include "tempera/ops/access.h"
#include "tempera/pass/testing.h"

namespace tempera::pass {
namespace {

using graph::Dims;
using testing::count;
using testing::expect_untouched;
using testing::only;
using testing::parse;
using testing::run;

TEST(CancelTransposesTest, ThroughElementWiseWork) {
  graph::Model model = parse(R"(
    g (float[2,3,4] x, float[2] c, float[3,1,1] d) => (float[2,3,4] y) <float low = {0}, float high = {6}> {
      a = Transpose<perm = [1, 2, 0]>(x)
      b = Add(a, c)
      e = Clip(b, low, high)
      f = Mul(d, e)
      h = Mul(f, f)
      y = Transpose<perm = [2, 0, 1]>(h)
    })",
                             21, {"c", "d"});
  EXPECT_EQ(run(cancel_transposes, model).rewrites.size(), 1U);
  EXPECT_EQ(ops::permutation_of(model.graph, only(model, "Transpose")), (Dims{0, 1, 2}));
  // c varied along the last axis of [3,4,2], which is the first of x; d along the first, the second of x.
  EXPECT_EQ(model.graph.constant(model.graph.input(only(model, "Add"), 1))->dims(), (Dims{2, 1, 1}));
}

TEST(CancelTransposesTest, TwoBranchesTransposedAlike) {
  graph::Model model = parse(R"(
    g (float[2,3,4] x, float[2,3,4] z) => (float[2,4,3] y) {
      a = Transpose<perm = [0, 2, 1]>(x)
      b = Transpose<perm = [0, 2, 1]>(z)
      c = Add(a, b)
      d = Relu(c)
      y = Transpose<perm = [0, 1, 2]>(d)
    })");
  EXPECT_EQ(run(cancel_transposes, model).rewrites.size(), 1U);
  EXPECT_EQ(count(model, "Transpose"), 1);
}

TEST(CancelTransposesTest, LeavesOthers) {
  graph::Model reader = parse(R"(g (float[2,3] x) => (float[2,3] y, float[3,2] r) {
      a = Transpose(x)  b = Relu(a)  y = Transpose(b)  r = Neg(b) })");
  expect_untouched(cancel_transposes, reader);
  graph::Model output = parse("g (float[2,3] x) => (float[2,3] y, float[3,2] b) { a = Transpose(x)  b = Relu(a)  y = Transpose(b) }");
  expect_untouched(cancel_transposes, output);
  graph::Model captured = parse(R"(g (float[2,3] x, bool k) => (float[2,3] y, float[3,2] r) {
      a = Transpose(x)  b = Relu(a)  y = Transpose(b)
      r = If(k) <then_branch = yes () => (float[3,2] p) { p = Neg(b) }, else_branch = no () => (float[3,2] q) { q = Abs(b) }> })");
  expect_untouched(cancel_transposes, captured);
  graph::Model mixing = parse("g (float[2,3] x) => (float[2,3] y) { a = Transpose(x)  b = Softmax<axis = 1>(a)  y = Transpose(b) }");
  expect_untouched(cancel_transposes, mixing);
  graph::Model varying = parse("g (float[2,3] x, float[3,2] z) => (float[2,3] y) { a = Transpose(x)  b = Add(a, z)  y = Transpose(b) }");
  expect_untouched(cancel_transposes, varying);
  graph::Model ranks = parse(R"(g (float[2,3] x, float[4,1,1] c) => (float[4,2,3] y) {
      a = Transpose(x)  b = Add(a, c)  y = Transpose<perm = [0, 2, 1]>(b) })",
                             21, {"c"});
  expect_untouched(cancel_transposes, ranks);
}

}  // namespace
}  // namespace tempera::pass
