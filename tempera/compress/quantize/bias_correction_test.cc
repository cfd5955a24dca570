#include "tempera/compress/quantize/bias_correction.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tempera/compress/calibrate/test_support.h"
#include "tempera/compress/quantize/activations.h"
#include "tempera/compress/quantize/testing.h"
#include "tempera/engine/openvino/openvino_engine.h"
#include "tempera/onnx/infer.h"
#include "tempera/onnx/text.h"

namespace tempera::compress {
namespace {

using graph::Model;
using graph::Tensor;
using testing::parse;
using testing::plan_all;
using testing::relative_l2;
using testing::run;

// Samples whose inputs are normal numbers of the model's shapes.
MemoryDataset samples_of(const Model& model, std::size_t count, std::uint64_t seed) {
  std::vector<std::vector<Tensor>> inputs;
  for (std::size_t i = 0; i < count; ++i) {
    inputs.push_back(testing::random_inputs(model, seed + 100 * i));
  }
  return MemoryDataset(std::move(inputs));
}

Model quantized(const Model& model, const MemoryDataset& data, const QuantizeOptions& options) {
  const QuantizationPlan plan = plan_all(model);
  Calibration calibration;
  for (const std::size_t i : data.all()) {
    for (const auto& [name, range] :
         testing::observe(model, activation_tensors(model, plan, options), data.load(i).inputs).ranges) {
      TensorRange& all = calibration.ranges.emplace(name, range).first->second;
      all.lo = std::min(all.lo, range.lo);
      all.hi = std::max(all.hi, range.hi);
    }
  }
  Model result = model;
  (void)quantize_activations(result, plan, calibration, options);
  onnx::infer_types(result);
  return result;
}

std::vector<BiasError> measure(const Model& model, const Model& result, const MemoryDataset& data) {
  const auto engine = engine::make_openvino_engine();
  QuietHost quiet;
  return measure_bias_errors(model, result, data, data.all(), *engine, {}, quiet.host);
}

double mean_error(const Model& a, const Model& b, const MemoryDataset& data) {
  double sum = 0.0;
  for (const std::size_t i : data.all()) {
    const std::vector<Tensor> inputs = data.load(i).inputs;
    sum += relative_l2(run(b, inputs)[0], run(a, inputs)[0]);
  }
  return sum / static_cast<double>(data.all().size());
}

struct Form {
  const char* name;
  const char* text;
  std::vector<std::string> weights;
  Target target;
};
void PrintTo(const Form& form, std::ostream* os) { *os << form.name; }

class BiasForms : public ::testing::TestWithParam<Form> {};

// The mean of each channel over the samples is what the correction restores, whatever form the bias has.
TEST_P(BiasForms, CorrectionRestoresTheMeanOfEachChannel) {
  const Model model = parse(GetParam().text, 21, GetParam().weights);
  const MemoryDataset data = samples_of(model, 3, 1);
  Model result = quantized(model, data, {.target = GetParam().target, .seven_bit_weights = true});
  const std::vector<BiasError> before = measure(model, result, data);
  ASSERT_EQ(before.size(), 1U);
  double largest = 0.0;
  for (const double value : before[0].missing) {
    largest = std::max(largest, std::abs(value));
  }
  ASSERT_GT(largest, 1e-4) << "the case must have something to correct";
  ASSERT_EQ(correct_biases(result, before), 1U);
  graph::verify(result.graph);
  onnx::check_model(result);
  const std::vector<BiasError> after = measure(model, result, data);
  // An int32 bias moves in steps of s_x s_w, here about 1/100 of the largest correction; a float one in none.
  const double rounding = GetParam().target == Target::kOnnxruntime ? 1e-2 : 1e-3;
  for (const double value : after[0].missing) {
    EXPECT_LT(std::abs(value), rounding * largest);
  }
}

INSTANTIATE_TEST_SUITE_P(
    , BiasForms,
    ::testing::Values(
        Form{"conv",
             "g (float[1,4,6,6] x, float[5,4,3,3] w, float[5] b) => (float[1,5,4,4] y) { r = Relu(x)  y = "
             "Conv(r, w, b) }",
             {"w", "b"},
             Target::kOpenvino},
        Form{"conv_without_bias",
             "g (float[1,4,6,6] x, float[5,4,3,3] w) => (float[1,5,4,4] y) { r = Relu(x)  y = Conv(r, w) }",
             {"w"},
             Target::kOpenvino},
        Form{"conv_int32",
             "g (float[1,4,6,6] x, float[5,4,3,3] w, float[5] b) => (float[1,5,4,4] y) { r = Relu(x)  y = "
             "Conv(r, w, b) }",
             {"w", "b"},
             Target::kOnnxruntime},
        Form{"conv_transpose",
             "g (float[1,4,6,6] x, float[4,5,2,2] w, float[5] b) => (float[1,5,7,7] y) { r = Relu(x)  y = "
             "ConvTranspose(r, w, b) }",
             {"w", "b"},
             Target::kOpenvino},
        Form{"gemm_row",
             "g (float[2,6] x, float[6,3] w, float[1,3] b) => (float[2,3] y) { r = Relu(x)  y = Gemm(r, w, "
             "b) }",
             {"w", "b"},
             Target::kOpenvino},
        Form{"gemm_without_bias",
             "g (float[2,6] x, float[6,3] w) => (float[2,3] y) { r = Relu(x)  y = Gemm(r, w) }",
             {"w"},
             Target::kOpenvino}),
    [](const auto& form) { return std::string(form.param.name); });

TEST(CorrectBiases, MatMulBeforeAnAddShiftsItsConstant) {
  const Model model = parse(R"(g (float[1,5,6] x, float[6,3] w, float[1,1,3] b) => (float[1,5,3] y) {
      r = Relu(x)
      m = MatMul(r, w)
      y = Add(b, m) })",
                            21, {"w", "b"});
  const MemoryDataset data = samples_of(model, 3, 1);
  Model result = quantized(model, data, {.seven_bit_weights = true});
  const std::vector<BiasError> errors = measure(model, result, data);
  ASSERT_EQ(correct_biases(result, errors), 1U);
  std::vector<double> mean(3, 0.0);
  for (const std::size_t i : data.all()) {
    const auto before = graph::to_doubles(run(model, data.load(i).inputs)[0]);
    const auto after = graph::to_doubles(run(result, data.load(i).inputs)[0]);
    for (std::size_t k = 0; k < before.size(); ++k) {
      mean[k % 3] += before[k] - after[k];
    }
  }
  EXPECT_THAT(mean, ::testing::Each(::testing::DoubleNear(0.0, 1e-4)));
}

TEST(CorrectBiases, ReshapesThatKeepTheChannelsMayStandBeforeTheAdd) {
  const Model model = parse(R"(g (float[5,6] x, float[6,3] w, float[3] b) => (float[1,5,3] y) {
      s = Constant <value = int64[3] {1, 5, 3}> ()
      r = Relu(x)
      m = MatMul(r, w)
      t = Reshape(m, s)
      y = Add(t, b) })",
                            21, {"w", "b"});
  const MemoryDataset data = samples_of(model, 3, 1);
  Model result = quantized(model, data, {.seven_bit_weights = true});
  const double before = mean_error(model, result, data);
  ASSERT_EQ(correct_biases(result, measure(model, result, data)), 1U);
  EXPECT_LT(mean_error(model, result, data), before);
}

TEST(CorrectBiases, AReshapeThatMovesTheChannelsEndsTheSearch) {
  const Model model = parse(R"(g (float[3,6] x, float[6,3] w, float[9] b) => (float[9] y) {
      s = Constant <value = int64[1] {9}> ()
      r = Relu(x)
      m = MatMul(r, w)
      t = Reshape(m, s)
      y = Add(t, b) })",
                            21, {"w", "b"});
  const MemoryDataset data = samples_of(model, 2, 1);
  Model result = quantized(model, data, {});
  EXPECT_EQ(correct_biases(result, measure(model, result, data)), 0U);
}

// Weights alone, in a format that standard operators unpack.
TEST(CorrectBiases, PackedWeightsAreCorrected) {
  const Model model = parse(
      "g (float[1,4,6,6] x, float[5,4,3,3] w, float[5] b) => (float[1,5,4,4] y) { r = Relu(x)  y = Conv(r, w, b) }", 21,
      {"w", "b"});
  const MemoryDataset data = samples_of(model, 3, 1);
  const QuantizationPlan plan = {{find_layers(model.graph).front().name, {WeightFormat::kTernary, {}, ActivationFormat::kFloat}}};
  Model result = quantize(model, plan, nullptr, {}).model;
  onnx::infer_types(result);
  const double before = mean_error(model, result, data);
  ASSERT_EQ(correct_biases(result, measure(model, result, data)), 1U);
  EXPECT_LT(mean_error(model, result, data), before);
}

TEST(CorrectBiases, LayersSharingABiasGetTheirOwn) {
  const Model model = parse(R"(g (float[1,4,6,6] x, float[4,4,3,3] w, float[4] b) => (float[1,4,2,2] y) {
      r = Relu(x)
      h = Conv(r, w, b)
      s = Relu(h)
      y = Conv(s, w, b) })",
                            21, {"w", "b"});
  const MemoryDataset data = samples_of(model, 4, 1);
  Model result = quantized(model, data, {.seven_bit_weights = true});
  const double before = mean_error(model, result, data);
  ASSERT_EQ(correct_biases(result, measure(model, result, data)), 2U);
  EXPECT_FALSE(result.graph.find_value("b").has_value());
  EXPECT_LT(mean_error(model, result, data), before);
}

TEST(CorrectBiases, MatMulWithoutAnAddHasNoBias) {
  const Model model =
      parse("g (float[2,6] x, float[6,3] w) => (float[2,3] y) { r = Relu(x)  y = MatMul(r, w) }", 21, {"w"});
  const MemoryDataset data = samples_of(model, 2, 1);
  Model result = quantized(model, data, {});
  const Model untouched = result;
  EXPECT_EQ(correct_biases(result, measure(model, result, data)), 0U);
  EXPECT_TRUE(graph::same_graph(result.graph, untouched.graph));
}

TEST(MeasureBiasErrors, OldOpsetsMovedInputsAndFloatLayersAreHandled) {
  const Model model = parse(
      R"(g (float[1,4,6,6] x, float[4,4,1,1] w, float[4,4,1,1] v, float[3,8,1,1] u) => (float[1,3,3,3] y) {
      r = Relu(x)
      m = MaxPool <kernel_shape = [2,2], strides = [2,2]> (r)
      a = Conv(m, w)
      t = Conv(a, v)
      c = Concat <axis = 1> (m, t)
      y = Conv(c, u) })",
      13, {"w", "v", "u"});
  const MemoryDataset data = samples_of(model, 2, 1);
  QuantizationPlan plan = plan_all(model);
  plan.erase("t");
  const Calibration calibration =
      testing::observe(model, activation_tensors(model, plan, {}), data.load(0).inputs);
  Model result = model;
  (void)quantize_activations(result, plan, calibration, {});
  const std::vector<BiasError> errors = measure(model, result, data);
  std::vector<std::string> layers;
  for (const BiasError& error : errors) {
    layers.push_back(error.layer);
  }
  EXPECT_THAT(layers, ::testing::ElementsAre("a", "y"));
}

}  // namespace
}  // namespace tempera::compress
