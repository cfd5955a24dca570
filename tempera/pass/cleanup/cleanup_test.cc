#include "tempera/pass/cleanup/common.h"
#include "tempera/pass/cleanup/constants.h"
#include "tempera/pass/cleanup/dead.h"
#include "tempera/pass/cleanup/no_ops.h"
#include "tempera/pass/testing.h"

namespace tempera::pass {
namespace {

using testing::count;
using testing::expect_untouched;
using testing::parse;
using testing::run;

TEST(ConstantsTest, BecomeInitializersOfTheSameName) {
  graph::Model model = parse(R"(g (float[2] x) => (float[2] y) {
      c = Constant<value = float[2] {1, 2}>()
      d = Constant<value_float = 3.0>()
      a = Add(x, c)
      y = Mul(a, d) })");
  EXPECT_EQ(run(constants_to_initializers, model).rewrites.size(), 2U);
  EXPECT_EQ(count(model, "Constant"), 0);
  EXPECT_TRUE(model.graph.value(model.graph.find_value("c").value()).constant.has_value());
}

TEST(ConstantsTest, StayWhenTheyAreAGraphOutput) {
  graph::Model model = parse("g (float[2] x) => (float[2] y, float[1] c) { c = Constant<value = float[1] {1}>()  y = Add(x, c) }");
  EXPECT_THAT(expect_untouched(constants_to_initializers, model), ::testing::HasSubstr("graph output"));
}

TEST(RemoveDeadTest, KeepsGraphInputs) {
  graph::Model model = parse("g (float[2] x, float[2] unread) => (float[2] y) <float[2] w = {1, 2}> { y = Relu(x) z = Add(x, w) }");
  run(remove_dead, model);
  EXPECT_EQ(model.graph.node_count(), 1U);
  EXPECT_EQ(model.graph.inputs().size(), 2U);
  EXPECT_FALSE(model.graph.find_value("w").has_value());
}

TEST(NoOpsTest, AreTakenOut) {
  const std::vector<std::string> cases = {
      "Identity(x)",
      "Dropout(x)",
      "Dropout(x, ratio, no)",
      "Cast<to = 1>(x)",
      "Pad(x, pads)",
      "Slice(x, zeros, most, axes)",
      "Expand(x, shape)",
      "Reshape(x, shape)",
      "Tile(x, ones)",
      "Transpose<perm = [0, 1]>(x)",
      "Concat<axis = 0>(x)",
      "Sum(x)",
      "Clip(x)",
      "Mul(x, one)",
      "Mul(one, x)",
      "Div(x, one)",
      "Pow(x, one)",
      "Add(x, zero)",
      "Sub(x, zero)",
  };
  for (const std::string& what : cases) {
    graph::Model model = parse("g (float[2,3] in) => (float[2,3] out) <int64[4] pads = {0, 0, 0, 0}, int64[2] zeros = {0, 0},"
                               " int64[2] most = {2, 9223372036854775807}, int64[2] axes = {0, 1},"
                               " int64[2] shape = {2, 3}, int64[2] ones = {1, 1}, float one = {1}, float[1] zero = {0},"
                               " bool no = {0}, float ratio = {0.5}> { x = Neg(in)  y = " +
                               what + "  out = Relu(y) }");
    EXPECT_EQ(run(remove_no_ops, model).rewrites.size(), 1U) << what;
    EXPECT_EQ(model.graph.node_count(), 2U) << what;
  }
}

TEST(NoOpsTest, ThatDoSomethingStay) {
  const std::vector<std::string> cases = {
      "Cast<to = 10>(x)",           "Pad(x, pads)",    "Slice(x, last, first, axis, last)", "Mul(x, ones)", "Sub(one, one)",
      "Transpose<perm = [1, 0]>(x)", "Div(one, x)",     "Add(x, wide)",                      "Clip(x, one)",
      "Dropout(x, ratio, yes)",
  };
  for (const std::string& what : cases) {
    graph::Model model = parse("g (float[2,2] in) => (out) <int64[4] pads = {0, 1, 0, 0}, int64[1] last = {-1},"
                               " int64[1] first = {-9223372036854775807}, int64[1] axis = {0}, float[2] ones = {1, 2},"
                               " float one = {1}, float[3,1,1] wide = {0, 0, 0}, bool yes = {1}, float ratio = {0.5}>"
                               " { x = Neg(in)  out = " + what + " }");
    expect_untouched(remove_no_ops, model);
  }
}

TEST(NoOpsTest, UnknownDimensionsAreNotTakenForEqual) {
  graph::Model model = parse(R"(g (float[N,3] x, int64[2] s) => (float[A,B] y) { y = Reshape(x, s) })");
  expect_untouched(remove_no_ops, model);
}

TEST(NoOpsTest, AnOutputKeepsItsName) {
  graph::Model moved = parse("g (float[2] x) => (float[2] y) { a = Relu(x)  y = Identity(a) }");
  EXPECT_EQ(run(remove_no_ops, moved).rewrites.size(), 1U);
  EXPECT_EQ(moved.graph.node_count(), 1U);
  // Two outputs of one value, an input and an initialiser as outputs: each needs the node that names it.
  graph::Model twice = parse("g (float[2] x) => (float[2] a, float[2] y) { a = Relu(x)  y = Identity(a) }");
  expect_untouched(remove_no_ops, twice);
  graph::Model input = parse("g (float[2] x) => (float[2] y) { y = Identity(x) }");
  expect_untouched(remove_no_ops, input);
  graph::Model constant = parse("g (float[2] x) => (float[2] z, float[2] y) <float[2] w = {1, 2}> { y = Identity(w)  z = Add(x, w) }");
  expect_untouched(remove_no_ops, constant);
}

TEST(NoOpsTest, ABodyReadsThroughThem) {
  graph::Model model = parse(R"(g (float[2] x, bool c) => (float[2] r) {
      a = Neg(x)
      b = Identity(a)
      r = If(c) <then_branch = yes () => (float[2] p) { p = Relu(b) }, else_branch = no () => (float[2] q) { q = Abs(b) }> })");
  EXPECT_EQ(run(remove_no_ops, model).rewrites.size(), 1U);
  EXPECT_EQ(count(model, "Identity"), 0);
}

TEST(CommonTest, EqualWorkIsDoneOnce) {
  graph::Model model = parse(R"(g (float[2] x, float[2] z) => (float[2] y) {
      a = Add(x, z)
      b = Add(z, x)
      c = Relu(a)
      d = Relu(b)
      y = Mul(c, d) })");
  EXPECT_EQ(run(merge_common, model).rewrites.size(), 2U);
  EXPECT_EQ(model.graph.node_count(), 3U);
}

TEST(CommonTest, DifferentWorkIsNot) {
  graph::Model order = parse("g (float[2] x, float[2] z) => (float[2] y) { a = Sub(x, z)  b = Sub(z, x)  y = Mul(a, b) }");
  expect_untouched(merge_common, order);
  graph::Model attribute = parse("g (float[2] x) => (float[2] y) { a = Elu<alpha = 0.5>(x)  b = Elu<alpha = 0.25>(x)  y = Mul(a, b) }");
  expect_untouched(merge_common, attribute);
  graph::Model random = parse("g (float[2] x) => (float[2] y) { a = RandomNormalLike(x)  b = RandomNormalLike(x)  y = Mul(a, b) }");
  expect_untouched(merge_common, random);
  graph::Model outputs = parse("g (float[2] x) => (float[2] a, float[2] b) { a = Relu(x)  b = Relu(x) }");
  expect_untouched(merge_common, outputs);
}

// Tensors b and b0 of equal content merge; those of other content or type do not.
TEST(CommonTest, EqualConstantsAreStoredOnce) {
  graph::Model model = parse(R"(g (float[2] x) => (float[2] y)
    <float[2] b = {1, 2}, float[2] b0 = {1, 2}, float[2] b1 = {1, 3}> {
      a = Add(x, b)
      c = Mul(a, b0)
      y = Mul(c, b1) })");
  EXPECT_EQ(run(merge_common, model).rewrites.size(), 1U);
  EXPECT_FALSE(model.graph.find_value("b0").has_value());
  EXPECT_TRUE(model.graph.find_value("b1").has_value());
}

TEST(CommonTest, AnInitializerThatIsAGraphOutputStays) {
  graph::Model model = parse(R"(g (float[2] x) => (float[2] y, float[2] w) <float[2] w = {1, 2}, float[2] v = {1, 2}> {
      a = Add(x, v)
      y = Add(a, w) })");
  run(merge_common, model);
  EXPECT_TRUE(model.graph.find_value("w").has_value());
}

}  // namespace
}  // namespace tempera::pass
