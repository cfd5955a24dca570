#include "tempera/compress/quantize/equalize.h"

#include <cmath>

#include <gmock/gmock.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tempera/compress/calibrate/test_support.h"
#include "tempera/compress/quantize/activations.h"
#include "tempera/compress/quantize/channel_scaling.h"
#include "tempera/compress/quantize/smooth_quant.h"
#include "tempera/compress/quantize/testing.h"
#include "tempera/engine/openvino/openvino_engine.h"
#include "tempera/onnx/infer.h"
#include "tempera/onnx/text.h"

namespace tempera::compress {
namespace {

using graph::Model;
using graph::Tensor;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::parse;
using testing::relative_l2;
using testing::run;

// Multiplies the channels along the weight's first axis by 4^0, 4^1, ...: what equalising has to undo.
void spread(Model& model, const std::string& name) {
  const graph::ValueId id = *model.graph.find_value(name);
  const Tensor weight = *model.graph.constant(id);
  std::vector<float> values(weight.values<float>().begin(), weight.values<float>().end());
  const std::size_t row = values.size() / static_cast<std::size_t>(weight.dims()[0]);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] *= std::pow(4.0F, static_cast<float>(i / row));
  }
  model.graph.set_constant(id, Tensor::from<float>(weight.dims(), std::span<const float>(values)));
}

double quantized_error(const Model& model, const Model& reference, const std::vector<Tensor>& inputs) {
  const QuantizationPlan plan = testing::plan_all(model);
  Model result = model;
  (void)quantize_activations(result, plan,
                             testing::observe(model, activation_tensors(model, plan, {}), inputs), {});
  return relative_l2(run(result, inputs)[0], run(reference, inputs)[0]);
}

struct Chain {
  const char* name;
  const char* text;
  std::vector<std::string> weights;
  bool helps = true;  ///< also with random weights
};
void PrintTo(const Chain& chain, std::ostream* os) { *os << chain.name; }

class EqualizedChains : public ::testing::TestWithParam<Chain> {};

TEST_P(EqualizedChains, KeepTheFunctionAndBalanceTheRanges) {
  Model model = parse(GetParam().text, 21, GetParam().weights);
  spread(model, "w");
  onnx::infer_types(model);
  const Model before = model;
  const auto inputs = testing::random_inputs(model, 31);
  const Equalization result = equalize(model);
  EXPECT_FALSE(result.layers.empty());
  EXPECT_LT(result.sweeps, 20) << "settled";
  graph::verify(model.graph);
  onnx::check_model(model);
  // Factors are no powers of two, so products round anew: a few units in the last place of float32.
  EXPECT_LT(relative_l2(run(model, inputs)[0], run(before, inputs)[0]), 3e-6);
  for (const ScalableTensor& tensor : find_scalable(model.graph)) {
    if (tensor.maker) {
      const std::vector<double> made = maker_ranges(model.graph, tensor);
      const std::vector<double> read = reader_ranges(model.graph, tensor);
      for (std::size_t i = 0; i < made.size(); ++i) {
        EXPECT_NEAR(made[i] / read[i], 1.0, 0.05) << "eq. 9: both ranges are sqrt(r1 r2)";
      }
    }
  }
  Model again = model;
  EXPECT_EQ(equalize(again).sweeps, 1) << "nothing is left to do";
  if (GetParam().helps) {
    EXPECT_LT(quantized_error(model, before, inputs), quantized_error(before, before, inputs));
  }
}

INSTANTIATE_TEST_SUITE_P(
    , EqualizedChains,
    ::testing::Values(
        Chain{"conv_relu_conv",
              R"(g (float[1,3,8,8] x, float[6,3,3,3] w, float[6] b, float[4,6,3,3] v) => (float[1,4,4,4] y) {
            h = Conv(x, w, b)
            r = Relu(h)
            y = Conv(r, v) })",
              {"w", "b", "v"}},
        Chain{"through_depthwise",
              R"(g (float[1,3,8,8] x, float[6,3,1,1] w, float[6,1,3,3] d, float[6] b, float[4,6,1,1] v) =>
            (float[1,4,6,6] y) {
            h = Conv(x, w)
            r = Relu(h)
            k = Conv <group = 6> (r, d, b)
            s = LeakyRelu(k)
            y = Conv(s, v) })",
              {"w", "d", "b", "v"}},
        Chain{"grouped",
              R"(g (float[1,4,8,8] x, float[6,2,3,3] w, float[4,3,3,3] v) => (float[1,4,4,4] y) {
            h = Conv <group = 2> (x, w)
            y = Conv <group = 2> (h, v) })",
              {"w", "v"}},
        Chain{"prelu_pool_conv_transpose",
              R"(g (float[1,3,8,8] x, float[6,3,3,3] w, float[6,1,1] slope, float[6,2,2,2] v) =>
            (float[1,4,4,4] y) {
            h = Conv(x, w)
            p = PRelu(h, slope)
            m = MaxPool <kernel_shape = [2,2], strides = [2,2]> (p)
            y = ConvTranspose <group = 2> (m, v) })",
              {"w", "slope", "v"}},
        Chain{"through_concats",
              R"(g (float[1,3,8,8] x, float[6,3,3,3] w, float[6] b, float[4,6,1,1] u, float[2,10,3,3] v) =>
            (float[1,2,4,4] y) {
            h = Conv(x, w, b)
            r = Relu(h)
            q = Conv(r, u)
            s = Relu(q)
            c = Concat <axis = 1> (s, r)
            y = Conv(c, v) })",
              {"w", "b", "u", "v"},
              false},
        Chain{"global_pool_and_rows",
              R"(g (float[1,3,8,8] x, float[6,3,3,3] w, float[6,4] v) => (float[1,4] y)
            <int64[2] rows = {1, -1}> {
            h = Conv(x, w)
            p = GlobalMaxPool(h)
            r = Reshape(p, rows)
            y = Gemm(r, v) })",
              {"w", "v"}},
        Chain{"gemm_relu_gemm",
              R"(g (float[5,3] x, float[6,3] w, float[6] b, float[6,4] v) => (float[5,4] y) {
            h = Gemm <transB = 1> (x, w, b)
            r = Relu(h)
            y = Gemm(r, v) })",
              {"w", "b", "v"}}),
    [](const auto& chain) { return std::string(chain.param.name); });

// As fuse_batch_norm_padded leaves it; a constant of the whole size in the other operand's place.
TEST(Equalize, ConstantsThatVaryOverPlacesKeepTheFunction) {
  for (const char* added : {"k = Add(h, whole)", "k = Add(spread, h)", "k = Sub(h, spread)"}) {
    Model model = parse(fmt::format(R"(g (float[1,3,8,8] x, float[6,3,3,3] w, float[1,6,8,8] whole, float[1,6,3,3] kinds, float[2,6,1,1] v) =>
      (float[1,2,8,8] y) <int64[8] places = {{0, 1, 1, 1, 1, 1, 1, 2}}> {{
        h = Conv <pads = [1, 1, 1, 1]> (x, w)
        rows = Gather <axis = 2> (kinds, places)
        spread = Gather <axis = -1> (rows, places)
        {}
        r = Relu(k)
        y = Conv(r, v) }})",
                                    added),
                        21, {"w", "whole", "kinds", "v"});
    graph::for_each_graph(model.graph, [](graph::Graph& graph) { graph.remove_dead(); });
    onnx::infer_types(model);
    const Model before = model;
    EXPECT_EQ(equalize(model).layers.size(), 1U) << added;
    graph::verify(model.graph);
    const auto inputs = testing::random_inputs(model, 34);
    EXPECT_LT(relative_l2(run(model, inputs)[0], run(before, inputs)[0]), 3e-6) << added;
  }
}

// What holds other numbers afterwards does not count as equal to the original's tensor any more.
TEST(Equalize, ScaledValuesAreDerived) {
  Model model = parse(R"(g (float[1,3,8,8] x, float[6,3,3,3] w, float[2,12,1,1] v, float[6,6,1,1] u) => (float[1,2,6,6] y) {
      h = Conv(x, w)
      r = Relu(h)
      k = Conv(r, u)
      c = Concat <axis = 1> (r, k)
      y = Conv(c, v) })",
                      21, {"w", "u", "v"});
  onnx::infer_types(model);
  for (const graph::ValueId id : model.graph.values()) {
    model.graph.set_origin(id, {model.graph.value(id).name, true});
  }
  EXPECT_FALSE(equalize(model).layers.empty());
  const auto equal = [&](const char* name) { return model.graph.value(*model.graph.find_value(name)).origin->equal; };
  for (const char* scaled : {"h", "r", "c", "k"}) {
    EXPECT_FALSE(equal(scaled)) << scaled;
  }
  EXPECT_TRUE(equal("x"));
  EXPECT_TRUE(equal("y"));
}

// Factors along the axis that Gather spreads cannot be stored above it.
TEST(Equalize, GatherAlongTheChannelsIsLeft) {
  Model model = parse(R"(g (float[1,3,8,8] x, float[6,3,3,3] w, float[1,2,1,1] kinds, float[2,6,1,1] v) => (float[1,2,6,6] y)
    <int64[6] places = {0, 1, 0, 1, 0, 1}> {
      h = Conv(x, w)
      spread = Gather <axis = 1> (kinds, places)
      k = Add(h, spread)
      y = Conv(k, v) })",
                      21, {"w", "kinds", "v"});
  onnx::infer_types(model);
  EXPECT_TRUE(equalize(model).layers.empty());
}

// A Concat that something else reads as well.
TEST(Equalize, PartsThatAreReadElsewhereAreLeft) {
  Model model = parse(R"(g (float[1,3,8,8] x, float[6,3,3,3] w, float[4,3,3,3] u, float[2,10,1,1] v) =>
    (float[1,2,6,6] y, float[1,10,6,6] z) {
      h = Conv(x, w)
      k = Conv(x, u)
      c = Concat <axis = 1> (h, k)
      y = Conv(c, v)
      z = Sigmoid(c) })",
                      21, {"w", "u", "v"});
  onnx::infer_types(model);
  EXPECT_TRUE(equalize(model).layers.empty());
}

TEST(Equalize, ConvTransposeOfTwoGroupsAsMakerKeepsTheFunction) {
  Model model =
      parse(R"(g (float[1,4,5,5] x, float[4,3,2,2] w, float[6] b, float[2,6,1,1] v) => (float[1,2,6,6] y) {
      h = ConvTranspose <group = 2> (x, w, b)
      r = Relu(h)
      y = Conv(r, v) })",
            21, {"w", "b", "v"});
  const Model before = model;
  EXPECT_THAT(equalize(model).layers, ElementsAre("h"));
  const auto inputs = testing::random_inputs(model, 33);
  EXPECT_LT(relative_l2(run(model, inputs)[0], run(before, inputs)[0]), 3e-6);
}

TEST(Equalize, DeadChannelKeepsItsScale) {
  Model model = parse(R"(g (float[1,1,2,2] x) => (float[1,1,2,2] y)
    <float[3,1,1,1] w = {0.0, 4.0, 1.0}, float[1,3,1,1] v = {1.0, 1.0, 0.0}> {
      h = Conv(x, w)
      r = Relu(h)
      y = Conv(r, v) })");
  (void)equalize(model);
  const auto weights = [&](const char* output) {
    const graph::NodeId node = model.graph.producer(*model.graph.find_value(output));
    return graph::to_doubles(*model.graph.constant(model.graph.input(node, 1)));
  };
  EXPECT_THAT(weights("h"), ElementsAre(0.0, 2.0, 1.0)) << "s = sqrt(4 * 1) / 1 = 2 for the middle one";
  EXPECT_THAT(weights("y"), ElementsAre(1.0, 2.0, 0.0));
}

class Untouched : public ::testing::TestWithParam<Chain> {};

TEST_P(Untouched, StaysAsItIs) {
  Model model = parse(GetParam().text, 21, GetParam().weights);
  const Model before = model;
  EXPECT_THAT(equalize(model).layers, IsEmpty());
  EXPECT_TRUE(graph::same_graph(model.graph, before.graph));
}

INSTANTIATE_TEST_SUITE_P(
    , Untouched,
    ::testing::Values(Chain{"clip_is_not_homogeneous",
                            R"(g (float[1,3,8,8] x, float[6,3,1,1] w, float[4,6,1,1] v, float lo, float hi) =>
            (float[1,4,8,8] y) { h = Conv(x, w)  c = Clip(h, lo, hi)  y = Conv(c, v) })",
                            {"w", "v", "lo", "hi"}},
                      Chain{"output_between",
                            R"(g (float[1,3,8,8] x, float[6,3,1,1] w, float[4,6,1,1] v) =>
            (float[1,4,8,8] y, float[1,6,8,8] h) { h = Conv(x, w)  y = Conv(h, v) })",
                            {"w", "v"}},
                      Chain{"second_reader",
                            R"(g (float[1,3,8,8] x, float[6,3,1,1] w, float[4,6,1,1] v) =>
            (float[1,4,8,8] y, float[1,6,8,8] z) { h = Conv(x, w)  y = Conv(h, v)  z = Tanh(h) })",
                            {"w", "v"}},
                      Chain{"second_reader_above",
                            R"(g (float[1,3,8,8] x, float[6,3,1,1] w, float[4,6,1,1] v) =>
            (float[1,4,8,8] y, float[1,6,8,8] z) { h = Conv(x, w)  r = Relu(h)  y = Conv(r, v)  z = Tanh(h) })",
                            {"w", "v"}},
                      Chain{"shared_weight",
                            R"(g (float[1,3,8,8] x, float[3,3,1,1] w) => (float[1,3,8,8] y) {
            h = Conv(x, w)
            y = Conv(h, w) })",
                            {"w"}},
                      Chain{"flatten_between",
                            R"(g (float[1,3,2,2] x, float[6,3,1,1] w, float[24,4] v) => (float[1,4] y) {
            h = Conv(x, w)
            f = Flatten(h)
            y = Gemm(f, v) })",
                            {"w", "v"}}),
    [](const auto& chain) { return std::string(chain.param.name); });

MemoryDataset samples_of(const Model& model, std::size_t count) {
  std::vector<std::vector<Tensor>> inputs;
  for (std::size_t i = 0; i < count; ++i) {
    inputs.push_back(testing::random_inputs(model, 41 + 100 * i));
  }
  return MemoryDataset(std::move(inputs));
}

std::vector<std::string> smooth_all(Model& model, const MemoryDataset& data,
                                    const SmoothQuantOptions& settings = {}) {
  std::vector<std::string> layers;
  for (const Layer& layer : find_layers(model.graph)) {
    layers.push_back(layer.name);
  }
  const auto engine = engine::make_openvino_engine();
  QuietHost quiet;
  return smooth(model, layers, data, data.all(), *engine, {}, quiet.host, settings);
}

TEST(Smooth, ComputesTheFormulaRelativeToTheGeometricMean) {
  // Channels reach 8 and 2; weights reach 0.5 and 2: s = sqrt(8 / 0.5), sqrt(2 / 2) = 4, 1, geometric mean 2:
  // 2, 0.5.
  Model model = parse(R"(g (float[1,2] x) => (float[1,2] y)
    <float[2] gamma = {8.0, 2.0}, float[2,2] w = {0.5, -0.25, 1.0, 2.0}> { m = Mul(x, gamma)  y = MatMul(m, w) })");
  const MemoryDataset data(
      {{Tensor::from<float>({1, 2}, {-1.0F, 1.0F})}, {Tensor::from<float>({1, 2}, {0.5F, 0.5F})}});
  EXPECT_THAT(smooth_all(model, data), ElementsAre("m"));
  const graph::NodeId mul = testing::only(model, "Mul");
  const graph::NodeId matmul = testing::only(model, "MatMul");
  EXPECT_THAT(graph::to_doubles(*model.graph.constant(model.graph.input(mul, 1))),
              ElementsAre(::testing::DoubleNear(4.0, 1e-5), ::testing::DoubleNear(4.0, 1e-5)));
  EXPECT_THAT(graph::to_doubles(*model.graph.constant(model.graph.input(matmul, 1))),
              ElementsAre(::testing::DoubleNear(1.0, 1e-5), ::testing::DoubleNear(-0.5, 1e-5),
                          ::testing::DoubleNear(0.5, 1e-5), ::testing::DoubleNear(1.0, 1e-5)));
}

struct Norm {
  const char* name;
  const char* text;
  std::vector<std::string> weights;
  const char* outlier;  ///< the constant whose first element makes one channel far larger
};
void PrintTo(const Norm& norm, std::ostream* os) { *os << norm.name; }

class SmoothedNorms : public ::testing::TestWithParam<Norm> {};

TEST_P(SmoothedNorms, KeepTheFunctionAndLowerTheErrorOfInt8) {
  Model model = parse(GetParam().text, 21, GetParam().weights);
  const graph::ValueId id = *model.graph.find_value(GetParam().outlier);
  const Tensor gamma = *model.graph.constant(id);
  std::vector<float> values(gamma.values<float>().begin(), gamma.values<float>().end());
  values[0] = 60.0F;
  model.graph.set_constant(id, Tensor::from<float>(gamma.dims(), std::span<const float>(values)));
  const Model before = model;
  const MemoryDataset data = samples_of(model, 3);
  EXPECT_EQ(smooth_all(model, data).size(), 1U);
  graph::verify(model.graph);
  onnx::check_model(model);
  const std::vector<Tensor> inputs = data.load(0).inputs;
  EXPECT_LT(relative_l2(run(model, inputs)[0], run(before, inputs)[0]), 3e-6);
  EXPECT_LT(quantized_error(model, before, inputs), quantized_error(before, before, inputs));
}

INSTANTIATE_TEST_SUITE_P(
    , SmoothedNorms,
    ::testing::Values(
        Norm{"layer_norm_two_readers",
             R"(g (float[1,7,8] x, float[8] gamma, float[8] beta, float[8,4] q, float[8,5] k) =>
            (float[1,7,4] y, float[1,7,5] z) {
            n = LayerNormalization <axis = -1> (x, gamma, beta)
            y = MatMul(n, q)
            z = MatMul(n, k) })",
             {"gamma", "beta", "q", "k"},
             "gamma"},
        Norm{"decomposed_norm",
             R"(g (float[1,7,8] x, float[8] gamma, float[8] beta, float[8,4] q) => (float[1,7,4] y) {
            t = Tanh(x)
            m = Mul(t, gamma)
            n = Add(m, beta)
            y = MatMul(n, q) })",
             {"gamma", "beta", "q"},
             "gamma"},
        Norm{"instance_norm_relu_conv",
             R"(g (float[1,4,6,6] x, float[4] gamma, float[4] beta, float[3,4,3,3] w) =>
            (float[1,3,4,4] y) {
            n = InstanceNormalization(x, gamma, beta)
            r = Relu(n)
            y = Conv(r, w) })",
             {"gamma", "beta", "w"},
             "gamma"},
        Norm{"group_norm_as_product",
             R"(g (float[1,4,6,6] x, float[4,1,1] gamma, float[1,4,1,1] beta, float[3,4,3,3] w) =>
            (float[1,3,4,4] y) {
            t = Tanh(x)
            m = Mul(gamma, t)
            n = Sub(m, beta)
            y = Conv(n, w) })",
             {"gamma", "beta", "w"},
             "gamma"}),
    [](const auto& norm) { return std::string(norm.param.name); });

TEST(Smooth, LeavesTensorsOfFloatLayersAndThoseItCannotFold) {
  Model model = parse(R"(g (float[1,7,8] x, float[8] gamma, float[8,4] q, float[8,5] k, float[5,5] o) =>
      (float[1,7,4] y, float[1,7,5] z) {
      m = Mul(x, gamma)
      y = MatMul(m, q)
      h = MatMul(m, k)
      s = Sigmoid(h)
      z = MatMul(s, o) })",
                      21, {"gamma", "q", "k", "o"});
  const Model before = model;
  const auto engine = engine::make_openvino_engine();
  QuietHost quiet;
  const MemoryDataset data = samples_of(model, 1);
  EXPECT_THAT(smooth(model, {"y", "z"}, data, data.all(), *engine, {}, quiet.host), IsEmpty())
      << "m is read by a layer that stays float, a sigmoid takes no factor";
  EXPECT_TRUE(graph::same_graph(model.graph, before.graph));
}

TEST(Smooth, RefusesAlphaOutsideItsRange) {
  Model model = parse("g (float[1,2] x, float[2,2] w) => (float[1,2] y) { y = MatMul(x, w) }", 21, {"w"});
  try {
    (void)smooth_all(model, samples_of(model, 1), {.alpha = 1.5});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "alpha of SmoothQuant must be from 0 to 1, got 1.5");
  }
}

}  // namespace
}  // namespace tempera::compress
