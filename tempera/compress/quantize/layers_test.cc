#include "tempera/compress/quantize/layers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tempera/pass/testing.h"

namespace tempera::compress {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

using pass::testing::parse;

std::string name_of(const graph::Model& model, graph::ValueId id) {
  return id.valid() ? model.graph.value(id).name : "-";
}

TEST(FindLayers, ConvHasOutputChannelsFirst) {
  const graph::Model model = parse(R"(g (float[1,4,8,8] x, float[6,2,3,3] w) => (float[1,6,6,6] y)
    <float[6] b = {1,2,3,4,5,6}> { [conv] y = Conv <group = 2> (x, w, b) })",
                                   21, {"w"});
  const std::vector<Layer> layers = find_layers(model.graph);
  ASSERT_THAT(layers, SizeIs(1));
  EXPECT_EQ(layers[0].name, "conv");
  EXPECT_EQ(name_of(model, layers[0].input), "x");
  EXPECT_EQ(name_of(model, layers[0].weight), "w");
  EXPECT_EQ(name_of(model, layers[0].bias), "b");
  EXPECT_EQ(name_of(model, layers[0].second), "-");
  EXPECT_EQ(layers[0].channel_axis, 0);
  EXPECT_EQ(layers[0].reduced_axis, 1);
  EXPECT_EQ(layers[0].group, 2);
  EXPECT_EQ(layers[0].multiplications, 6 * 6 * 6 * 2 * 3 * 3);
}

TEST(FindLayers, ConvTransposeHasOutputChannelsOfOneGroupSecond) {
  const graph::Model model = parse(R"(g (float[1,4,8,8] x, float[4,3,2,2] w) => (float[1,6,9,9] y)
    { y = ConvTranspose <group = 2> (x, w) })",
                                   21, {"w"});
  const std::vector<Layer> layers = find_layers(model.graph);
  ASSERT_THAT(layers, SizeIs(1));
  EXPECT_EQ(layers[0].name, "y") << "a node without a name is called by its output";
  EXPECT_EQ(layers[0].channel_axis, 1);
  EXPECT_EQ(layers[0].reduced_axis, 0);
  EXPECT_FALSE(layers[0].bias.valid());
  EXPECT_EQ(layers[0].multiplications, 4 * 8 * 8 * 3 * 2 * 2);
}

TEST(FindLayers, GemmAxesFollowTheTranspositions) {
  const graph::Model model =
      parse(R"(g (float[2,4] x, float[4,3] kn, float[3,4] nk, float[5,4] mk, float[4,5] km) =>
      (float[2,3] a, float[2,3] b, float[5,2] c, float[5,2] d)
    <float[1] bias = {2}> {
      a = Gemm <alpha = 0.5> (x, kn, bias)
      b = Gemm <transB = 1> (x, nk)
      c = Gemm <transB = 1> (mk, x)
      d = Gemm <transA = 1, transB = 1> (km, x) })",
            21, {"kn", "nk", "mk", "km"});
  const std::vector<Layer> layers = find_layers(model.graph);
  ASSERT_THAT(layers, SizeIs(4));
  const auto axes = [&](std::size_t i) {
    return std::vector<std::int64_t>{static_cast<std::int64_t>(layers[i].weight_input),
                                     layers[i].channel_axis, layers[i].reduced_axis,
                                     layers[i].multiplications};
  };
  EXPECT_THAT(axes(0), ElementsAre(1, 1, 0, 2 * 4 * 3));
  EXPECT_THAT(axes(1), ElementsAre(1, 0, 1, 2 * 4 * 3));
  EXPECT_THAT(axes(2), ElementsAre(0, 0, 1, 5 * 4 * 2));
  EXPECT_THAT(axes(3), ElementsAre(0, 1, 0, 5 * 4 * 2));
  EXPECT_EQ(name_of(model, layers[0].bias), "bias");
  for (const Layer& layer : layers) {
    EXPECT_EQ(name_of(model, layer.input), "x");
  }
}

TEST(FindLayers, MatMulWithAConstantOnEitherSide) {
  const graph::Model model =
      parse(R"(g (float[2,5,4] x, float[4,3] right, float[2,7,5] left) => (float[2,5,3] a, float[2,7,4] b)
    { a = MatMul(x, right)  b = MatMul(left, x) })",
            21, {"right", "left"});
  const std::vector<Layer> layers = find_layers(model.graph);
  ASSERT_THAT(layers, SizeIs(2));
  EXPECT_EQ(layers[0].weight_input, 1U);
  EXPECT_EQ(layers[0].channel_axis, 1);
  EXPECT_EQ(layers[0].reduced_axis, 0);
  EXPECT_EQ(layers[0].multiplications, 2 * 5 * 3 * 4);
  EXPECT_EQ(layers[1].weight_input, 0U);
  EXPECT_EQ(layers[1].channel_axis, 1);
  EXPECT_EQ(layers[1].reduced_axis, 2);
}

TEST(FindLayers, WeightThroughTransposeReshapeAndIdentityIsItsRoot) {
  const graph::Model model =
      parse(R"(g (float[2,4] x, float[1,4,8,8] image, float[3,4] w) => (float[2,3] y, float[1,3,8,8] z)
    <int64[4] shape = {3,4,1,1}> {
      t = Transpose(w)
      i = Identity(t)
      y = MatMul(x, i)
      r = Reshape(w, shape)
      z = Conv(image, r) })",
            21, {"w"});
  const std::vector<Layer> layers = find_layers(model.graph);
  ASSERT_THAT(layers, SizeIs(2));
  for (const Layer& layer : layers) {
    EXPECT_EQ(name_of(model, layer.weight), "w");
    EXPECT_EQ(layer.channel_axis, 0);
    EXPECT_EQ(layer.reduced_axis, 1);
  }
}

TEST(FindLayers, WeightWhoseReshapeMixesTheAxesIsNoLayer) {
  const graph::Model model = parse(R"(g (float[2,4] x, float[2,6] w) => (float[2,3] y)
    <int64[2] shape = {4,3}> { r = Reshape(w, shape)  y = MatMul(x, r) })",
                                   21, {"w"});
  EXPECT_THAT(find_layers(model.graph), IsEmpty());
}

TEST(FindLayers, MatMulOfTwoActivations) {
  const graph::Model model =
      parse(R"(g (float[2,5,4] q, float[2,4,6] k) => (float[2,5,6] y) { y = MatMul(q, k) })");
  const std::vector<Layer> layers = find_layers(model.graph);
  ASSERT_THAT(layers, SizeIs(1));
  EXPECT_EQ(name_of(model, layers[0].input), "q");
  EXPECT_EQ(name_of(model, layers[0].second), "k");
  EXPECT_FALSE(layers[0].has_weight());
  EXPECT_EQ(layers[0].multiplications, 2 * 5 * 6 * 4);
}

TEST(FindLayers, WhatIsNoLayer) {
  const graph::Model model =
      parse(R"(g (float[1,2,4,4] x, float[3,2,1,1] dynamic, float[4,4] m, int32[4,4] n, int32[4,4] w,
                                         float[4,4] p, float[4,4] q) =>
      (float[1,3,4,4] a, float[4,4] b, int32[4,4] c, float[4] d, float[4,4] e)
    <int8[4,4] codes = {1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16}, float scale = {0.5},
     float[4] v = {1,2,3,4}> {
      a = Conv(x, dynamic)
      decoded = DequantizeLinear(codes, scale)
      b = MatMul(m, decoded)
      c = MatMul(n, w)
      d = MatMul(m, v)
      e = MatMul(p, q) })",
            21, {"w", "p", "q"});
  EXPECT_THAT(find_layers(model.graph), IsEmpty())
      << "a convolution by an activation, a weight already quantised, integers, a vector, two constants";
}

TEST(FindLayers, NamesAreUnique) {
  const graph::Model model = parse(R"(g (float[2,4] x, float[4,4] w) => (float[2,4] y)
    { [same] a = MatMul(x, w)  [same] b = MatMul(a, w)  [b] c = MatMul(b, w)  y = MatMul(c, w) })",
                                   21, {"w"});
  std::vector<std::string> names;
  for (const Layer& layer : find_layers(model.graph)) {
    names.push_back(layer.name);
  }
  EXPECT_THAT(names, ElementsAre("same", "b", "c", "y"));
}

TEST(FindLayers, UnknownShapesCountNothing) {
  const graph::Model model =
      parse(R"(g (float[N,4] x, float[4,3] w) => (float[N,3] y) { y = MatMul(x, w) })", 21, {"w"});
  const std::vector<Layer> layers = find_layers(model.graph);
  ASSERT_THAT(layers, SizeIs(1));
  EXPECT_EQ(layers[0].multiplications, 0);
}

TEST(FindLayers, GraphInputWithADefaultIsNoWeight) {
  graph::Model model = parse(R"(g (float[2,4] x, float[4,3] w) => (float[2,3] y) { y = MatMul(x, w) })");
  const graph::ValueId w = *model.graph.find_value("w");
  model.graph.set_constant(w, graph::Tensor::allocate(graph::DataType::kFloat32, {4, 3}).tensor);
  const std::vector<Layer> layers = find_layers(model.graph);
  ASSERT_THAT(layers, SizeIs(1));
  EXPECT_EQ(layers[0].second, w) << "a caller may replace it";
}

}  // namespace
}  // namespace tempera::compress
