#include "tempera/compress/calibrate/calibrate.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "tempera/base/error.h"
#include "tempera/compress/calibrate/test_support.h"
#include "tempera/engine/openvino/openvino_engine.h"
#include "tempera/numeric/affine.h"
#include "tempera/onnx/text.h"

namespace tempera::compress {
namespace {

using graph::Tensor;

const engine::Engine& engine() {
  static const std::unique_ptr<engine::Engine> made = engine::make_openvino_engine();
  return *made;
}

constexpr const char* kSmall = R"(g (float[N,4] x) => (float[N,3] z)
  <float[4,3] w = {1, -1, 0.5, 2, 0, -0.25, 0.125, 1, -2, -1, 0.75, 3}, float[3] b = {0.5, -0.5, 0}> {
    y = MatMul(x, w)
    s = Add(y, b)
    r = Relu(s)
    i = Shape(r)
    z = Mul(r, r)
  })";

TEST(CalibrateTest, MinMaxIsTheLeastAndLargestValueOfAllSamples) {
  const graph::Model model = onnx::parse_graph(kSmall);
  const MemoryDataset data = normal_samples(11, {1, 4});
  QuietHost quiet;
  CalibrateOptions options;
  options.method = RangeMethod::kMinMax;
  const Calibration found = calibrate(model, {"x", "s", "r"}, data, data.all(), engine(), options, quiet.host);
  ASSERT_EQ(found.ranges.size(), 3U);
  EXPECT_EQ(found.samples, 11);

  const float w[4][3] = {{1, -1, 0.5F}, {2, 0, -0.25F}, {0.125F, 1, -2}, {-1, 0.75F, 3}};
  const float b[3] = {0.5F, -0.5F, 0};
  float x_lo = 1e9F, x_hi = -1e9F, s_lo = 1e9F, s_hi = -1e9F;
  for (const std::size_t i : data.all()) {
    const Tensor x = data.load(i).inputs[0];
    for (const float v : x.values<float>()) {
      x_lo = std::min(x_lo, v);
      x_hi = std::max(x_hi, v);
    }
    for (int c = 0; c < 3; ++c) {
      double s = b[c];
      for (std::size_t k = 0; k < 4; ++k) {
        s += static_cast<double>(x.values<float>()[k]) * w[k][c];
      }
      s_lo = std::min(s_lo, static_cast<float>(s));
      s_hi = std::max(s_hi, static_cast<float>(s));
    }
  }
  constexpr float kRounding = 1e-6F;  // four float products and sums below 10
  EXPECT_EQ(found.ranges.at("x").lo, x_lo);
  EXPECT_EQ(found.ranges.at("x").hi, x_hi);
  EXPECT_NEAR(found.ranges.at("s").lo, s_lo, 10 * kRounding);
  EXPECT_NEAR(found.ranges.at("s").hi, s_hi, 10 * kRounding);
  EXPECT_EQ(found.ranges.at("r").lo, 0.0F);
  EXPECT_EQ(found.ranges.at("r").hi, found.ranges.at("s").hi);
  for (const auto& [name, range] : found.ranges) {
    EXPECT_EQ(range.method, RangeMethod::kMinMax) << name;
    EXPECT_EQ(range.min, range.lo) << name;
    EXPECT_EQ(range.max, range.hi) << name;
    EXPECT_GT(range.relative_mse, 0.0) << name;
    EXPECT_LT(range.relative_mse, 1e-3) << name;  // 8 bits over the range of a normal: about 5e-5
  }
}

// Sum of (x - Q(x))^2 over an input in the samples that judge, value by value.
double judged_error(const MemoryDataset& data, float lo, float hi) {
  const numeric::AffineParams params = numeric::affine_from_range(lo, hi, {0, 255});
  double error = 0.0;
  for (std::size_t i = 4; i < data.samples().size(); i += 5) {  // every fifth
    for (const float x : data.load(i).inputs[0].values<float>()) {
      const double off = static_cast<double>(x) - numeric::dequantize(numeric::quantize(x, params, {0, 255}), params);
      error += off * off;
    }
  }
  return error;
}

TEST(CalibrateTest, AutoIsTheBestOfTheMethodsOnSamplesHeldOut) {
  const graph::Model model = onnx::parse_graph("g (float[N,64] x) => (float[N,64] y) { y = Relu(x) }");
  std::vector<std::vector<Tensor>> inputs;
  for (std::size_t i = 0; i < 40; ++i) {  // heavy-tailed: a normal over the square root of a uniform
    std::vector<float> values(64);
    CounterRng(7, i).fill_normal(values);
    for (std::size_t k = 0; k < values.size(); ++k) {
      values[k] /= std::sqrt(CounterRng(8, i).uniform(k) + 1e-4F);
    }
    inputs.push_back({Tensor::from<float>({1, 64}, std::span<const float>(values))});
  }
  const MemoryDataset data(std::move(inputs));
  QuietHost quiet;
  std::map<RangeMethod, TensorRange> found;
  for (const RangeMethod method : {RangeMethod::kMinMax, RangeMethod::kMovingAverage, RangeMethod::kPercentile,
                                   RangeMethod::kMse, RangeMethod::kEntropy, RangeMethod::kAuto}) {
    CalibrateOptions options;
    options.method = method;
    options.percentile = 0.999;
    found[method] = calibrate(model, {"x"}, data, data.all(), engine(), options, quiet.host).ranges.at("x");
    if (method != RangeMethod::kAuto) {
      EXPECT_EQ(found[method].method, method);
    }
  }
  const TensorRange& chosen = found.at(RangeMethod::kAuto);
  EXPECT_NE(chosen.method, RangeMethod::kAuto);
  double square = 0.0;
  for (std::size_t i = 4; i < 40; i += 5) {
    for (const float x : data.load(i).inputs[0].values<float>()) {
      square += static_cast<double>(x) * x;
    }
  }
  double least = judged_error(data, found.at(RangeMethod::kMinMax).lo, found.at(RangeMethod::kMinMax).hi);
  for (const auto& [method, range] : found) {
    const double error = judged_error(data, range.lo, range.hi);
    EXPECT_NEAR(range.relative_mse, error / square, 1e-5 * error / square) << to_string(method);
    least = std::min(least, error);
  }
  EXPECT_LE(judged_error(data, chosen.lo, chosen.hi), least * (1 + 1e-5));  // 1e-5: sums of floats
  EXPECT_EQ(chosen.lo, found.at(chosen.method).lo);
  EXPECT_EQ(chosen.hi, found.at(chosen.method).hi);
}

TEST(CalibrateTest, MovingAverageFollowsSampleOrder) {
  const graph::Model model = onnx::parse_graph("g (float[2] x) => (float[2] y) { y = Relu(x) }");
  std::vector<std::vector<Tensor>> inputs;
  double lo = 0.0, hi = 0.0;
  for (int i = 0; i < 200; ++i) {  // more than are merged at once
    const auto a = static_cast<float>(i % 17);
    const float b = -static_cast<float>(i % 13);
    inputs.push_back({Tensor::from<float>({2}, {b, a})});
    lo = i == 0 ? b : 0.75 * lo + 0.25 * b;
    hi = i == 0 ? a : 0.75 * hi + 0.25 * a;
  }
  const MemoryDataset data(std::move(inputs));
  QuietHost quiet;
  CalibrateOptions options;
  options.method = RangeMethod::kMovingAverage;
  options.momentum = 0.75;
  const TensorRange found = calibrate(model, {"x"}, data, data.all(), engine(), options, quiet.host).ranges.at("x");
  EXPECT_EQ(found.lo, static_cast<float>(lo));
  EXPECT_EQ(found.hi, static_cast<float>(hi));
  EXPECT_EQ(found.min, -12.0F);
  EXPECT_EQ(found.max, 16.0F);
}

TEST(CalibrateTest, JsonKeepsEveryBit) {
  Calibration calibration;
  calibration.engine = "openvino 1 cpu f32";
  calibration.samples = 3;
  calibration.ranges["a/b:0"] = {-0.1F, 1.0F / 3.0F, -0.0F, std::nextafter(1.0F, 2.0F), RangeMethod::kMse, 1.0 / 3.0};
  calibration.ranges["tiny"] = {std::numeric_limits<float>::denorm_min(), std::numeric_limits<float>::max(), 0.0F, 1e-30F,
                                RangeMethod::kEntropy, 0.0};
  const std::string text = to_json(calibration);
  const Calibration back = calibration_from_json(text);
  EXPECT_EQ(to_json(back), text);
  ASSERT_EQ(back.ranges.size(), 2U);
  const TensorRange& range = back.ranges.at("a/b:0");
  EXPECT_EQ(range.min, -0.1F);
  EXPECT_EQ(range.max, 1.0F / 3.0F);
  EXPECT_TRUE(std::signbit(range.lo));
  EXPECT_EQ(range.hi, std::nextafter(1.0F, 2.0F));
  EXPECT_EQ(range.method, RangeMethod::kMse);
  EXPECT_EQ(range.relative_mse, 1.0 / 3.0);
  EXPECT_EQ(back.ranges.at("tiny").min, std::numeric_limits<float>::denorm_min());
  EXPECT_EQ(back.ranges.at("tiny").max, std::numeric_limits<float>::max());
  EXPECT_THROW((void)calibration_from_json("{"), Error);
  EXPECT_THROW((void)calibration_from_json(R"({"schema": "other", "version": 1})"), Error);
}

TEST(CalibrateTest, WrongTensorsAndOptionsAreNamed) {
  const graph::Model model = onnx::parse_graph(kSmall);
  const MemoryDataset data = normal_samples(2, {1, 4});
  QuietHost quiet;
  const auto message = [&](const std::vector<std::string>& tensors, const CalibrateOptions& options) {
    try {
      (void)calibrate(model, tensors, data, data.all(), engine(), options, quiet.host);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      return std::string(error.what());
    }
    return std::string("none");
  };
  EXPECT_NE(message({"q"}, {}).find("unknown tensor 'q'"), std::string::npos) << message({"q"}, {});
  EXPECT_NE(message({"w"}, {}).find("'w' is a constant"), std::string::npos) << message({"w"}, {});
  EXPECT_NE(message({"i"}, {}).find("'i'"), std::string::npos) << message({"i"}, {});
  EXPECT_NE(message({"s", "s"}, {}).find("twice"), std::string::npos);
  CalibrateOptions bf16;
  bf16.compile.precision = engine::Precision::kBfloat16;
  EXPECT_NE(message({"s"}, bf16).find("f32, not in bf16"), std::string::npos);
  CalibrateOptions batch;
  batch.batch = 0;
  EXPECT_NE(message({"s"}, batch).find("batch is 0"), std::string::npos);
  EXPECT_THROW((void)calibrate(model, {"s"}, data, {}, engine(), {}, quiet.host), Error);
  EXPECT_THROW((void)calibrate(model, {"s"}, data, {2}, engine(), {}, quiet.host), Error);
}

}  // namespace
}  // namespace tempera::compress
