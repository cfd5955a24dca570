#include "tempera/pass/recognise/group_norm.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

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

// A group norm as PyTorch's exporters write it, with `groups` groups over 8 channels; `tail` reads y.
graph::Model model_of(int groups, std::string_view tail = "z = Relu(y)", std::string_view type = "float",
                      std::string_view size = "4") {
  const std::string text = fmt::format(R"(
    g ({1}[N,8,{2},{2}] x, {1}[8,1,1] gamma, {1}[8,1,1] beta, {1}[N,8,1,1] s, {1}[N,8,1,1] t) => ({1}[N,8,{2},{2}] z)
    <int64[3] grouped = {{0, {0}, -1}}, {1}[{0}] ones = {{{3}}}, {1}[{0}] zeros = {{{4}}}> {{
      shape = Shape(x)
      r = Reshape(x, grouped)
      i = InstanceNormalization<epsilon = 0.00001>(r, ones, zeros)
      b = Reshape(i, shape)
      m = Mul(b, gamma)
      y = Add(m, beta)
      {5}
    }})",
                                       groups, type, size, fmt::join(std::vector<int>(groups, 1), ", "),
                                       fmt::join(std::vector<int>(groups, 0), ", "), tail);
  return parse(text, 21, {"gamma", "beta"});
}

TEST(GroupNormTest, OneChannelAGroupKeepsTheLayout) {
  graph::Model model = model_of(8);
  EXPECT_EQ(run(group_norm, model).rewrites.size(), 1U);
  EXPECT_EQ(count(model, "Reshape"), 0);
  EXPECT_EQ(count(model, "Mul"), 0);
  const graph::NodeId norm = testing::only(model, "InstanceNormalization");
  EXPECT_EQ(model.graph.value(model.graph.input(norm, 0)).name, "x");
}

TEST(GroupNormTest, WiderGroupsBecomeChannelStatisticsForOpenVino) {
  graph::Model model = model_of(2);
  EXPECT_EQ(run(group_norm, model, openvino()).rewrites.size(), 1U);
  EXPECT_EQ(count(model, "InstanceNormalization"), 0);
  EXPECT_EQ(count(model, "ReduceL2"), 1);
}

TEST(GroupNormTest, ModulationIsFoldedIntoTheChannelFactors) {
  graph::Model model = model_of(2, "u = Mul(y, s)\n z = Add(u, t)");
  EXPECT_EQ(run(group_norm, model, openvino()).rewrites.size(), 1U);
  // Two operations remain that touch every pixel: one Mul and one Add that read x's full size.
  const graph::Graph& g = model.graph;
  int full_size = 0;
  for (const graph::NodeId id : g.nodes()) {
    const auto& type = g.value(g.output(id)).type;
    full_size += (g.node(id).is("Mul") || g.node(id).is("Add")) && type.shape && type.shape->size() == 4 &&
                 type.shape->at(2).value == 4;
  }
  EXPECT_EQ(full_size, 2);
}

TEST(GroupNormTest, OtherTargetsKeepWiderGroups) {
  graph::Model model = model_of(2);
  expect_untouched(group_norm, model);
}

TEST(GroupNormTest, HalfPrecisionIsLeftAlone) {
  graph::Model model = model_of(2, "z = Relu(y)", "float16");
  EXPECT_EQ(expect_untouched(group_norm, model, openvino()),
            "only float32 has the range for sums of squares");
}

TEST(GroupNormTest, UnknownSizeIsLeftAlone) {
  graph::Model model = model_of(2, "z = Relu(y)", "float", "H");
  expect_untouched(group_norm, model, openvino());
}

TEST(GroupNormTest, ASharedValueKeepsThePattern) {
  graph::Model model = parse(R"(
    g (float[1,8,4,4] x) => (float[1,8,4,4] z, float[1,2,64] r)
    <int64[3] grouped = {0, 2, -1}, int64[4] back = {1, 8, 4, 4}, float[2] ones = {1, 1}, float[2] zeros = {0, 0}> {
      r = Reshape(x, grouped)
      i = InstanceNormalization(r, ones, zeros)
      z = Reshape(i, back)
    })");
  expect_untouched(group_norm, model, openvino());
}

TEST(GroupNormTest, AnInstanceNormWithItsOwnScaleIsNoGroupNorm) {
  graph::Model model = parse(R"(
    g (float[1,8,4,4] x) => (float[1,8,4,4] z)
    <int64[3] grouped = {0, 2, -1}, int64[4] back = {1, 8, 4, 4}, float[2] scale = {1, 2}, float[2] zeros = {0, 0}> {
      r = Reshape(x, grouped)
      i = InstanceNormalization(r, scale, zeros)
      z = Reshape(i, back)
    })");
  expect_untouched(group_norm, model, openvino());
}

TEST(GroupNormTest, AReshapedBatchIsLeftAlone) {
  graph::Model model = parse(R"(
    g (float[2,8,4,4] x) => (float[2,8,4,4] z)
    <int64[3] grouped = {1, 2, -1}, int64[4] back = {2, 8, 4, 4}, float[2] ones = {1, 1}, float[2] zeros = {0, 0}> {
      r = Reshape(x, grouped)
      i = InstanceNormalization(r, ones, zeros)
      z = Reshape(i, back)
    })");
  EXPECT_EQ(expect_untouched(group_norm, model, openvino()),
            "the batch dimension is reshaped too, or unknown");
}

}  // namespace
}  // namespace tempera::pass
