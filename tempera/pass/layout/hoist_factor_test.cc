#include "tempera/pass/layout/hoist_factor.h"

#include <random>
#include <string>

#include <fmt/format.h>

#include "tempera/pass/testing.h"

namespace tempera::pass {
namespace {

using testing::count;
using testing::expect_untouched;
using testing::only;
using testing::parse;
using testing::run;

// Attention of 2 heads of depth 3 over 5 positions; `scores` says how s comes from q [1,2,5,3] and k [1,2,3,5].
graph::Model attention(std::string_view scores, std::string_view type = "float", std::string_view more_outputs = "") {
  const bool half = type == "float16";  // whose elements stand in a text by their codes
  return parse(
      fmt::format(R"(
    g ({1}[1,5,6] x, {1}[6,6] wq, {1}[6] bq, {1}[6,6] wk, {1}[6,6] wv) => ({1}[1,2,5,3] y{2})
    <int64[4] heads = {{1, 5, 2, 3}}, {1} c = {{{3}}}, {1} d = {{{4}}}, {1}[1] four = {{{5}}}> {{
      q0 = MatMul(x, wq)  q1 = Add(bq, q0)  q2 = Reshape(q1, heads)  q = Transpose<perm = [0, 2, 1, 3]>(q2)
      k0 = MatMul(x, wk)  k1 = Reshape(k0, heads)  k = Transpose<perm = [0, 2, 3, 1]>(k1)
      v0 = MatMul(x, wv)  v1 = Reshape(v0, heads)  v = Transpose<perm = [0, 2, 1, 3]>(v1)
      {0}
      p = Softmax(s)  y = MatMul(p, v) }})",
                  scores, type, more_outputs, half ? "14336" : "0.5", half ? "13312" : "0.25", half ? "17408" : "4"),
      21, {"wq", "bq", "wk", "wv"});
}

int factors(const graph::Model& model) { return count(model, "Mul") + count(model, "Div"); }

TEST(HoistFactorTest, TheScaleOfAttentionGoesIntoTheProjection) {
  for (const std::string_view scores :
       {"m = MatMul(q, k)  s = Mul(m, c)", "m = MatMul(q, k)  s = Div(m, four)", "t = Mul(c, q)  s = MatMul(t, k)",
        "t = Div(k, four)  s = MatMul(q, t)", "a = Mul(q, c)  b = Mul(k, c)  m = MatMul(a, b)  s = Mul(m, d)",
        "m = Einsum<equation = \"bhqd,bhdk->bhqk\">(q, k)  s = Mul(m, c)"}) {
    graph::Model model = attention(scores);
    EXPECT_FALSE(run(hoist_factor, model).rewrites.empty()) << scores;
    EXPECT_EQ(factors(model), 0) << scores;
  }
}

TEST(HoistFactorTest, ANumberOfPositionsKnownAtRunTimeDoes) {
  graph::Model model = parse(R"(
    g (float[N,L,6] x, float[N,2,3,L] k, float[6,6] w) => (float[N,2,L,L] s)
    <int64[4] heads = {0, 0, 2, 3}, float c = {0.5}> {
      q0 = MatMul(x, w)  q1 = Reshape(q0, heads)  q = Transpose<perm = [0, 2, 1, 3]>(q1)
      m = MatMul(q, k)  s = Mul(m, c) })",
                             21, {"w"});
  EXPECT_EQ(run(hoist_factor, model).rewrites.size(), 1U);
  EXPECT_EQ(factors(model), 0);
}

TEST(HoistFactorTest, ConvolutionAndGemmTakeIt) {
  graph::Model conv = parse(R"(g (float[1,3,2,2] x, float[4,3,1,1] w, float[4] b) => (float[1,4,4] y)
    <int64[3] flat = {1, 4, 4}, float c = {3}> { m = Conv(x, w, b)  r = Reshape(m, flat)
      t = Transpose<perm = [0, 2, 1]>(r)  y = Mul(t, c) })",
                            21, {"w", "b"});
  EXPECT_EQ(run(hoist_factor, conv).rewrites.size(), 1U);
  EXPECT_EQ(factors(conv), 0);
  graph::Model gemm = parse(R"(g (float[2,3] x, float[4,3] w, float[4] b) => (float[4,2] y)
    <float c = {3}> { m = Gemm<transB = 1, alpha = 2.0, beta = 0.5>(x, w, b)  t = Transpose<perm = [1, 0]>(m)
      y = Mul(t, c) })",
                            21, {"w", "b"});
  EXPECT_EQ(run(hoist_factor, gemm).rewrites.size(), 1U);
  EXPECT_EQ(factors(gemm), 0);
}

TEST(HoistFactorTest, SubtractionIsScaledOnEitherSide) {
  for (const std::string_view shift : {"Sub(m, b)", "Sub(b, m)"}) {
    graph::Model model = parse(fmt::format(R"(g (float[2,3] x, float[3,4] w, float[4] b) => (float[2,4] y)
      <float c = {{-2}}> {{ m = MatMul(x, w)  a = {}  y = Mul(a, c) }})",
                                           shift),
                               21, {"w", "b"});
    EXPECT_EQ(run(hoist_factor, model).rewrites.size(), 1U);
    EXPECT_EQ(factors(model), 0);
  }
}

TEST(HoistFactorTest, WithoutWeightsOneFactorStaysOnTheSmallerSide) {
  graph::Model behind = parse(R"(g (float[1,2,6,3] q, float[1,2,3,6] k) => (float[1,2,6,6] s) <float c = {0.5}> {
      m = MatMul(q, k)  s = Mul(m, c) })");
  EXPECT_EQ(run(hoist_factor, behind).rewrites.size(), 1U);
  EXPECT_EQ(behind.graph.value(behind.graph.output(only(behind, "Mul"))).type.dims(), (graph::Dims{1, 2, 6, 3}));
  graph::Model few_keys = parse(R"(g (float[1,2,6,3] q, float[1,2,3,4] k) => (float[1,2,6,4] s) <float c = {0.5}> {
      m = MatMul(q, k)  s = Div(m, c) })");
  EXPECT_EQ(run(hoist_factor, few_keys).rewrites.size(), 1U);
  EXPECT_EQ(few_keys.graph.value(few_keys.graph.output(only(few_keys, "Mul"))).type.dims(), (graph::Dims{1, 2, 3, 4}));
  graph::Model both = parse(R"(g (float[1,L,2,3] q, float[1,L,2,3] k) => (float[1,2,L,L] s) <float c = {0.5}> {
      a = Transpose<perm = [0, 2, 1, 3]>(q)  qc = Mul(a, c)
      kc = Mul(k, c)  b = Transpose<perm = [0, 2, 3, 1]>(kc)  s = MatMul(qc, b) })");
  EXPECT_EQ(run(hoist_factor, both).rewrites.size(), 1U);
  EXPECT_EQ(to_doubles(*both.graph.constant(both.graph.input(only(both, "Mul"), 1))), std::vector<double>{0.25});
}

TEST(HoistFactorTest, VisibleValuesKeepTheirNumbers) {
  graph::Model output = attention("m = MatMul(q, k)  s = Mul(m, c)", "float", ", float[1,2,5,5] m");
  EXPECT_EQ(expect_untouched(hoist_factor, output), "'m' is a graph output");
  graph::Model twice = parse(R"(g (float[2,3] x, float[3,4] w) => (float[4,2] y, float[2,4] z) <float c = {2}> {
      m = MatMul(x, w)  z = Relu(m)  t = Transpose<perm = [1, 0]>(m)  y = Mul(t, c) })",
                             21, {"w"});
  EXPECT_EQ(expect_untouched(hoist_factor, twice), "'m' has 2 readers");
  graph::Model body = parse(R"(g (bool b, float[2,3] x, float[3,4] w) => (float[4,2] y, float[2,4] z) <float c = {2}> {
      m = MatMul(x, w)  t = Transpose<perm = [1, 0]>(m)  y = Mul(t, c)
      z = If(b) <then_branch = one () => (float[2,4] o) { o = Identity(m) },
                 else_branch = two () => (float[2,4] o) { o = Neg(m) }> })",
                            21, {"w"});
  EXPECT_EQ(expect_untouched(hoist_factor, body), "'m' is captured by a body");
}

// q is read by another product too: k takes the factor.
TEST(HoistFactorTest, TheOtherSideTakesItWhenOneMustKeepItsNumbers) {
  graph::Model model = attention("m = MatMul(q, k)  s = Mul(m, c)", "float", ", float[1,2,5,3] q");
  EXPECT_EQ(run(hoist_factor, model).rewrites.size(), 1U);
  EXPECT_EQ(factors(model), 0);
}

TEST(HoistFactorTest, LeavesFactorsThatAreNotOneNumber) {
  graph::Model varying =
      parse("g (float[2,3] x, float[3,4] w, float c) => (float[2,4] y) { m = MatMul(x, w)  y = Mul(m, c) }", 21, {"w"});
  expect_untouched(hoist_factor, varying);
  graph::Model list = parse(R"(g (float[2,3] x, float[3,2] w) => (float[2,2] y) <float[2,1] c = {2, 3}> {
      m = MatMul(x, w)  y = Mul(m, c) })",
                            21, {"w"});
  expect_untouched(hoist_factor, list);
  graph::Model grows = parse(R"(g (float[2,3] x, float[3,2] w) => (float[1,2,2] y) <float[1,1,1] c = {2}> {
      m = MatMul(x, w)  y = Mul(m, c) })",
                             21, {"w"});
  expect_untouched(hoist_factor, grows);
  graph::Model inverse =
      parse("g (float[2,3] x, float[3,4] w) => (float[2,4] y) <float c = {2}> { m = MatMul(x, w)  y = Div(c, m) }", 21,
            {"w"});
  expect_untouched(hoist_factor, inverse);
  graph::Model zero =
      parse("g (float[2,3] x, float[3,4] w) => (float[2,4] y) <float c = {0}> { m = MatMul(x, w)  y = Mul(m, c) }", 21,
            {"w"});
  expect_untouched(hoist_factor, zero);
  graph::Model bent = parse(R"(g (float[2,3] x, float[3,4] w) => (float[2,4] y) <float c = {2}> {
      m = MatMul(x, w)  r = Relu(m)  y = Mul(r, c) })",
                            21, {"w"});
  expect_untouched(hoist_factor, bent);
  graph::Model integers = parse(R"(g (int32[1,6,2] q, int32[1,2,6] k) => (int32[1,6,6] y) <int32 c = {2}> {
      m = MatMul(q, k)  y = Mul(m, c) })");
  expect_untouched(hoist_factor, integers);
}

TEST(HoistFactorTest, AFactorStaysBehindAProductThatIsSmallerOrOfUnknownSize) {
  graph::Model small = parse(R"(g (float[1,2,8] q, float[1,8,2] k) => (float[1,2,2] s) <float c = {0.5}> {
      m = MatMul(q, k)  s = Mul(m, c) })");
  expect_untouched(hoist_factor, small);
  graph::Model unknown = parse(R"(g (float[1,L,8] q, float[1,8,L] k) => (float[1,L,L] s) <float c = {0.5}> {
      m = MatMul(q, k)  s = Mul(m, c) })");
  expect_untouched(hoist_factor, unknown);
}

TEST(HoistFactorTest, HalfPrecisionKeepsItsRange) {
  graph::Model smaller = attention("m = MatMul(q, k)  s = Mul(m, c)", "float16");
  EXPECT_EQ(run(hoist_factor, smaller).rewrites.size(), 1U);
  // In codes: 2, and 0.001.
  graph::Model larger = parse(R"(g (float16[2,3] x, float16[3,4] w) => (float16[4,2] y) <float16 c = {16384}> {
      m = MatMul(x, w)  t = Transpose<perm = [1, 0]>(m)  y = Mul(t, c) })",
                              21, {"w"});
  expect_untouched(hoist_factor, larger);
  graph::Model vanishing = parse(R"(g (float16[1,6,2] q, float16[1,2,6] k) => (float16[1,6,6] s)
    <float16 c = {5145}> { a = Mul(q, c)  b = Mul(k, c)  s = MatMul(a, b) })");
  expect_untouched(hoist_factor, vanishing);
}

// Factors at random places of attention, by either operator, with or without a mask.
TEST(HoistFactorTest, RandomPlaces) {
  std::mt19937 generator(7);
  const auto chance = [&] { return generator() % 2 == 0; };
  const auto factor = [&](std::string_view y, std::string_view x) {
    return chance()   ? fmt::format("{} = Div({}, four)  ", y, x)
           : chance() ? fmt::format("{} = Mul({}, c)  ", y, x)
                      : fmt::format("{} = Mul(d, {})  ", y, x);
  };
  for (int i = 0; i < 40; ++i) {
    std::string text;
    std::string q = "q";
    std::string k = "k";
    std::string s = "s";
    if (chance()) {
      text += factor("qs", q);
      q = "qs";
    }
    if (chance()) {
      text += factor("ks", k);
      k = "ks";
    }
    const bool behind = chance() || (q == "q" && k == "k");
    const bool masked = chance();
    text += fmt::format("{} = MatMul({}, {})  ", behind || masked ? "m" : "s", q, k);
    if (behind) {
      text += factor(masked ? "n" : "s", "m");
    }
    if (masked) {
      text += fmt::format("s = Add({}, four)", behind ? "n" : "m");
    }
    graph::Model model = attention(text);
    EXPECT_FALSE(run(hoist_factor, model).rewrites.empty()) << text;
    EXPECT_EQ(factors(model), 0) << text;
  }
}

}  // namespace
}  // namespace tempera::pass
