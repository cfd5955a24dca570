#include "tempera/pass/layout/split_concat_conv.h"

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

constexpr std::string_view kJoined = R"(
  g (float[N,40,H,W] x, float[N,8,H,W] z, float[N,16,H,W] v, float[8,64,3,3] w, float[8] b, float[4,64,1,1] u)
    => (float[N,8,H,W] y, float[N,4,H,W] r) {
    c = Concat<axis = 1>(x, z, v)
    y = Conv<pads = [1, 1, 1, 1]>(c, w, b)
    r = Conv(c, u)
  })";

TEST(SplitConcatConvTest, EveryReaderBecomesASum) {
  graph::Model model = parse(kJoined, 21, {"w", "b", "u"});
  EXPECT_EQ(run(split_concat_conv, model, openvino()).rewrites.size(), 2U);
  EXPECT_EQ(count(model, "Concat"), 0);
  EXPECT_EQ(count(model, "Conv"), 6);
  EXPECT_EQ(count(model, "Add"), 4);
  // The bias is added once.
  int biased = 0;
  for (const graph::NodeId id : model.graph.nodes()) {
    biased += model.graph.node(id).is("Conv") && model.graph.input(id, 2).valid() ? 1 : 0;
  }
  EXPECT_EQ(biased, 1);
}

TEST(SplitConcatConvTest, LeavesWhatIsNeededWhole) {
  const auto replaced = [](std::string from, std::string to, const PassContext& context = openvino()) {
    std::string text(kJoined);
    text.replace(text.find(from), from.size(), to);
    graph::Model model = parse(text, 21, {"w", "b", "u"});
    return expect_untouched(split_concat_conv, model, context);
  };
  EXPECT_NE(replaced("r = Conv(c, u)", "r2 = Conv(c, u)  p = Relu(c)  r = Conv(p, u)"), "");
  EXPECT_NE(replaced("float[N,4,H,W] r)", "float[N,4,H,W] r, float[N,64,H,W] c)"), "");
  replaced("Concat", "Concat", PassContext{});
  graph::Model varying = parse(kJoined);
  EXPECT_NE(expect_untouched(split_concat_conv, varying, openvino()), "");
}

TEST(SplitConcatConvTest, LeavesFewChannels) {
  graph::Model model = parse(R"(
    g (float[1,4,8,8] x, float[1,8,8,8] z, float[8,12,1,1] w) => (float[1,8,8,8] y) {
      c = Concat<axis = 1>(x, z)
      y = Conv(c, w)
    })",
                             21, {"w"});
  expect_untouched(split_concat_conv, model, openvino());
}

}  // namespace
}  // namespace tempera::pass
