#include "tempera/pass/recognise/channel_attention.h"

#include <fmt/format.h>

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

// Two heads of depth 3 over a 2 x 2 map.
graph::Model model_of(std::string_view first = "bct,bcs->bts", std::string_view second = "bts,bcs->bct",
                      int axis = -1, std::string_view outputs = "float[1,6,2,2] y") {
  return parse(fmt::format(R"(
    g (float[1,6,2,2] q, float[1,6,2,2] k, float[1,6,2,2] v) => ({3})
    <int64[3] heads = {{2, 3, 4}}, int64[4] map = {{1, 6, 2, 2}}> {{
      q3 = Reshape(q, heads)
      k3 = Reshape(k, heads)
      v3 = Reshape(v, heads)
      s = Einsum<equation = "{0}">(q3, k3)
      p = Softmax<axis = {2}>(s)
      o = Einsum<equation = "{1}">(p, v3)
      y = Reshape(o, map)
    }})",
                           first, second, axis, outputs));
}

TEST(ChannelAttentionTest, EinsumsBecomeTwoProducts) {
  graph::Model model = model_of();
  EXPECT_EQ(run(channel_attention, model, openvino()).rewrites.size(), 1U);
  EXPECT_EQ(count(model, "Einsum"), 0);
  EXPECT_EQ(count(model, "MatMul"), 2);
}

TEST(ChannelAttentionTest, LettersDoNotMatter) {
  graph::Model model = model_of("zab,zac->zbc", "qrs,qts->qtr");
  EXPECT_EQ(run(channel_attention, model, openvino()).rewrites.size(), 1U);
}

TEST(ChannelAttentionTest, OtherContractionsAreLeftAlone) {
  graph::Model swapped = model_of("bct,bcs->bst");
  expect_untouched(channel_attention, swapped, openvino());
  graph::Model over_queries = model_of("bct,bcs->bts", "bts,bcs->bct", 1);
  expect_untouched(channel_attention, over_queries, openvino());
}

TEST(ChannelAttentionTest, VisibleScoresKeepThePattern) {
  graph::Model model = model_of("bct,bcs->bts", "bts,bcs->bct", -1, "float[1,6,2,2] y, float[2,4,4] p");
  expect_untouched(channel_attention, model, openvino());
}

TEST(ChannelAttentionTest, OtherTargetsKeepThePattern) {
  graph::Model model = model_of();
  expect_untouched(channel_attention, model);
}

}  // namespace
}  // namespace tempera::pass
