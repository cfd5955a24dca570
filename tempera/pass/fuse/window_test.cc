#include "tempera/ops/access.h"
#include "tempera/pass/fuse/pad.h"
#include "tempera/pass/fuse/unshuffle.h"
#include "tempera/pass/fuse/upsample.h"
#include "tempera/pass/testing.h"

namespace tempera::pass {
namespace {

using graph::Dims;
using testing::count;
using testing::expect_untouched;
using testing::only;
using testing::parse;
using testing::run;

PassContext openvino() {
  PassContext context;
  context.target_engine = "openvino";
  return context;
}

TEST(FusePadTest, OnePadForTwoConvolutions) {
  graph::Model model = parse(R"(
    g (float[1,2,8,8] x, float[3,2,3,3] w, float[3,2,5,5] v) => (float[1,3,9,11] y, float[1,3,9,11] z)
    <int64[8] pads = {0, 0, 1, 2, 0, 0, 2, 3}> {
      p = Pad(x, pads)
      y = Conv(p, w)
      z = Conv<pads = [1, 1, 1, 1]>(p, v)
    })",
                             21, {"w", "v"});
  EXPECT_EQ(run(fuse_pad, model).rewrites.size(), 2U);
  EXPECT_EQ(count(model, "Pad"), 0);
  const graph::NodeId second = model.graph.producer(*model.graph.find_value("z"));
  EXPECT_EQ(model.graph.attribute<Dims>(second, "pads", {}), (Dims{2, 3, 3, 4}));
}

TEST(FusePadTest, AveragePoolCountsThePadding) {
  graph::Model model = parse(R"(
    g (float[1,2,8,8] x) => (float[1,2,8,8] y) <int64[8] pads = {0, 0, 1, 1, 0, 0, 1, 1}> {
      p = Pad(x, pads)
      y = AveragePool<kernel_shape = [3, 3]>(p)
    })");
  run(fuse_pad, model);
  EXPECT_EQ(model.graph.attribute<std::int64_t>(only(model, "AveragePool"), "count_include_pad", 0), 1);
}

TEST(FusePadTest, LeavesWhatIsNotTheSame) {
  const auto check = [](const std::string& pads, const std::string& pad, const std::string& reader) {
    graph::Model model = parse("g (float[1,2,8,8] x, float[3,2,3,3] w) => (y) <int64[8] pads = {" + pads +
                                   "}, float one = {1}, float zero = {0}> { p = " + pad + "  y = " + reader + " }",
                               21, {"w"});
    return expect_untouched(fuse_pad, model);
  };
  const std::string even = "0, 0, 1, 1, 0, 0, 1, 1";
  EXPECT_THAT(check(even, "Pad(x, pads, one)", "Conv(p, w)"), ::testing::HasSubstr("not zero"));
  EXPECT_NE(check(even, "Pad<mode = \"reflect\">(x, pads)", "Conv(p, w)"), "");
  EXPECT_NE(check("0, 0, -1, 1, 0, 0, 1, 1", "Pad(x, pads)", "Conv(p, w)"), "");
  EXPECT_NE(check("1, 0, 1, 1, 0, 0, 1, 1", "Pad(x, pads)", "Conv(p, w)"), "");
  EXPECT_NE(check(even, "Pad(x, pads)", "Conv<auto_pad = \"SAME_UPPER\">(p, w)"), "");
  EXPECT_NE(check(even, "Pad(x, pads)", "MaxPool<kernel_shape = [3, 3]>(p)"), "");
  EXPECT_NE(check(even, "Pad(x, pads)", "AveragePool<kernel_shape = [3, 3], pads = [1, 1, 1, 1]>(p)"), "");
  EXPECT_NE(check(even, "Pad(x, pads)", "AveragePool<kernel_shape = [3, 3], strides = [2, 2], ceil_mode = 1>(p)"), "");
}

constexpr std::string_view kUnshuffle = R"(
  g (float[1,3,8,12] x, float[5,12,1,1] w, float[5] b) => (float[1,5,4,6] y)
  <int64[6] cut = {1, 3, 4, 2, 6, 2}, int64[4] merge = {1, 12, 4, 6}> {
    a = Reshape(x, cut)
    t = Transpose<perm = [0, 1, 3, 5, 2, 4]>(a)
    c = Reshape(t, merge)
    y = Conv(c, w, b)
  })";

TEST(FuseUnshuffleTest, BecomesAStride) {
  graph::Model model = parse(kUnshuffle, 21, {"w", "b"});
  EXPECT_EQ(run(fuse_unshuffle, model).rewrites.size(), 1U);
  EXPECT_EQ(model.graph.node_count(), 1U);
  const graph::NodeId conv = only(model, "Conv");
  EXPECT_EQ(model.graph.constant(model.graph.input(conv, 1))->dims(), (Dims{5, 3, 2, 2}));
  EXPECT_EQ(model.graph.attribute<Dims>(conv, "strides", {}), (Dims{2, 2}));
}

TEST(FuseUnshuffleTest, SpaceToDepthHasTheBlockFirst) {
  graph::Model model = parse(R"(
    g (float[N,3,8,12] x, float[5,12,1,1] w) => (float[N,5,4,6] y) {
      c = SpaceToDepth<blocksize = 2>(x)
      y = Conv(c, w)
    })",
                             21, {"w"});
  const auto w = *model.graph.constant(*model.graph.find_value("w"));
  run(fuse_unshuffle, model);
  const auto v = *model.graph.constant(model.graph.input(only(model, "Conv"), 1));
  // Output 0, channel 2, block element (1, 0): channel (1 * 2 + 0) * 3 + 2 before.
  EXPECT_EQ(v.values<float>()[(2 * 2 + 1) * 2 + 0], w.values<float>()[8]);
}

TEST(FuseUnshuffleTest, LeavesOtherPermutationsKernelsAndReaders) {
  const auto replaced = [](std::string from, std::string to) {
    std::string text(kUnshuffle);
    text.replace(text.find(from), from.size(), to);
    graph::Model model = parse(text, 21, {"w", "b"});
    expect_untouched(fuse_unshuffle, model);
  };
  replaced("[0, 1, 3, 5, 2, 4]", "[0, 3, 5, 1, 2, 4]");
  replaced("Conv(c", "Conv<pads = [0, 0, 0, 0], strides = [1, 2]>(c");
  replaced("=> (float[1,5,4,6] y)", "=> (float[1,5,4,6] y, float[1,12,4,6] c)");
}

constexpr std::string_view kUpsample = R"(
  g (float[N,2,H,5] x, float[17,2,3,3] w, float[17] b) => (float[N,17,P,Q] y)
  <float[4] scales = {1, 1, 2, 2}> {
    u = Resize<mode = "nearest", coordinate_transformation_mode = "asymmetric", nearest_mode = "floor">(x, , scales)
    y = Conv<pads = [1, 1, 1, 1]>(u, w, b)
  })";

TEST(FuseUpsampleTest, ManyChannelsBecomeATransposedConvolution) {
  for (const std::string mode : {"\"asymmetric\", nearest_mode = \"floor\"",
                                 "\"half_pixel\", nearest_mode = \"round_prefer_floor\"",
                                 "\"pytorch_half_pixel\", nearest_mode = \"round_prefer_ceil\""}) {
    std::string text(kUpsample);
    const std::string from = "\"asymmetric\", nearest_mode = \"floor\"";
    text.replace(text.find(from), from.size(), mode);
    graph::Model model = parse(text, 21, {"w", "b"});
    EXPECT_EQ(run(fuse_upsample, model, openvino()).rewrites.size(), 1U);
    EXPECT_EQ(model.graph.constant(model.graph.input(only(model, "ConvTranspose"), 1))->dims(), (Dims{2, 17, 4, 4}));
  }
}

TEST(FuseUpsampleTest, FewChannelsBecomePhases) {
  for (const char* scale : {"2", "3", "4"}) {
    for (const char* kernel : {"3", "5", "1"}) {
      const std::string k(kernel);
      const std::string half(k == "3" ? "1" : k == "5" ? "2" : "0");
      graph::Model model = parse("g (float[N,2,H,W] x, float[3,2," + k + "," + k + "] w, float[3] b) => (y) <float[4] s = {1, 1, " +
                                     scale + ", " + scale +
                                     "}> { u = Resize<mode = \"nearest\", coordinate_transformation_mode = \"half_pixel\","
                                     " nearest_mode = \"round_prefer_floor\">(x, , s)  y = Conv<pads = [" +
                                     half + "," + half + "," + half + "," + half + "]>(u, w, b) }",
                                 21, {"w", "b"});
      EXPECT_EQ(run(fuse_upsample, model, openvino()).rewrites.size(), 1U);
      EXPECT_EQ(count(model, "DepthToSpace"), 1);
      EXPECT_EQ(count(model, "Resize"), 0);
    }
  }
}

// By hand, k = 3, r = 2: phase 0 meets pixels -1, 0, 0 and phase 1 pixels 0, 0, 1.
TEST(FuseUpsampleTest, TapsThatMeetOnePixelAddUp) {
  graph::Model model = parse(R"(
    g (float[1,1,2,2] x) => (float[1,1,4,4] y)
    <float[4] scales = {1, 1, 2, 2}, float[1,1,3,3] w = {1, 2, 3, 4, 5, 6, 7, 8, 9}> {
      u = Resize<mode = "nearest", coordinate_transformation_mode = "asymmetric", nearest_mode = "floor">(x, , scales)
      y = Conv<pads = [1, 1, 1, 1]>(u, w)
    })");
  run(fuse_upsample, model, openvino());
  const graph::NodeId conv = only(model, "Conv");
  const std::vector<double> w = to_doubles(*model.graph.constant(model.graph.input(conv, 1)));
  const std::vector<double> corner(w.begin(), w.begin() + 9);
  EXPECT_EQ(corner, (std::vector<double>{1, 5, 0, 11, 28, 0, 0, 0, 0}));
  const std::vector<double> last(w.end() - 9, w.end());
  EXPECT_EQ(last, (std::vector<double>{0, 0, 0, 0, 1 + 2 + 4 + 5, 3 + 6, 0, 7 + 8, 9}));
  EXPECT_EQ(model.graph.attribute<Dims>(conv, "pads", {}), (Dims{1, 1, 1, 1}));
}

TEST(FuseUpsampleTest, LeavesOtherModesScalesWindowsAndTargets) {
  const auto replaced = [](std::string from, std::string to, const PassContext& context) {
    std::string text(kUpsample);
    text.replace(text.find(from), from.size(), to);
    graph::Model model = parse(text, 21, {"w", "b"});
    expect_untouched(fuse_upsample, model, context);
  };
  replaced("\"floor\"", "\"ceil\"", openvino());
  replaced("\"nearest\"", "\"linear\"", openvino());
  replaced("{1, 1, 2, 2}", "{1, 1, 2, 3}", openvino());
  replaced("{1, 1, 2, 2}", "{1, 1, 1.5, 1.5}", openvino());
  replaced("{1, 1, 2, 2}", "{1, 1, 4, 4}", openvino());  // 17 x 16 channels
  replaced("pads = [1, 1, 1, 1]", "pads = [1, 1, 1, 1], strides = [2, 2]", openvino());
  replaced("pads = [1, 1, 1, 1]", "pads = [0, 0, 0, 0]", openvino());
  replaced("float[N,17,P,Q] y)", "float[N,17,P,Q] y, float[N,2,R,S] u)", openvino());
  replaced("Resize", "Resize", PassContext{});
}

}  // namespace
}  // namespace tempera::pass
