#include "tempera/compress/calibrate/calibrate.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "tempera/base/error.h"
#include "tempera/compress/calibrate/test_support.h"
#include "tempera/engine/openvino/openvino_engine.h"
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
