#include "tempera/compress/quantize/quantize.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tempera/base/error.h"
#include "tempera/compress/quantize/emit.h"
#include "tempera/compress/quantize/encode.h"
#include "tempera/compress/quantize/layers.h"
#include "tempera/engine/torch/torch_engine.h"
#include "tempera/onnx/text.h"
#include "tempera/pass/testing.h"

namespace tempera::compress {
namespace {

using graph::Tensor;
using pass::testing::count;
using pass::testing::only;
using pass::testing::parse;
using pass::testing::random_tensor;

constexpr Granularity kTensor = {Granularity::Kind::kTensor};
constexpr Granularity kAxis = {};
constexpr Granularity kBlocks32 = {Granularity::Kind::kBlock, 32};

QuantizationPlan plan_for(const graph::Model& model, LayerFormat format) {
  QuantizationPlan plan;
  for (const Layer& layer : find_layers(model.graph)) {
    plan.emplace(layer.name, format);
  }
  return plan;
}

QuantizeOptions portable() {
  QuantizeOptions options;
  options.target = Target::kPortable;
  return options;
}

// What the reference interpreter computes for every value of the main graph, inputs being random.
std::map<std::string, Tensor> values_of(const graph::Model& model) {
  std::map<std::string, Tensor> values;
  engine::CompileOptions exact;
  exact.exact = true;
  const auto session = engine::make_torch_engine()->compile_torch(model, exact);
  session->set_observer([&](std::string_view name, const Tensor& tensor) { values.emplace(name, tensor); });
  std::vector<Tensor> inputs;
  for (const engine::Port& port : session->inputs()) {
    inputs.push_back(random_tensor(port.type.element, port.type.dims().value(), 1 + inputs.size()));
  }
  session->run(inputs);
  return values;
}

std::vector<float> floats(const Tensor& tensor) {
  return {tensor.values<float>().begin(), tensor.values<float>().end()};
}

struct Case {
  const char* name;
  const char* text;
};

// K is 70: no multiple of 32, and 64 with a rest.
constexpr Case kCases[] = {
    {"conv", "g (float[1,70,3,3] x, float[6,70,1,1] w) => (float[1,6,3,3] y) { [n] y = Conv(x, w) }"},
    {"even_conv", "g (float[1,64,3,3] x, float[6,64,1,1] w) => (float[1,6,3,3] y) { [n] y = Conv(x, w) }"},
    {"depthwise", "g (float[1,6,5,5] x, float[6,1,3,3] w) => (float[1,6,3,3] y) { [n] y = Conv <group = 6> (x, w) }"},
    {"transposed", "g (float[1,70,2,2] x, float[70,6,2,2] w) => (float[1,6,3,3] y) { [n] y = ConvTranspose(x, w) }"},
    {"transposed_groups",
     "g (float[1,70,2,2] x, float[70,3,2,2] w) => (float[1,6,3,3] y) { [n] y = ConvTranspose <group = 2> (x, w) }"},
    {"gemm", "g (float[2,70] x, float[70,6] w) => (float[2,6] y) { [n] y = Gemm(x, w) }"},
    {"gemm_transposed", "g (float[2,64] x, float[6,64] w) => (float[2,6] y) { [n] y = Gemm <transB = 1> (x, w) }"},
    {"matmul", "g (float[2,64] x, float[64,6] w) => (float[2,6] y) { [n] y = MatMul(x, w) }"},
    {"matmul_left", "g (float[70,2] x, float[6,70] w) => (float[6,2] y) { [n] y = MatMul(w, x) }"},
    {"batch", "g (float[3,2,70] x, float[3,70,5] w) => (float[3,2,5] y) { [n] y = MatMul(x, w) }"},
};

class EveryForm : public testing::TestWithParam<std::tuple<Case, WeightFormat>> {};

// The decoded weight, as the reference interpreter computes it from the file's nodes, is that of encode_weight to the bit,
// at every opset and granularity, for new and old readers.
TEST_P(EveryForm, DecodesToTheLastBit) {
  const auto& [one, format] = GetParam();
  for (const std::int64_t opset : {13, 17, 21}) {
    for (const Granularity& granularity : {kTensor, kAxis, kBlocks32}) {
      for (const bool older_readers : {false, true}) {
        QuantizeOptions options = portable();
        options.older_readers = older_readers;
        const graph::Model model = parse(one.text, opset, {"w"});
        const Layer layer = find_layers(model.graph).at(0);
        const LayerFormat wanted = {format, granularity};
        SCOPED_TRACE(fmt::format("{} opset {} {} {}", one.name, opset, wanted.to_string(), older_readers));
        const Quantized quantized = quantize(model, plan_for(model, wanted), nullptr, options);
        onnx::check_model(quantized.model);

        const Tensor weight = *model.graph.constant(layer.weight);
        const WeightView view = view_of(layer, weight.dims());
        const EncodedWeight encoded = encode_weight(view, to_rows(view, floats(weight)), format, granularity);
        const std::vector<float> expected = from_rows(view, decode_weight(encoded));
        const graph::Graph& graph = quantized.model.graph;
        const graph::ValueId decoded = graph.input(graph.find_node("n").value(), layer.weight_input);
        const auto values = values_of(quantized.model);
        const Tensor& actual = values.at(graph.value(decoded).name);
        ASSERT_EQ(actual.dims(), weight.dims());
        ASSERT_EQ(floats(actual), expected);

        const LayerRecord& record = quantized.layers.at(0);
        EXPECT_EQ(record.format.to_string(), wanted.to_string());
        EXPECT_EQ(record.bytes_before, weight.size() * 4);
        EXPECT_EQ(record.bytes_after, encoded.bytes());
        EXPECT_EQ(record.weight_relative_l2, encoded.relative_l2);
        EXPECT_FALSE(graph.find_value("w").has_value()) << "the float weight is gone";
        EXPECT_EQ(quantized.model.opset(), std::max(opset, stored_format(view, format, granularity, options).opset));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, EveryForm,
                         testing::Combine(testing::ValuesIn(kCases),
                                          testing::Values(WeightFormat::kInt8, WeightFormat::kInt4, WeightFormat::kInt2,
                                                          WeightFormat::kTernary, WeightFormat::kBinary,
                                                          WeightFormat::kFloat8E4M3FN, WeightFormat::kFloat8E5M2)),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param).name) + "_" +
                                  std::string(to_string(std::get<1>(info.param)));
                         });

TEST(Quantize, HalvesAreCastBack) {
  for (const auto& [format, bound] : {std::pair(WeightFormat::kFloat16, 0x1p-11), std::pair(WeightFormat::kBfloat16, 0x1p-8)}) {
    const graph::Model model = parse(kCases[0].text, 13, {"w"});
    const Quantized quantized = quantize(model, plan_for(model, {format}), nullptr, portable());
    onnx::check_model(quantized.model);
    EXPECT_EQ(count(quantized.model, "Cast"), 1);
    EXPECT_EQ(quantized.layers.at(0).bytes_after * 2, quantized.layers.at(0).bytes_before);
    EXPECT_LT(quantized.layers.at(0).weight_relative_l2, bound);
    EXPECT_GT(quantized.layers.at(0).weight_relative_l2, 0.0);
  }
}

TEST(Quantize, AWeightBeyondHalfStaysFloatAndSaysSo) {
  graph::Model model = parse("g (float[1,2] x) => (float[1,1] y) <float[2,1] w = {70000, 1}> { [n] y = MatMul(x, w) }", 17);
  const Quantized quantized = quantize(model, {{"n", {WeightFormat::kFloat16}}}, nullptr, portable());
  EXPECT_EQ(quantized.layers.at(0).format.weights, WeightFormat::kFloat);
  EXPECT_NE(quantized.layers.at(0).why.find("70000"), std::string::npos) << quantized.layers.at(0).why;
  EXPECT_EQ(count(quantized.model, "Cast"), 0);
}

TEST(Quantize, NamesAreChecked) {
  const graph::Model model = parse(kCases[0].text, 17, {"w"});
  try {
    (void)quantize(model, {{"m", {WeightFormat::kInt8}}}, nullptr, portable());
    FAIL() << "an unknown layer was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_STREQ(error.what(), "unknown layer 'm': the nearest are 'n'");
  }
}

TEST(Quantize, AnInfiniteWeightIsRefusedByNameAndElement) {
  graph::Model model = parse("g (float[1,2] x, float[2,3] w) => (float[1,3] y) { [n] y = MatMul(x, w) }", 17, {"w"});
  model.graph.set_constant(model.graph.find_value("w").value(),
                           Tensor::from<float>({2, 3}, {1, 2, 3, 4, std::numeric_limits<float>::infinity(), 6}));
  try {
    (void)quantize(model, {{"n", {WeightFormat::kInt8}}}, nullptr, portable());
    FAIL() << "an infinite weight was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kBadModel);
    EXPECT_STREQ(error.what(), "element [1,1] of weight 'w' is inf, expected a finite number");
  }
}

// A force field reads a weight forwards and, transposed, backwards.
TEST(Quantize, AWeightAndItsTransposeDecodeAlike) {
  const graph::Model model = parse(R"(g (float[1,40] x, float[40,6] w) => (float[1,40] z) {
      [forward] y = MatMul(x, w)
      t = Transpose(w)
      [backward] z = MatMul(y, t) })", 17, {"w"});
  const Quantized quantized = quantize(model, plan_for(model, {WeightFormat::kInt4, kBlocks32}), nullptr, portable());
  const graph::Graph& graph = quantized.model.graph;
  const auto values = values_of(quantized.model);
  const std::vector<float> forward =
      floats(values.at(graph.value(graph.input(graph.find_node("forward").value(), 1)).name));
  const std::vector<float> backward =
      floats(values.at(graph.value(graph.input(graph.find_node("backward").value(), 1)).name));
  for (std::size_t i = 0; i < 40; ++i) {
    for (std::size_t j = 0; j < 6; ++j) {
      ASSERT_EQ(forward[i * 6 + j], backward[j * 40 + i]);
    }
  }
  EXPECT_EQ(quantized.layers.at(1).why, "its weight is that of layer 'forward'");
  EXPECT_EQ(quantized.layers.at(1).bytes_before, 0) << "counted once";
}

TEST(Quantize, ATransposedCopyIsStoredOnce) {
  graph::Model model = parse(R"(g (float[1,40] x, float[40,6] w, float[6,40] t) => (float[1,40] z) {
      [forward] y = MatMul(x, w)
      [backward] z = MatMul(y, t) })", 17, {"w", "t"});
  const std::vector<float> w = floats(*model.graph.constant(model.graph.find_value("w").value()));
  std::vector<float> t(240);
  for (std::size_t i = 0; i < 240; ++i) {
    t[i % 6 * 40 + i / 6] = w[i];
  }
  model.graph.set_constant(model.graph.find_value("t").value(), Tensor::from<float>({6, 40}, std::span<const float>(t)));
  const Quantized quantized = quantize(model, plan_for(model, {WeightFormat::kInt4}), nullptr, portable());
  EXPECT_EQ(count(quantized.model, "DequantizeLinear"), 1);
  EXPECT_EQ(quantized.layers.at(1).why, "its weight is that of layer 'forward', transposed");
  const auto values = values_of(quantized.model);
  const graph::Graph& graph = quantized.model.graph;
  const std::vector<float> forward = floats(values.at(graph.value(graph.input(graph.find_node("forward").value(), 1)).name));
  const std::vector<float> backward = floats(values.at(graph.value(graph.input(graph.find_node("backward").value(), 1)).name));
  for (std::size_t i = 0; i < 240; ++i) {
    ASSERT_EQ(forward[i], backward[i % 6 * 40 + i / 6]);
  }
}

TEST(Quantize, TwoLayersShareOneStoredWeightWhicheverIsPlanned) {
  const graph::Model model = parse(R"(g (float[1,3,4,4] x, float[3,3,1,1] w) => (float[1,3,4,4] z) {
      [a] y = Conv(x, w)
      [b] z = Conv(y, w) })", 17, {"w"});
  const Quantized quantized = quantize(model, {{"b", {WeightFormat::kInt8}}}, nullptr, portable());
  EXPECT_EQ(count(quantized.model, "DequantizeLinear"), 1);
  EXPECT_EQ(quantized.layers.at(0).format.weights, WeightFormat::kInt8);
  EXPECT_EQ(quantized.layers.at(0).why, "its weight is that of layer 'b'");
  EXPECT_EQ(quantized.layers.at(1).why, "");
}

TEST(Quantize, AWeightReadInsideABodyIsTheSame) {
  const graph::Model model = parse(R"(g (bool c, float[1,3] x, float[3,3] w) => (float[1,3] z) {
      [a] y = MatMul(x, w)
      z = If (c) <
        then_branch = t () => (float[1,3] p) { p = MatMul(y, w) },
        else_branch = e () => (float[1,3] q) { q = Neg(y) }
      > })", 17, {"w"});
  const Quantized quantized = quantize(model, {{"a", {WeightFormat::kInt8}}}, nullptr, portable());
  onnx::check_model(quantized.model);
  EXPECT_FALSE(quantized.model.graph.find_value("w").has_value());
}

TEST(Quantize, TheOpsetRisesOnlyWhereATypeNeedsIt) {
  const auto opset_of = [](LayerFormat format, bool older_readers, std::int64_t from) {
    QuantizeOptions options = portable();
    options.older_readers = older_readers;
    const graph::Model model = parse(kCases[1].text, from, {"w"});
    return quantize(model, plan_for(model, format), nullptr, options).model.opset();
  };
  EXPECT_EQ(opset_of({WeightFormat::kInt8, kAxis}, false, 17), 17);
  EXPECT_EQ(opset_of({WeightFormat::kInt8, kBlocks32}, false, 17), 21);
  EXPECT_EQ(opset_of({WeightFormat::kInt4, kAxis}, false, 17), 21);
  EXPECT_EQ(opset_of({WeightFormat::kInt4, kAxis}, true, 17), 17);
  EXPECT_EQ(opset_of({WeightFormat::kFloat8E4M3FN, kAxis}, false, 13), 19);
  EXPECT_EQ(opset_of({WeightFormat::kFloat8E4M3FN, kAxis}, true, 13), 13);
  EXPECT_EQ(opset_of({WeightFormat::kTernary, kBlocks32}, false, 13), 13);
  EXPECT_EQ(opset_of({WeightFormat::kInt8, kAxis}, false, 11), 13);
  EXPECT_EQ(opset_of({WeightFormat::kFloat}, false, 11), 11);
}

TEST(Quantize, BiasAndOtherConstantsStay) {
  const graph::Model model = parse(
      "g (float[1,2,4,4] x, float[3,2,3,3] w, float[3] b) => (float[1,3,2,2] y) { [n] y = Conv(x, w, b) }", 17, {"w", "b"});
  const Quantized quantized = quantize(model, plan_for(model, {WeightFormat::kBinary}), nullptr, portable());
  const graph::Graph& graph = quantized.model.graph;
  EXPECT_TRUE(graph.constant(graph.input(only(quantized.model, "Conv"), 2))->same_bytes(
      *model.graph.constant(model.graph.find_value("b").value())));
}

Calibration unit_ranges(const graph::Model& model, const QuantizationPlan& plan) {
  Calibration calibration;
  for (const std::string& name : activation_tensors(model, plan, portable())) {
    calibration.ranges[name] = {-3.0F, 3.0F, -3.0F, 3.0F};
  }
  return calibration;
}

TEST(Quantize, OnePlanMayMixActivationsAndWeightsOnly) {
  const graph::Model model = parse(R"(g (float[1,64] x, float[64,64] a, float[64,64] b, float[64,8] c) => (float[1,8] y) {
      [first] p = MatMul(x, a)
      [second] q = MatMul(p, b)
      [third] y = MatMul(q, c) })", 21, {"a", "b", "c"});
  const QuantizationPlan plan = {
      {"first", {WeightFormat::kInt8, kAxis, ActivationFormat::kInt8}},
      {"second", {WeightFormat::kInt4, kBlocks32}},
      {"third", {WeightFormat::kInt4, kBlocks32, ActivationFormat::kInt8}}};
  const Calibration calibration = unit_ranges(model, plan);
  const Quantized quantized = quantize(model, plan, &calibration, portable());
  onnx::check_model(quantized.model);
  ASSERT_EQ(quantized.layers.size(), 3U);
  EXPECT_EQ(quantized.layers[0].format.to_string(), "int8 x int8");
  EXPECT_EQ(quantized.layers[1].format.to_string(), "int4/32");
  EXPECT_EQ(quantized.layers[2].format.to_string(), "int4/32 x int8");
  EXPECT_EQ(count(quantized.model, "QuantizeLinear"), 2);
  for (const LayerRecord& layer : quantized.layers) {
    EXPECT_GT(layer.bytes_before, 3 * layer.bytes_after) << layer.layer;
  }
  try {
    (void)quantize(model, plan, nullptr, portable());
    FAIL() << "a plan with activations went through without a calibration";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  }
}

TEST(Quantize, AWeightSharedWithQuantisedActivationsIsStoredOnce) {
  const graph::Model model = parse(R"(g (float[1,3,4,4] x, float[3,3,1,1] w) => (float[1,3,4,4] z) {
      [a] y = Conv(x, w)
      [b] z = Conv(y, w) })", 17, {"w"});
  const QuantizationPlan plan = {{"a", {WeightFormat::kInt8, kAxis, ActivationFormat::kInt8}},
                                 {"b", {WeightFormat::kTernary}}};
  const Calibration calibration = unit_ranges(model, plan);
  const Quantized quantized = quantize(model, plan, &calibration, portable());
  onnx::check_model(quantized.model);
  EXPECT_EQ(quantized.layers.at(1).why, "its weight is that of a layer whose activations are quantised too");
  EXPECT_EQ(count(quantized.model, "Floor"), 0);
}

TEST(Quantize, HalfPrecisionModelsKeepTheirType) {
  const graph::Model model = parse("g (float16[1,64] x, float16[64,6] w) => (float16[1,6] y) { [n] y = MatMul(x, w) }", 17, {"w"});
  const Quantized quantized = quantize(model, plan_for(model, {WeightFormat::kInt4, kBlocks32}), nullptr, portable());
  onnx::check_model(quantized.model);
  EXPECT_LT(quantized.layers.at(0).bytes_after * 3, quantized.layers.at(0).bytes_before);
}

}  // namespace
}  // namespace tempera::compress
