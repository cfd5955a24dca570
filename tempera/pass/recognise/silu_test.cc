#include "tempera/pass/recognise/silu.h"

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

TEST(SiluByTanhTest, EitherOrderOfTheProduct) {
  for (const char* product : {"Mul(a, s)", "Mul(s, a)"}) {
    graph::Model model = parse(std::string("g (float[N,64,64] x) => (float[N,64,64] y) { a = Neg(x)  s = Sigmoid(a)  y = ") +
                               product + " }");
    EXPECT_EQ(run(silu_by_tanh, model, openvino()).rewrites.size(), 1U);
    EXPECT_EQ(count(model, "Sigmoid"), 0);
    EXPECT_EQ(count(model, "Tanh"), 1);
  }
}

TEST(SiluByTanhTest, HalfPrecisionKeepsItsType) {
  graph::Model model = parse("g (float16[1,64,64] x) => (float16[1,64,64] y) { s = Sigmoid(x)  y = Mul(x, s) }");
  EXPECT_EQ(run(silu_by_tanh, model, openvino()).rewrites.size(), 1U);
}

TEST(SiluByTanhTest, LeavesOthers) {
  const auto untouched = [](const std::string& text, const PassContext& context = openvino()) {
    graph::Model model = parse(text, 21, {"w"});
    return expect_untouched(silu_by_tanh, model, context);
  };
  const std::string head = "g (float[1,64,64] x, float[64,64] w) => (float[1,64,64] y";
  const std::string silu = "s = Sigmoid(x)  y = Mul(x, s) }";
  EXPECT_EQ(untouched(head + ") { a = Neg(w) " + silu, PassContext{}), "");
  EXPECT_NE(untouched(head + ", float[1,64,64] s) { a = Neg(w) " + silu), "");
  EXPECT_NE(untouched(head + ", float[1,64,64] r) { s = Sigmoid(x)  r = Add(s, w)  y = Mul(x, s) }"), "");
  EXPECT_NE(untouched("g (float[4,4] x, float[4,4] w) => (float[4,4] y) { a = Neg(w)  s = Sigmoid(x)  y = Mul(x, s) }"), "");
  EXPECT_NE(untouched("g (float[1,4,64,64] x, float[4,4,1,1] w) => (float[1,4,64,64] y) { c = Conv(x, w)  s = Sigmoid(c)  y = Mul(c, s) }"), "");
  untouched(head + ") { s = Sigmoid(w)  y = Mul(x, s) }");
}

}  // namespace
}  // namespace tempera::pass
