#include "tempera/pass/recognise/linear_attention.h"

#include <string>

#include <fmt/format.h>

#include "tempera/ops/einsum.h"
#include "tempera/pass/recognise/unit_norm.h"
#include "tempera/pass/testing.h"

namespace tempera::pass {
namespace {

using testing::count;
using testing::expect_untouched;
using testing::parse;
using testing::run;

PassContext openvino() {
  PassContext context;
  context.target_engine = "openvino";
  return context;
}

struct Variant {
  std::string norm =
      "length = ReduceL2<keepdims = 1>(x, channels)  raised = Clip(length, low)  u = Div(x, raised)";
  std::string keys = "Concat<axis = -1>(mk, k4)";
  std::string values = "Concat<axis = -1>(mv, v4)";
  std::string sum = "b h d n, b h e n -> b h d e";
  std::string size = "8,8";
  std::string outputs;
  std::string context_axis = "-1";
};

// Two heads of depth 4 over 64 pixels of 6 channels, as PyTorch's exporters leave it once q, k and v are
// apart.
graph::Model model_of(const Variant& v) {
  const std::string text = fmt::format(R"(
    g (float[1,6,{4}] x, float[1,6,1,1] g1, float[8,6,1,1] wq, float[8,6,1,1] wk, float[8,6,1,1] wv,
       float[1,2,4,3] mk, float[1,2,4,3] mv, float[5,8,1,1] wo, float[5] bo) => (float[1,5,{4}] y{5})
    <int64[1] channels = {{1}}, float low = {{0.000001}}, float root = {{2.449}}, float scale = {{0.5}},
     int64[4] heads = {{1, 2, 4, -1}}, int64[4] map = {{1, 8, {4}}}> {{
      {0}
      s = Mul(u, g1)
      n = Mul(s, root)
      q = Conv(n, wq)
      k = Conv(n, wk)
      v = Conv(n, wv)
      q4 = Reshape(q, heads)
      k4 = Reshape(k, heads)
      v4 = Reshape(v, heads)
      qs = Softmax<axis = -2>(q4)
      qm = Mul(qs, scale)
      kc = {1}
      vc = {2}
      ks = Softmax<axis = {6}>(kc)
      a = Einsum<equation = "{3}">(ks, vc)
      o = Einsum<equation = "b h d e, b h d n -> b h e n">(a, qm)
      r = Reshape(o, map)
      y = Conv(r, wo, bo)
    }})",
                                       v.norm, v.keys, v.values, v.sum, v.size, v.outputs, v.context_axis);
  return parse(text, 18, {"g1", "wq", "wk", "wv", "mk", "mv", "wo", "bo"});
}

TEST(LinearAttentionTest, BecomesConvolutionsAndSmallProducts) {
  graph::Model model = model_of({});
  const PassResult result = run(linear_attention, model, openvino());
  ASSERT_EQ(result.rewrites.size(), 1U);
  EXPECT_EQ(count(model, "Einsum"), 0);
  EXPECT_EQ(count(model, "Concat"), 0);
  EXPECT_EQ(count(model, "Conv"), 3);  // of q, of k, and the last, whose weights are computed; v has none
  EXPECT_EQ(count(model, "Exp"), 1);
  EXPECT_EQ(count(model, "Softmax"), 1);
  for (const graph::NodeId id : model.graph.nodes()) {
    if (model.graph.node(id).is("Transpose")) {
      // Only between channels-first and channels-last.
      const auto perm = model.graph.attribute<std::vector<std::int64_t>>(id, "perm", {});
      EXPECT_THAT(perm,
                  ::testing::AnyOf(::testing::ElementsAre(0, 2, 3, 1), ::testing::ElementsAre(0, 3, 1, 2)));
    }
  }
}

TEST(LinearAttentionTest, EveryFormOfTheLength) {
  for (const char* norm :
       {"u = LpNormalization<axis = 1, p = 2>(x)",
        "length = ReduceL2<keepdims = 1>(x, channels)  u = Div(x, length)",
        "length = ReduceL2<keepdims = 1>(x, channels)  more = Add(length, low)  u = Div(x, more)",
        "length = ReduceL2<keepdims = 1>(x, channels)  more = Max(low, length)  u = Div(x, more)"}) {
    Variant variant;
    variant.norm = norm;
    graph::Model model = model_of(variant);
    EXPECT_EQ(run(linear_attention, model, openvino()).rewrites.size(), 1U) << norm;
  }
}

TEST(LinearAttentionTest, WithoutABoundItKeepsTheSoftmax) {
  for (const char* norm :
       {"u = Relu(x)", "u = LpNormalization<axis = 1, p = 1>(x)", "u = LpNormalization<axis = 2, p = 2>(x)",
        "length = ReduceL2<keepdims = 1>(x, channels)  less = Sub(length, low)  u = Div(x, less)",
        "length = ReduceL2<keepdims = 1>(x, channels)  capped = Clip(length, , low)  u = Div(x, capped)",
        "length = ReduceL2<keepdims = 1>(x, channels)  n2 = Neg(x)  more = Add(length, low)  u = Div(n2, "
        "more)"}) {
    Variant variant;
    variant.norm = norm;
    graph::Model model = model_of(variant);
    EXPECT_EQ(expect_untouched(linear_attention, model, openvino()),
              "the input is not seen to be divided by its norm, so the logits have no bound")
        << norm;
  }
}

TEST(LinearAttentionTest, LargeLogitsKeepTheSoftmax) {
  graph::Model model = model_of({});
  graph::Graph& g = model.graph;
  const graph::ValueId memory = g.find_value("mk").value();
  std::vector<float> values(24, 0.0F);
  values[7] = -41.0F;
  g.set_constant(memory, graph::Tensor::from<float>({1, 2, 4, 3}, std::span<const float>(values)));
  EXPECT_EQ(expect_untouched(linear_attention, model, openvino()), "the logits may reach 41, more than 40");
}

TEST(LinearAttentionTest, FewPixelsKeepTheHeads) {
  Variant variant;
  variant.size = "3,3";  // 8 (6 + 5) > 2 4 9
  graph::Model model = model_of(variant);
  EXPECT_EQ(expect_untouched(linear_attention, model, openvino()),
            "9 pixels are too few for the matrices that the heads become");
}

TEST(LinearAttentionTest, OtherGraphsAreLeftAlone) {
  Variant sum;
  sum.sum = "b h e n, b h d n -> b h d e";  // the transposed context
  graph::Model other_sum = model_of(sum);
  expect_untouched(linear_attention, other_sum, openvino());
  Variant axis;
  axis.context_axis = "-2";
  graph::Model other_axis = model_of(axis);
  expect_untouched(linear_attention, other_axis, openvino());
  for (const char* seen :
       {", float[1,2,4,4] a", ", float[1,2,4,N] q4", ", float[1,8,8,8] k", ", float[1,8,8,8] r"}) {
    Variant visible;
    visible.outputs = seen;
    graph::Model model = model_of(visible);
    expect_untouched(linear_attention, model, openvino());
  }
  graph::Model elsewhere = model_of({});
  expect_untouched(linear_attention, elsewhere);
}

TEST(EinsumFormTest, ContractionsAreComparedWithoutTheirLetters) {
  const auto same = [](std::string_view a, std::string_view b) {
    return ops::same_contraction(ops::parse_einsum(a).value(), b);
  };
  EXPECT_TRUE(same("z a b, z a c -> z b c", "bct,bcs->bts"));
  EXPECT_FALSE(same("bct,bcs->bst", "bct,bcs->bts"));
  EXPECT_FALSE(same("bcc,bcs->bcs", "bct,bcs->bts"));
  EXPECT_FALSE(same("bct,bcs->bts", "bcc,bcs->bcs"));
  EXPECT_FALSE(same("bc,tbcs->bts", "bct,bcs->bts"));
  EXPECT_FALSE(same("bct->bct", "bct,bcs->bts"));
}

}  // namespace
}  // namespace tempera::pass
