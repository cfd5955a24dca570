#include "tempera/compress/quantize/placement.h"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tempera/compress/quantize/testing.h"

namespace tempera::compress {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::parse;
using ::testing::UnorderedElementsAre;

// "value -> node.input, ..." of each quantised tensor, nodes called by their first output.
std::vector<std::string> places(const graph::Model& model, Target target,
                                std::vector<std::size_t>* groups = nullptr,
                                const std::vector<std::string>& layers_wanted = {}, bool join_codes = false) {
  std::vector<Layer> layers;
  for (Layer& layer : find_layers(model.graph)) {
    if (layers_wanted.empty() ||
        std::find(layers_wanted.begin(), layers_wanted.end(), layer.name) != layers_wanted.end()) {
      layers.push_back(std::move(layer));
    }
  }
  const std::vector<ActivationFormat> formats(layers.size(), ActivationFormat::kInt8);
  std::vector<std::string> found;
  QuantizeOptions options;
  options.target = target;
  options.join_codes = join_codes;
  for (const QuantizedTensor& tensor : place(model.graph, layers, formats, options).tensors) {
    std::string text = model.graph.value(tensor.value).name + " ->";
    for (const graph::Use& use : tensor.readers) {
      text += " " + model.graph.value(model.graph.output(use.node)).name + "." + std::to_string(use.input);
    }
    found.push_back(std::move(text));
    if (groups != nullptr) {
      groups->push_back(tensor.group);
    }
  }
  return found;
}

constexpr std::string_view kShared =
    R"(g (float[1,4,8,8] x, float[4,4,1,1] w) => (float[1,4,8,8] a, float[1,4,8,8] b) {
    r = Relu(x)
    a = Conv(r, w)
    b = Conv(r, w) })";

TEST(Place, AfterTheActivationAndOnceForAllReaders) {
  const graph::Model model = parse(kShared, 21, {"w"});
  EXPECT_THAT(places(model, Target::kOpenvino), ElementsAre("r -> a.0 b.0"));
}

TEST(Place, OnlyForPlannedReaders) {
  const graph::Model model = parse(kShared, 21, {"w"});
  EXPECT_THAT(places(model, Target::kOpenvino, nullptr, {"b"}), ElementsAre("r -> b.0"));
}

TEST(Place, MovesAboveZeroPadAndMaxPool) {
  const graph::Model model = parse(R"(g (float[1,4,8,8] x, float[4,4,3,3] w) => (float[1,4,4,4] y)
    <int64[8] pads = {0,0,1,1,0,0,1,1}> {
      r = Relu(x)
      m = MaxPool <kernel_shape = [2,2], strides = [2,2]> (r)
      p = Pad(m, pads)
      y = Conv(p, w) })",
                                   21, {"w"});
  EXPECT_THAT(places(model, Target::kOpenvino), ElementsAre("r -> m.0"));
  EXPECT_THAT(places(model, Target::kOnnxruntime), ElementsAre("p -> y.0"))
      << "its kernels want the pair next to them";
}

TEST(Place, StaysBelowAPadByAnotherValue) {
  const graph::Model model = parse(R"(g (float[1,4,8,8] x, float[4,4,3,3] w) => (float[1,4,8,8] y)
    <int64[8] pads = {0,0,1,1,0,0,1,1}, float one = {1.0}> { p = Pad(x, pads, one)  y = Conv(p, w) })",
                                   21, {"w"});
  EXPECT_THAT(places(model, Target::kOpenvino), ElementsAre("p -> y.0"));
}

TEST(Place, StaysBelowAMoveThatAFloatReaderSharesOrAGraphOutput) {
  const graph::Model shared =
      parse(R"(g (float[1,4,8,8] x, float[4,4,1,1] w) => (float[1,4,4,4] y, float[1,4,4,4] z) {
      r = Relu(x)
      m = MaxPool <kernel_shape = [2,2], strides = [2,2]> (r)
      y = Conv(m, w)
      z = Tanh(m) })",
            21, {"w"});
  EXPECT_THAT(places(shared, Target::kOpenvino), ElementsAre("m -> y.0"));
  const graph::Model output =
      parse(R"(g (float[1,4,8,8] x, float[4,4,1,1] w) => (float[1,4,4,4] y, float[1,4,4,4] m) {
      r = Relu(x)
      m = MaxPool <kernel_shape = [2,2], strides = [2,2]> (r)
      y = Conv(m, w) })",
            21, {"w"});
  EXPECT_THAT(places(output, Target::kOpenvino), ElementsAre("m -> y.0"));
}

TEST(Place, StaysBelowThePoolOfAnInput) {
  const graph::Model model = parse(R"(g (float[1,4,8,8] x, float[4,8,1,1] w) => (float[1,4,8,4] y) <int64[4] rows = {1,8,8,4}> {
      s = Reshape(x, rows)
      m = MaxPool <kernel_shape = [1,1]> (s)
      t = Transpose <perm = [0,1,2,3]> (m)
      y = Conv(t, w) })",
                                   21, {"w"});
  EXPECT_THAT(places(model, Target::kOpenvino), ElementsAre("m -> t.0"));
}

TEST(Place, PartsOfAConcatShareOneScale) {
  const graph::Model model = parse(R"(g (float[1,4,8,8] x, float[4,4,1,1] w, float[4,8,1,1] v) =>
      (float[1,4,8,8] y) {
      r = Relu(x)
      a = Conv(r, w)
      c = Concat <axis = 1> (r, a)
      y = Conv(c, v) })",
                                   21, {"w", "v"});
  std::vector<std::size_t> groups;
  EXPECT_THAT(places(model, Target::kOpenvino, &groups), UnorderedElementsAre("r -> a.0 c.0", "a -> c.1"));
  EXPECT_THAT(groups, ElementsAre(groups.front(), groups.front()));
}

TEST(Place, ConcatWithAFloatReaderIsQuantisedAsAWhole) {
  const graph::Model model = parse(R"(g (float[1,4,8,8] x, float[1,4,8,8] z, float[4,8,1,1] v) =>
      (float[1,4,8,8] y, float[1,8,8,8] t) {
      c = Concat <axis = 1> (x, z)
      y = Conv(c, v)
      t = Tanh(c) })",
                                   21, {"v"});
  EXPECT_THAT(places(model, Target::kOpenvino), ElementsAre("c -> y.0"));
}

// A dense block: the normalisation between a Concat and the next convolution reads the joined codes.
constexpr std::string_view kDense =
    R"(g (float[1,4,8,8] x, float[4,4,1,1] w, float[4,8,1,1] v, float[4,12,1,1] u) => (float[1,4,8,8] y)
    <float[1,8,1,1] s8 = {1,2,3,4,5,6,7,8}, float[1,12,1,1] s12 = {1,2,3,4,5,6,7,8,9,10,11,12}> {
      a = Conv(x, w)
      c = Concat <axis = 1> (x, a)
      n = Mul(c, s8)
      b = Conv(n, v)
      d = Concat <axis = 1> (c, b)
      m = Mul(d, s12)
      y = Conv(m, u) })";

TEST(Place, JoinsCodesThatOtherReadersThanLayersDecode) {
  const graph::Model model = parse(kDense, 21, {"w", "v", "u"});
  EXPECT_THAT(places(model, Target::kOpenvino), ElementsAre("x -> a.0", "n -> b.0", "m -> y.0"));
  std::vector<std::size_t> groups;
  EXPECT_THAT(places(model, Target::kOpenvino, &groups, {}, true),
              UnorderedElementsAre("x -> a.0 c.0", "a -> c.1", "n -> b.0", "b -> d.1", "m -> y.0"));
  EXPECT_EQ(std::set<std::size_t>(groups.begin(), groups.end()).size(), 3U)
      << "x, a and b on one scale, n and m on their own";
}

TEST(Place, JoinsNothingThatNoPlannedLayerWrites) {
  const graph::Model model = parse(kDense, 21, {"w", "v", "u"});
  EXPECT_THAT(places(model, Target::kOpenvino, nullptr, {"y"}, true), ElementsAre("m -> y.0"));
}

TEST(Place, UnrelatedTensorsHaveScalesOfTheirOwn) {
  const graph::Model model =
      parse(R"(g (float[2,4] q, float[4,2] k) => (float[2,2] y) { y = MatMul(q, k) })");
  std::vector<std::size_t> groups;
  EXPECT_THAT(places(model, Target::kOpenvino, &groups), ElementsAre("q -> y.0", "k -> y.1"));
  EXPECT_NE(groups[0], groups[1]);
}

constexpr std::string_view kResidual =
    R"(g (float[1,4,8,8] x, float[1,4,8,8] z, float[4,4,1,1] w, float[4,4,1,1] v) =>
      (float[1,4,8,8] y) {
      a = Conv(x, w)
      b = Conv(z, v)
      s = Add(a, b)
      y = Relu(s) })";

TEST(Place, ResidualAddOfTwoBackbonesQuantisesTheFirstForTensorrt) {
  const graph::Model model = parse(kResidual, 21, {"w", "v"});
  EXPECT_THAT(places(model, Target::kTensorrt), UnorderedElementsAre("x -> a.0", "z -> b.0", "a -> s.0"));
  EXPECT_THAT(places(model, Target::kOpenvino), UnorderedElementsAre("x -> a.0", "z -> b.0"));
}

TEST(Place, ResidualAddQuantisesTheSkipAloneForTensorrt) {
  const graph::Model model = parse(R"(g (float[1,4,8,8] x, float[4,4,1,1] w) => (float[1,4,8,8] s) {
      t = Tanh(x)
      a = Conv(t, w)
      s = Add(t, a) })",
                                   21, {"w"});
  EXPECT_THAT(places(model, Target::kTensorrt), ElementsAre("t -> a.0 s.0"));
}

TEST(Place, AddedBiasIsNoResidual) {
  const graph::Model model =
      parse(R"(g (float[1,4,8,8] x, float[4,4,1,1] w, float[4,1,1] b) => (float[1,4,8,8] s) {
      a = Conv(x, w)
      s = Add(a, b) })",
            21, {"w", "b"});
  EXPECT_THAT(places(model, Target::kTensorrt), ElementsAre("x -> a.0"));
}

TEST(Place, OutputsAreQuantisedForOnnxruntimeAfterTheirActivation) {
  const graph::Model model =
      parse(R"(g (float[1,4,8,8] x, float[4,4,1,1] w) => (float[1,4,8,8] y, float[1,4,8,8] z) {
      a = Conv(x, w)
      r = Relu(a)
      y = Conv(r, w)
      z = Tanh(r) })",
            21, {"w"});
  EXPECT_THAT(places(model, Target::kOnnxruntime), UnorderedElementsAre("x -> a.0", "r -> y.0 z.0"));
}

TEST(ReasonToStayFloat, DepthwiseAndGroupedConvTranspose) {
  const graph::Model model =
      parse(R"(g (float[1,4,8,8] x, float[8,1,3,3] d, float[4,2,3,3] g, float[4,2,2,2] t) =>
      (float[1,8,6,6] a, float[1,4,6,6] b, float[1,4,9,9] c) {
      a = Conv <group = 4> (x, d)
      b = Conv <group = 2> (x, g)
      c = ConvTranspose <group = 2> (x, t) })",
            21, {"d", "g", "t"});
  const std::vector<Layer> layers = find_layers(model.graph);
  ASSERT_EQ(layers.size(), 3U);
  EXPECT_NE(reason_to_stay_float(model.graph, layers[0], Target::kPortable), "");
  EXPECT_EQ(reason_to_stay_float(model.graph, layers[1], Target::kOpenvino), "");
  EXPECT_NE(reason_to_stay_float(model.graph, layers[2], Target::kOpenvino), "");
  EXPECT_EQ(reason_to_stay_float(model.graph, layers[2], Target::kPortable), "");
}

TEST(Place, NothingForNoLayers) {
  const graph::Model model = parse(kShared, 21, {"w"});
  EXPECT_THAT(place(model.graph, {}, {}, {}).tensors, IsEmpty());
}

}  // namespace
}  // namespace tempera::compress
