#include "tempera/compress/quantize/activations.h"

#include <limits>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tempera/compress/quantize/testing.h"
#include "tempera/engine/openvino/openvino_engine.h"
#include "tempera/onnx/infer.h"
#include "tempera/onnx/text.h"

namespace tempera::compress {
namespace {

using graph::DataType;
using graph::Model;
using graph::Tensor;
using testing::count;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::only;
using testing::parse;
using testing::plan_all;
using testing::relative_l2;
using testing::run;

struct Result {
  Model model;
  std::vector<LayerRecord> records;
};

// Quantises with ranges observed on the inputs given, and checks that the model is still a valid one.
Result quantize_on(const Model& model, const std::vector<Tensor>& inputs, const QuantizeOptions& options,
                   const QuantizationPlan& plan) {
  const Calibration calibration = testing::observe(model, activation_tensors(model, plan, options), inputs);
  Result result{model, {}};
  result.records = quantize_activations(result.model, plan, calibration, options);
  graph::verify(result.model.graph);
  onnx::infer_types(result.model);
  onnx::check_model(result.model);
  return result;
}

Result quantize_on(const Model& model, const std::vector<Tensor>& inputs, Target target = Target::kOpenvino) {
  return quantize_on(model, inputs, {.target = target}, plan_all(model));
}

Tensor constant_input(const Model& model, graph::NodeId node, std::size_t input) {
  return model.graph.constant(model.graph.input(node, input)).value();
}

float scale_of(const Model& model, graph::NodeId quantize) {
  return static_cast<float>(graph::to_doubles(constant_input(model, quantize, 1)).at(0));
}

Calibration range(const std::string& tensor, float lo, float hi) {
  Calibration calibration;
  calibration.ranges[tensor] = {.min = lo, .max = hi, .lo = lo, .hi = hi};
  return calibration;
}

constexpr std::string_view kConv =
    "g (float[1,2,3,3] x, float[2,2,1,1] w, float[2] b) => (float[1,2,3,3] y) { y = Conv(x, w, b) }";

struct CodesCase {
  Target target;
  float lo;
  float hi;
  DataType type;
  float scale;
  int zero_point;
  bool zero_points = true;
};

class ActivationCodes : public ::testing::TestWithParam<CodesCase> {};

TEST_P(ActivationCodes, FollowTargetAndRange) {
  const CodesCase& expected = GetParam();
  Model model = parse(kConv, 21, {"w", "b"});
  (void)quantize_activations(model, plan_all(model), range("x", expected.lo, expected.hi),
                             {.target = expected.target, .zero_points = expected.zero_points});
  const graph::NodeId node = only(model, "QuantizeLinear");
  const Tensor zero = constant_input(model, node, 2);
  EXPECT_EQ(zero.type(), expected.type);
  EXPECT_FLOAT_EQ(scale_of(model, node), expected.scale);
  EXPECT_EQ(graph::to_doubles(zero), std::vector<double>{static_cast<double>(expected.zero_point)});
}

// uint8 asymmetric: s = (hi - lo) / 255, z = round(-lo / s), the range widened to hold zero; int8 symmetric:
// s = largest / 127.
INSTANTIATE_TEST_SUITE_P(
    , ActivationCodes,
    ::testing::Values(CodesCase{Target::kOpenvino, 0.0F, 5.1F, DataType::kUint8, 0.02F, 0},
                      CodesCase{Target::kOpenvino, 1.0F, 5.1F, DataType::kUint8, 0.02F, 0},
                      CodesCase{Target::kOpenvino, -1.0F, 4.1F, DataType::kUint8, 0.02F, 50},
                      CodesCase{Target::kOnnxruntime, -1.0F, 4.1F, DataType::kUint8, 0.02F, 50},
                      CodesCase{Target::kPortable, -5.1F, -1.0F, DataType::kUint8, 0.02F, 255},
                      CodesCase{Target::kTensorrt, 0.0F, 2.54F, DataType::kInt8, 0.02F, 0},
                      CodesCase{Target::kTensorrt, -2.54F, 1.0F, DataType::kInt8, 0.02F, 0},
                      CodesCase{Target::kOpenvino, 0.0F, 0.0F, DataType::kUint8, 1.0F, 0},
                      CodesCase{Target::kOpenvino, -2.54F, 1.0F, DataType::kInt8, 0.02F, 0, false},
                      CodesCase{Target::kOpenvino, 0.0F, 5.1F, DataType::kUint8, 0.02F, 0, false},
                      CodesCase{Target::kOnnxruntime, -2.54F, 1.0F, DataType::kInt8, 0.02F, 0, false},
                      CodesCase{Target::kPortable, -2.54F, 1.0F, DataType::kInt8, 0.02F, 0, false}));

TEST(QuantizeActivations, ComputesTheFormula) {
  Model model = parse(R"(g (float[1,2] x) => (float[1,2] y)
    <float[2,2] w = {1.27, -0.5, 0.4, 1.0}, float[2] b = {0.25, -0.5}> { y = Gemm(x, w, b) })");
  const auto records = quantize_activations(model, plan_all(model), range("x", 0.0F, 2.55F), {});
  // s_x = 0.01; columns of w: s = 1.27/127 = 0.01, codes 127, 40; s = 1/127, codes -63.5 -> -64 (even), 127.
  const Tensor y = run(model, {Tensor::from<float>({1, 2}, {1.004F, 3.0F})})[0];
  const std::vector<double> values = graph::to_doubles(y);
  EXPECT_NEAR(values[0], 1.0 * 1.27 + 2.55 * 0.4 + 0.25,
              1e-6);  // 1.004 rounds to 1.00, 3.0 saturates at 2.55
  EXPECT_NEAR(values[1], (1.0 * -64 + 2.55 * 127) / 127 - 0.5, 1e-6);
  ASSERT_EQ(records.size(), 1U);
  EXPECT_EQ(records[0].layer, "y");
  EXPECT_EQ(records[0].bytes_before, 16);
  EXPECT_EQ(records[0].bytes_after, 4 + 2 * 4 + 2) << "codes, scales, zero points";
  EXPECT_THAT(records[0].why, IsEmpty());
}

TEST(QuantizeActivations, OnePairForAllReadersAfterRelu) {
  const Model model = parse(R"(g (float[1,4,8,8] x, float[4,4,3,3] w, float[4,4,1,1] v) =>
      (float[1,4,6,6] a, float[1,4,8,8] b, float[1,4,8,8] c) {
      r = Relu(x)
      a = Conv(r, w)
      b = Conv(r, v)
      c = Tanh(r) })",
                            21, {"w", "v"});
  const auto inputs = testing::random_inputs(model, 1);
  const Result result = quantize_on(model, inputs);
  const graph::NodeId node = only(result.model, "QuantizeLinear");
  EXPECT_EQ(result.model.graph.value(result.model.graph.input(node, 0)).name, "r");
  EXPECT_EQ(count(result.model, "DequantizeLinear"), 3) << "one activation, two weights";
  const auto before = run(model, inputs);
  const auto after = run(result.model, inputs);
  EXPECT_LT(relative_l2(after[0], before[0]), 0.01);
  EXPECT_EQ(relative_l2(after[2], before[2]), 0.0) << "the float reader is not touched";
}

TEST(QuantizeActivations, ConcatPartsShareTheWiderRange) {
  const Model model =
      parse(R"(g (float[1,4,8,8] x, float[1,4,8,8] z, float[4,8,3,3] w) => (float[1,4,6,6] y) {
      a = Tanh(x)
      b = Exp(z)
      c = Concat <axis = 1> (a, b)
      y = Conv(c, w) })",
            21, {"w"});
  const auto inputs = testing::random_inputs(model, 1);
  const Result result = quantize_on(model, inputs);
  std::vector<float> scales;
  for (const graph::NodeId id : result.model.graph.nodes()) {
    if (result.model.graph.node(id).is("QuantizeLinear")) {
      scales.push_back(scale_of(result.model, id));
    }
  }
  ASSERT_EQ(scales.size(), 2U);
  EXPECT_EQ(scales[0], scales[1]);
  EXPECT_LT(relative_l2(run(result.model, inputs)[0], run(model, inputs)[0]), 0.02);
}

// One Concat of the same parts is read by a layer, the other by a normalisation: joining adds readers, but no tensor.
TEST(QuantizedInputs, TellPlacesApartWhereTheTensorsAreTheSame) {
  const Model model = parse(R"(g (float[1,4,8,8] x, float[4,4,1,1] w, float[4,4,1,1] u, float[4,8,1,1] v, float[1,8,1,1] s)
        => (float[1,4,8,8] y, float[1,8,8,8] z) {
      p = Conv(x, w)
      q = Conv(x, u)
      read = Concat<axis = 1>(p, q)
      y = Conv(read, v)
      other = Concat<axis = 1>(p, q)
      z = Mul(other, s) })",
                            21, {"w", "u", "v", "s"});
  const QuantizationPlan plan = plan_all(model);
  const QuantizeOptions apart;
  QuantizeOptions joined;
  joined.join_codes = true;
  EXPECT_EQ(activation_tensors(model, plan, apart), activation_tensors(model, plan, joined));
  EXPECT_EQ(quantized_inputs(model, plan, apart), 4U);   // x twice, p and q in the first Concat
  EXPECT_EQ(quantized_inputs(model, plan, joined), 6U);  // and in the second
}

// Codes stand above a Reshape when all its readers read codes, below it when one of them does not.
TEST(ActivationTensors, OfLayersAloneAreOthers) {
  const Model model = parse(R"(g (float[1,4,2,2] x, float[16,3] w, float[16,5] v) => (float[1,3] y, float[1,5] z)
    <int64[2] rows = {1, 16}> {
      r = Relu(x)
      f = Reshape(r, rows)
      y = Gemm(f, w)
      z = Gemm(f, v) })",
                            21, {"w", "v"});
  const QuantizationPlan plan = plan_all(model);
  EXPECT_EQ(activation_tensors(model, plan, {}), std::vector<std::string>{"r"});
  EXPECT_EQ(activation_tensors(model, {*plan.begin()}, {}), std::vector<std::string>{"f"});
  EXPECT_EQ(activation_tensors_whole_and_alone(model, plan, {}), (std::vector<std::string>{"f", "r"}));
}

TEST(QuantizeActivations, ZeroPaddingStaysExactlyZero) {
  const Model model = parse(R"(g (float[1,1,1,1] x) => (float[1,1,3,3] y)
    <int64[8] pads = {0,0,1,1,0,0,1,1}, float[1,1,1,1] w = {1.0}> {
      p = Pad(x, pads)
      y = Conv(p, w) })");
  Model quantized = model;
  (void)quantize_activations(quantized, plan_all(model), range("x", -0.3F, 0.7F),
                             {.target = Target::kPortable});
  const std::vector<double> y =
      graph::to_doubles(run(quantized, {Tensor::from<float>({1, 1, 1, 1}, {0.5F})})[0]);
  EXPECT_EQ(y[0], 0.0);
  EXPECT_NEAR(y[4], 0.5, 0.5 / 255) << "half a step";
}

TEST(QuantizeActivations, AllZeroWeightChannelGivesItsBias) {
  const Model model = parse(R"(g (float[1,2,2,2] x) => (float[1,2,2,2] y)
    <float[2,2,1,1] w = {0.0, 0.0, 1.0, 2.0}, float[2] b = {3.25, 100.0}> { y = Conv(x, w, b) })");
  const auto inputs = testing::random_inputs(model, 3);
  for (const Target target :
       {Target::kOpenvino, Target::kOnnxruntime, Target::kTensorrt, Target::kPortable}) {
    const Result result = quantize_on(model, inputs, target);
    const std::vector<double> y = graph::to_doubles(run(result.model, inputs)[0]);
    EXPECT_NEAR(y[0], 3.25, 1e-6) << static_cast<int>(target);
  }
}

TEST(QuantizeActivations, DeadReluAndConstantActivationAreExact) {
  const Model model =
      parse(R"(g (float[1,2,2,2] x) => (float[1,2,2,2] dead, float[1,2,2,2] positive, float[1,2,2,2] negative)
    <float[2,2,1,1] w = {1.0, 0.0, 0.0, 1.0}, float zero = {0.0}, float minus = {-5.0}, float three = {3.0}> {
      square = Mul(x, x)
      below = Mul(square, minus)
      r = Relu(below)
      dead = Conv(r, w)
      nothing = Mul(x, zero)
      c = Add(nothing, three)
      positive = Conv(c, w)
      m = Add(nothing, minus)
      negative = Conv(m, w) })");
  const auto inputs = testing::random_inputs(model, 3);
  for (const Target target :
       {Target::kOpenvino, Target::kOnnxruntime, Target::kTensorrt, Target::kPortable}) {
    const auto outputs = run(quantize_on(model, inputs, target).model, inputs);
    for (std::size_t i = 0; i < 3; ++i) {
      for (const double value : graph::to_doubles(outputs[i])) {
        EXPECT_NEAR(value, std::vector<double>({0.0, 3.0, -5.0})[i], 1e-6) << static_cast<int>(target);
      }
    }
  }
}

// Two convolutions read one weight and one bias; their inputs have ranges 1 : 100.
constexpr std::string_view kSharedBias = R"(g (float[1,2,4,4] x, float[3,2,3,3] w, float[3] b) =>
      (float[1,3,2,2] y, float[1,3,2,2] z, float[1,3,2,2] s)
    <float hundred = {100.0}> {
      big = Mul(x, hundred)
      p = Conv(x, w, b)
      q = Conv(big, w, b)
      y = Tanh(p)
      z = Identity(q)
      s = Sigmoid(q) })";

TEST(QuantizeActivations, SharedWeightAndBiasWithDifferentInputScales) {
  const Model model = parse(kSharedBias, 21, {"w", "b"});
  const auto inputs = testing::random_inputs(model, 5);
  const Result result = quantize_on(model, inputs, Target::kOnnxruntime);
  int int8_weights = 0;
  std::vector<std::vector<double>> bias_scales;
  for (const graph::NodeId id : result.model.graph.nodes()) {
    if (result.model.graph.node(id).is("DequantizeLinear") &&
        result.model.graph.constant(result.model.graph.input(id, 0))) {
      const Tensor codes = constant_input(result.model, id, 0);
      int8_weights += codes.type() == DataType::kInt8 ? 1 : 0;
      if (codes.type() == DataType::kInt32) {
        bias_scales.push_back(graph::to_doubles(constant_input(result.model, id, 1)));
      }
    }
  }
  EXPECT_EQ(int8_weights, 1);
  ASSERT_EQ(bias_scales.size(), 2U);
  EXPECT_NEAR(bias_scales[1][0] / bias_scales[0][0], 100.0, 1e-3) << "each bias in its own input's unit";
  const auto before = run(model, inputs);
  const auto after = run(result.model, inputs);
  for (std::size_t i = 0; i < before.size(); ++i) {
    EXPECT_LT(relative_l2(after[i], before[i]), 0.02) << i;
  }
}

TEST(QuantizeActivations, BigBiasBesideATinyWeightFitsInt32) {
  const Model model = parse(R"(g (float[1,1,2,2] x) => (float[1,2,2,2] y)
    <float[2,1,1,1] w = {1e-9, 1.0}, float[2] b = {50.0, 1.0}> { c = Conv(x, w, b)  y = Identity(c) })");
  const std::vector<Tensor> inputs = {Tensor::from<float>({1, 1, 2, 2}, {0.1F, -0.2F, 0.3F, -0.4F})};
  const Result result = quantize_on(model, inputs, Target::kOnnxruntime);
  // c is quantised too: [0.6, 50] in 255 steps.
  EXPECT_NEAR(graph::to_doubles(run(result.model, inputs)[0])[0], 50.0, 50.0 / 255);
}

TEST(QuantizeActivations, ConvTransposeHasOneScaleForEachChannelOfAGroup) {
  for (const int groups : {1, 2}) {
    const Model model =
        parse(fmt::format(
                  R"(g (float[1,4,5,5] x, float[4,{0},2,2] w, float[{1}] b) => (float[1,{1},10,10] y) {{
             y = ConvTranspose <group = {2}, strides = [2,2]> (x, w, b) }})",
                  3, 3 * groups, groups),
              21, {"w", "b"});
    const auto inputs = testing::random_inputs(model, 7);
    const auto before = run(model, inputs);
    for (const Target target :
         {Target::kOpenvino, Target::kOnnxruntime, Target::kTensorrt, Target::kPortable}) {
      const Result result = quantize_on(model, inputs, target);
      EXPECT_LT(relative_l2(run(result.model, inputs)[0], before[0]), 0.02)
          << static_cast<int>(target) << groups;
      const bool per_tensor = target == Target::kTensorrt;
      EXPECT_EQ(result.records[0].format.granularity.kind,
                per_tensor ? Granularity::Kind::kTensor : Granularity::Kind::kAxis);
      EXPECT_EQ(result.records[0].why.empty(), !per_tensor);
      for (const graph::NodeId id : result.model.graph.nodes()) {
        if (result.model.graph.node(id).is("DequantizeLinear") &&
            constant_input(result.model, id, 1).rank() == 1 &&
            constant_input(result.model, id, 1).dims()[0] == 3 && target != Target::kOnnxruntime) {
          EXPECT_EQ(result.model.graph.attribute<std::int64_t>(id, "axis", -9), 1);
        }
      }
    }
  }
}

TEST(QuantizeActivations, GemmBiasOfEveryShape) {
  for (const char* shape : {"", "1", "3", "1,3", "1,1", "2,1", "2,3"}) {
    const std::string type = *shape == '\0' ? "float" : fmt::format("float[{}]", shape);
    const Model model = parse(fmt::format("g (float[2,4] x, float[3,4] w, {} b) => (float[2,3] z) {{ y = "
                                          "Gemm <transB = 1> (x, w, b)  z = Identity(y) }}",
                                          type),
                              21, {"w", "b"});
    const auto inputs = testing::random_inputs(model, 9);
    for (const Target target : {Target::kOpenvino, Target::kOnnxruntime, Target::kPortable}) {
      const Result result = quantize_on(model, inputs, target);
      EXPECT_LT(relative_l2(run(result.model, inputs)[0], run(model, inputs)[0]), 0.02)
          << "bias [" << shape << "]";
    }
  }
}

TEST(QuantizeActivations, GemmWithFactorsKeepsThem) {
  const Model model = parse(R"(g (float[4,2] x, float[4,3] w, float[3] b) => (float[2,3] y) {
      y = Gemm <alpha = 0.5, beta = 2.0, transA = 1> (x, w, b) })",
                            21, {"w", "b"});
  const auto inputs = testing::random_inputs(model, 9);
  for (const Target target : {Target::kOpenvino, Target::kOnnxruntime}) {
    EXPECT_LT(relative_l2(run(quantize_on(model, inputs, target).model, inputs)[0], run(model, inputs)[0]),
              0.02);
  }
}

TEST(QuantizeActivations, MatMulOfTwoActivationsQuantisesBoth) {
  const Model model = parse("g (float[2,5,4] q, float[2,4,6] k) => (float[2,5,6] y) { y = MatMul(q, k) }");
  const auto inputs = testing::random_inputs(model, 11);
  const Result result = quantize_on(model, inputs);
  EXPECT_EQ(count(result.model, "QuantizeLinear"), 2);
  EXPECT_LT(relative_l2(run(result.model, inputs)[0], run(model, inputs)[0]), 0.02);
  EXPECT_EQ(result.records[0].bytes_after, 0);
}

TEST(QuantizeActivations, WhatAKernelWithoutZeroPointReadsIsSymmetric) {
  const Model model = parse(R"(g (float[1,4,5,5] x, float[4,3,2,2] w, float[2,4,1,1] v) =>
      (float[1,3,6,6] y, float[1,2,5,5] z) { y = ConvTranspose(x, w)  z = Conv(x, v) })",
                            21, {"w", "v"});
  for (const Target target : {Target::kOpenvino, Target::kPortable}) {
    Model quantized = model;
    (void)quantize_activations(quantized, plan_all(model), range("x", -1.27F, 0.5F), {.target = target});
    const graph::NodeId node = only(quantized, "QuantizeLinear");
    EXPECT_EQ(constant_input(quantized, node, 2).type(), DataType::kInt8);
    EXPECT_FLOAT_EQ(scale_of(quantized, node), 0.01F);
  }
}

TEST(QuantizeActivations, WeightSharedWithItsTransposeIsDecodedForBoth) {
  const Model model = parse(R"(g (float[2,4] x, float[4,4] w) => (float[2,4] back) {
      h = MatMul(x, w)
      t = Transpose(w)
      back = MatMul(h, t) })",
                            21, {"w"});
  const auto inputs = testing::random_inputs(model, 13);
  QuantizationPlan plan = plan_all(model);
  plan.erase("back");
  const Result result = quantize_on(model, inputs, {}, plan);
  EXPECT_FALSE(result.model.graph.find_value("w").has_value()) << "the float weight is gone";
  EXPECT_LT(relative_l2(run(result.model, inputs)[0], run(model, inputs)[0]), 0.02);
}

TEST(QuantizeActivations, BodiesStayFloatAndKeepTheirWeights) {
  const Model model =
      parse(R"(g (float[1,2,4,4] x, bool c, float[2,2,1,1] w) => (float[1,2,4,4] y, float[1,2,4,4] z) {
      y = Conv(x, w)
      z = If (c) <then_branch = t () => (float[1,2,4,4] a) { a = Conv(x, w) },
                  else_branch = e () => (float[1,2,4,4] b) { b = Identity(x) }> })",
            21, {"w"});
  const bool yes = true;
  const std::vector<Tensor> inputs = {pass::testing::random_tensor(DataType::kFloat32, {1, 2, 4, 4}, 15),
                                      Tensor::from<bool>({}, std::span<const bool>(&yes, 1))};
  const Result result = quantize_on(model, inputs);
  const auto before = run(model, inputs);
  const auto after = run(result.model, inputs);
  EXPECT_EQ(count_layers_in_bodies(model.graph), 1U);
  EXPECT_GT(relative_l2(after[0], before[0]), 0.0);
  EXPECT_LT(relative_l2(after[0], before[0]), 0.02);
  EXPECT_EQ(relative_l2(after[1], before[1]), 0.0);
}

TEST(QuantizeActivations, BodyOfALoopStaysFloat) {
  const Model model = parse(R"(g (float[1,2,4,4] x, int64 n, float[2,2,1,1] w) => (float[1,2,4,4] y, float[1,2,4,4] z)
    <bool go = {1}> {
      y = Conv(x, w)
      z = Loop (n, go, x) <body = b (int64 i, bool c, float[1,2,4,4] s) => (bool d, float[1,2,4,4] t) {
        d = Identity(c)
        t = Conv(s, w) }> })",
                            21, {"w"});
  const std::int64_t twice = 2;
  const std::vector<Tensor> inputs = {pass::testing::random_tensor(DataType::kFloat32, {1, 2, 4, 4}, 15),
                                      Tensor::from<std::int64_t>({}, std::span<const std::int64_t>(&twice, 1))};
  const Result result = quantize_on(model, inputs);
  const auto before = run(model, inputs);
  const auto after = run(result.model, inputs);
  EXPECT_EQ(count_layers_in_bodies(model.graph), 1U);
  EXPECT_GT(relative_l2(after[0], before[0]), 0.0);
  EXPECT_LT(relative_l2(after[0], before[0]), 0.02);
  EXPECT_EQ(relative_l2(after[1], before[1]), 0.0);
}

TEST(QuantizeActivations, SevenBitWeightsStayWithin63) {
  const Model model = parse(kConv, 21, {"w", "b"});
  const auto inputs = testing::random_inputs(model, 17);
  const Result result = quantize_on(model, inputs, {.seven_bit_weights = true}, plan_all(model));
  int largest = 0;
  for (const graph::NodeId id : result.model.graph.nodes()) {
    if (result.model.graph.node(id).is("DequantizeLinear") &&
        result.model.graph.constant(result.model.graph.input(id, 0))) {
      for (const std::int8_t code : constant_input(result.model, id, 0).values<std::int8_t>()) {
        largest = std::max(largest, std::abs(code));
      }
    }
  }
  EXPECT_EQ(largest, 63);
}

TEST(QuantizeActivations, Float8) {
  const Model model =
      parse(R"(g (float[2,16] x, float[16,8] w) => (float[2,8] y) { y = MatMul(x, w) })", 19, {"w"});
  const auto inputs = testing::random_inputs(model, 19);
  const Result result = quantize_on(model, inputs, {}, plan_all(model, ActivationFormat::kFloat8));
  EXPECT_EQ(constant_input(result.model, only(result.model, "QuantizeLinear"), 2).type(),
            DataType::kFloat8E4M3FN);
  // Four significant bits on both sides: 2^-4 relative at worst, about half of it on average, once for each
  // factor.
  EXPECT_LT(relative_l2(run(result.model, inputs)[0], run(model, inputs)[0]), 0.06);
}

TEST(QuantizeActivations, HalfPrecisionModels) {
  const Model model = parse(
      "g (float16[1,4,5,5] x, float16[4,4,3,3] w) => (float16[1,4,3,3] y) { y = Conv(x, w) }", 19, {"w"});
  const auto inputs = testing::random_inputs(model, 21);
  const Result result = quantize_on(model, inputs);
  EXPECT_LT(relative_l2(run(result.model, inputs)[0], run(model, inputs)[0]), 0.02);
}

TEST(QuantizeActivations, BlocksBecomeOneScaleForEachChannelAndSaySo) {
  const Model model = parse(kConv, 21, {"w", "b"});
  QuantizationPlan plan = plan_all(model);
  plan.begin()->second.granularity.kind = Granularity::Kind::kBlock;
  const Result result = quantize_on(model, testing::random_inputs(model, 1), {}, plan);
  EXPECT_EQ(result.records[0].format.granularity.kind, Granularity::Kind::kAxis);
  EXPECT_THAT(result.records[0].why, HasSubstr("one scale for each output channel"));
}

TEST(QuantizeActivations, DoubleAndFloatWeightsAreDeclinedWithTheReason) {
  const Model model =
      parse("g (double[2,4] x, double[4,4] w) => (double[2,4] y) { y = MatMul(x, w) }", 21, {"w"});
  const Result result = quantize_on(model, testing::random_inputs(model, 1));
  EXPECT_EQ(result.records[0].format.activations, ActivationFormat::kFloat);
  EXPECT_EQ(result.records[0].why, "input 'x' is double; QuantizeLinear reads float, float16 and bfloat16");
  EXPECT_TRUE(graph::same_graph(result.model.graph, model.graph));

  const Model other = parse(kConv, 21, {"w", "b"});
  QuantizationPlan plan = plan_all(other);
  plan.begin()->second.weights = WeightFormat::kFloat;
  EXPECT_THAT(quantize_on(other, testing::random_inputs(other, 1), {}, plan).records[0].why,
              HasSubstr("weights stay float"));
}

TEST(QuantizeActivations, MissingAndUnusableRangesAreNamed) {
  const auto message = [](const Calibration& calibration) -> std::string {
    Model model = parse(kConv, 21, {"w", "b"});
    try {
      (void)quantize_activations(model, plan_all(model), calibration, {});
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(message({}), "the calibration has no range of tensor 'x'");
  EXPECT_EQ(message(range("x", -1.0F, std::numeric_limits<float>::infinity())),
            "the range of tensor 'x' is [-1, inf], expected finite limits in order");
}

TEST(OpsetForActivations, IsTheLeastThatHasTheTypes) {
  const Model model = parse(kConv, 11, {"w", "b"});
  EXPECT_EQ(opset_for_activations(model, {}), 0);
  EXPECT_EQ(opset_for_activations(model, plan_all(model)), 13);
  EXPECT_EQ(opset_for_activations(model, plan_all(model, ActivationFormat::kFloat8)), 19);
  const Model half =
      parse("g (float16[2,4] x, float16[4,4] w) => (float16[2,4] y) { y = MatMul(x, w) }", 13, {"w"});
  EXPECT_EQ(opset_for_activations(half, plan_all(half)), 19);
}

// One file, two engines: the integers are the same, so outputs differ by the rounding of the float work
// around them and by inputs that fall on a tie.
class BothEngines : public ::testing::TestWithParam<Target> {};

TEST_P(BothEngines, ComputeTheSame) {
  const Model model = parse(
      R"(g (float[1,4,8,8] x, float[8,4,3,3] w, float[8] b, float[8,1,3,3] d, float[8,4,2,2] t, float[4] tb,
                                  float[3,12,1,1] v, float[192,5] m, float[1,5] mb) => (float[1,5] y)
    <int64[8] pads = {0,0,1,1,0,0,1,1}> {
      p = Pad(x, pads)
      a = Conv(p, w, b)
      ra = Relu(a)
      dw = Conv <group = 8, pads = [1,1,1,1]> (ra, d)
      s = Add(dw, ra)
      mp = MaxPool <kernel_shape = [2,2], strides = [2,2]> (s)
      up = ConvTranspose <strides = [2,2]> (mp, t, tb)
      c = Concat <axis = 1> (ra, up)
      o = Conv(c, v)
      f = Flatten(o)
      y = Gemm(f, m, mb) })",
      17, {"w", "b", "d", "t", "tb", "v", "m", "mb"});
  const auto inputs = testing::random_inputs(model, 23);
  const Result result = quantize_on(model, inputs, GetParam());
  EXPECT_EQ(result.records.size(), 5U);
  const Tensor reference = run(result.model, inputs)[0];
  // Five layers deep, and `ra` shares the scale of `up`, which is eight times wider.
  EXPECT_LT(relative_l2(reference, run(model, inputs)[0]), 0.15);
  const auto openvino = engine::make_openvino_engine();
  engine::CompileOptions exact;
  exact.exact = true;
  const Tensor other = openvino->compile(result.model, exact)->run(inputs)[0];
  EXPECT_LT(relative_l2(other, reference), 2e-3);
}

INSTANTIATE_TEST_SUITE_P(, BothEngines,
                         ::testing::Values(Target::kOpenvino, Target::kOnnxruntime, Target::kTensorrt,
                                           Target::kPortable),
                         [](const auto& target) {
                           return "Target" + std::to_string(static_cast<int>(target.param));
                         });

}  // namespace
}  // namespace tempera::compress
