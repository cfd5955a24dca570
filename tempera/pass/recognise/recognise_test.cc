#include "tempera/ops/access.h"
#include "tempera/pass/recognise/gelu.h"
#include "tempera/pass/recognise/layer_norm.h"
#include "tempera/pass/recognise/pixel_shuffle.h"
#include "tempera/pass/testing.h"

namespace tempera::pass {
namespace {

using testing::count;
using testing::expect_untouched;
using testing::only;
using testing::parse;
using testing::run;

// -- GELU ----------------------------------------------------------------------------------------------------------------

graph::Model gelu_model(const std::string& nodes, std::int64_t opset = 20, const std::string& outputs = "float[N,8] y") {
  return parse("g (float[N,8] x) => (" + outputs +
                   ") <float root = {1.41421356}, float inverse = {0.70710678}, float half = {0.5}, float one = {1},"
                   " float two = {2}, float three = {3}, float c = {0.044715}, float s = {0.7978846}> {" +
                   nodes + "}",
               opset);
}

TEST(GeluTest, EveryOrderOfTheFactors) {
  const char* const forms[] = {
      "a = Div(x, root) b = Erf(a) d = Add(b, one) e = Mul(x, d) y = Mul(e, half)",
      "a = Mul(inverse, x) b = Erf(a) d = Add(one, b) h = Mul(half, x) y = Mul(d, h)",
      "a = Div(x, root) b = Erf(a) d = Add(b, one) e = Mul(d, half) y = Mul(e, x)",
      "a = Div(x, root) b = Erf(a) d = Add(b, one) e = Div(d, two) y = Mul(x, e)",
  };
  for (const char* form : forms) {
    graph::Model model = gelu_model(form);
    EXPECT_EQ(run(gelu, model).rewrites.size(), 1U) << form;
    EXPECT_EQ(model.graph.node_count(), 1U) << form;
    EXPECT_EQ(model.graph.attribute<std::string>(only(model, "Gelu"), "approximate", ""), "none");
  }
}

TEST(GeluTest, ByTanh) {
  const char* const cubes[] = {"k = Pow(x, three)", "q = Mul(x, x) k = Mul(q, x)"};
  for (const std::string cube : cubes) {
    graph::Model model = gelu_model(cube + " m = Mul(c, k) a = Add(x, m) i = Mul(a, s) t = Tanh(i) d = Add(t, one)"
                                           " h = Mul(x, half) y = Mul(h, d)");
    EXPECT_EQ(run(gelu, model).rewrites.size(), 1U) << cube;
    EXPECT_EQ(model.graph.attribute<std::string>(only(model, "Gelu"), "approximate", ""), "tanh");
  }
}

TEST(GeluTest, LeavesOthers) {
  const std::string form = "a = Div(x, root) b = Erf(a) d = Add(b, one) e = Mul(x, d) y = Mul(e, half)";
  graph::Model old = gelu_model(form, 19);
  expect_untouched(gelu, old);
  graph::Model output = gelu_model(form, 20, "float[N,8] y, float[N,8] e");
  expect_untouched(gelu, output);
  graph::Model factor = gelu_model("a = Div(x, root) b = Erf(a) d = Add(b, one) e = Mul(x, d) y = Mul(e, two)");
  expect_untouched(gelu, factor);
  graph::Model argument = gelu_model("a = Div(x, two) b = Erf(a) d = Add(b, one) e = Mul(x, d) y = Mul(e, half)");
  expect_untouched(gelu, argument);
}

// -- LayerNorm and RMSNorm -------------------------------------------------------------------------------------------------

graph::Model norm_model(const std::string& nodes, const std::string& type = "float", std::int64_t opset = 18,
                        const std::string& outputs = "[N,5,8] y") {
  return parse("g (" + type + "[N,5,8] x, " + type + "[8] gamma, " + type + "[8] beta, " + type + "[5,1] other) => (" + type +
                   outputs + ") <int64[1] last = {-1}, int64[1] middle = {1}, " + type + " eps = {" +
                   (type == "float16" ? "1" : "0.001") + "}, float two = {2}> {" + nodes + "}",
               opset, {"gamma", "beta", "other"});
}

constexpr const char* kLayerNorm =
    "m = ReduceMean(x, last) d = Sub(x, m) q = Mul(d, d) v = ReduceMean(q, last) w = Add(v, eps) s = Sqrt(w)"
    " n = Div(d, s) g = Mul(n, gamma) y = Add(g, beta)";

TEST(LayerNormTest, WrittenOut) {
  graph::Model model = norm_model(kLayerNorm);
  EXPECT_EQ(run(layer_norm, model).rewrites.size(), 1U);
  EXPECT_EQ(model.graph.node_count(), 1U);
  const graph::NodeId norm = only(model, "LayerNormalization");
  EXPECT_EQ(model.graph.attribute<std::int64_t>(norm, "axis", 0), 2);
  EXPECT_FLOAT_EQ(model.graph.attribute<float>(norm, "epsilon", 0), 0.001F);
}

TEST(LayerNormTest, WithoutScaleAndByPow) {
  graph::Model model = norm_model(
      "m = ReduceMean(x, last) d = Sub(x, m) q = Pow(d, two) v = ReduceMean(q, last) w = Add(v, eps) s = Sqrt(w) y = Div(d, s)");
  EXPECT_EQ(run(layer_norm, model).rewrites.size(), 1U);
  EXPECT_EQ(model.graph.node_count(), 1U);
}

// With 300 sigma the square of a half overflows; the operator's statistics are float32.
TEST(LayerNormTest, HalfPrecisionGainsRange) {
  graph::Model model = norm_model(kLayerNorm, "float16");
  EXPECT_EQ(run(layer_norm, model).rewrites.size(), 1U);
  EXPECT_EQ(model.graph.attribute<std::int64_t>(only(model, "LayerNormalization"), "stash_type", 1), 1);
}

TEST(LayerNormTest, LeavesOthers) {
  graph::Model doubles = norm_model(kLayerNorm, "double");
  EXPECT_NE(expect_untouched(layer_norm, doubles), "");
  graph::Model old = parse(R"(g (float[N,8] x) => (float[N,8] y) <float eps = {0.001}> {
      m = ReduceMean<axes = [-1]>(x)  d = Sub(x, m)  q = Mul(d, d)  v = ReduceMean<axes = [-1]>(q)
      w = Add(v, eps)  s = Sqrt(w)  y = Div(d, s) })",
                           13);
  expect_untouched(layer_norm, old);
  graph::Model axes = norm_model(
      "m = ReduceMean(x, middle) d = Sub(x, m) q = Mul(d, d) v = ReduceMean(q, middle) w = Add(v, eps) s = Sqrt(w) y = Div(d, s)");
  expect_untouched(layer_norm, axes);
  graph::Model output = norm_model(kLayerNorm, "float", 18, "[N,5,8] y, float[N,5,8] d");
  EXPECT_THAT(expect_untouched(layer_norm, output), ::testing::HasSubstr("graph output"));
}

TEST(LayerNormTest, AScaleOfAnotherShapeStaysBehind) {
  graph::Model model = norm_model(
      "m = ReduceMean(x, last) d = Sub(x, m) q = Mul(d, d) v = ReduceMean(q, last) w = Add(v, eps) s = Sqrt(w)"
      " n = Div(d, s) y = Mul(n, other)");
  run(layer_norm, model);
  EXPECT_EQ(count(model, "Mul"), 1);
}

TEST(RmsNormTest, ByDivisionOrReciprocal) {
  const char* const ends[] = {"n = Div(x, s) y = Mul(gamma, n)", "r = Reciprocal(s) n = Mul(x, r) y = Mul(n, gamma)"};
  for (const std::string end : ends) {
    const std::string form = "q = Mul(x, x) v = ReduceMean(q, last) w = Add(eps, v) s = Sqrt(w) " + end;
    graph::Model model = norm_model(form, "float", 23);
    EXPECT_EQ(run(rms_norm, model).rewrites.size(), 1U) << end;
    EXPECT_EQ(model.graph.node_count(), 1U);
    graph::Model old = norm_model(form, "float", 22);
    expect_untouched(rms_norm, old);
  }
}

// -- pixel shuffle ---------------------------------------------------------------------------------------------------------

graph::Model shuffle_model(const std::string& x, const std::string& middle, const std::string& perm, const std::string& y) {
  return parse("g (float[" + x + "] x) => (float[" + y + "] y) <int64[6] cut = {" + middle + "}, int64[4] merge = {" + y +
               "}> { a = Reshape(x, cut)  b = Transpose<perm = [" + perm + "]>(a)  y = Reshape(b, merge) }");
}

TEST(PixelShuffleTest, EveryOrderThatAnOperatorHas) {
  graph::Model crd = shuffle_model("2,12,4,5", "2,3,2,2,4,5", "0,1,4,2,5,3", "2,3,8,10");
  EXPECT_EQ(run(pixel_shuffle, crd).rewrites.size(), 1U);
  EXPECT_EQ(crd.graph.attribute<std::string>(only(crd, "DepthToSpace"), "mode", ""), "CRD");
  graph::Model dcr = shuffle_model("2,12,4,5", "2,2,2,3,4,5", "0,3,4,1,5,2", "2,3,8,10");
  EXPECT_EQ(run(pixel_shuffle, dcr).rewrites.size(), 1U);
  EXPECT_EQ(dcr.graph.attribute<std::string>(only(dcr, "DepthToSpace"), "mode", ""), "DCR");
  graph::Model depth = shuffle_model("2,3,8,10", "2,3,4,2,5,2", "0,3,5,1,2,4", "2,12,4,5");
  EXPECT_EQ(run(pixel_shuffle, depth).rewrites.size(), 1U);
  EXPECT_EQ(count(depth, "SpaceToDepth"), 1);
}

TEST(PixelShuffleTest, LeavesOthers) {
  graph::Model channels_first = shuffle_model("2,3,8,10", "2,3,4,2,5,2", "0,1,3,5,2,4", "2,12,4,5");
  expect_untouched(pixel_shuffle, channels_first);
  graph::Model oblong = shuffle_model("2,12,4,5", "2,2,2,3,4,5", "0,1,4,2,5,3", "2,2,8,15");
  expect_untouched(pixel_shuffle, oblong);
  graph::Model regrouped = shuffle_model("2,12,4,5", "2,3,2,2,4,5", "0,1,4,2,5,3", "2,6,4,10");
  expect_untouched(pixel_shuffle, regrouped);
}

}  // namespace
}  // namespace tempera::pass
