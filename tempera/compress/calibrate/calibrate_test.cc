#include "tempera/compress/calibrate/calibrate.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <thread>
#include <unistd.h>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "tempera/base/error.h"
#include "tempera/compress/calibrate/taps.h"
#include "tempera/compress/calibrate/test_support.h"
#include "tempera/engine/openvino/openvino_engine.h"
#include "tempera/numeric/affine.h"
#include "tempera/onnx/infer.h"
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
  const Calibration found =
      calibrate(model, {"x", "s", "r"}, data, data.all(), engine(), options, quiet.host);
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
      const double off =
          static_cast<double>(x) - numeric::dequantize(numeric::quantize(x, params, {0, 255}), params);
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
  for (const RangeMethod method :
       {RangeMethod::kMinMax, RangeMethod::kMovingAverage, RangeMethod::kPercentile, RangeMethod::kMse,
        RangeMethod::kEntropy, RangeMethod::kAuto}) {
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
  const TensorRange found =
      calibrate(model, {"x"}, data, data.all(), engine(), options, quiet.host).ranges.at("x");
  EXPECT_EQ(found.lo, static_cast<float>(lo));
  EXPECT_EQ(found.hi, static_cast<float>(hi));
  EXPECT_EQ(found.min, -12.0F);
  EXPECT_EQ(found.max, 16.0F);
}

/// "float[2,2] w = {0.1, ...}" with normal numbers.
std::string weight_text(const std::string& name, const graph::Dims& dims, std::uint64_t draw) {
  std::vector<float> values(static_cast<std::size_t>(graph::element_count(dims)));
  CounterRng(11, draw).fill_normal(values);
  return fmt::format("float{} {} = {{{:.6f}}}", graph::to_string(dims), name, fmt::join(values, ", "));
}

/// A small residual network of every kind of tensor: both signs, ReLU, constant, dead, one-sided.
graph::Model network() {
  graph::Model model = onnx::parse_graph(fmt::format(
      R"(g (float[N,3,10,10] x) => (float[N,5] y)
    <{}, {}, {}, float[1] zero = {{0}}, float[1] three = {{3}}> {{
      a = Conv <pads = [1,1,1,1]> (x, w1)
      r = Relu(a)
      b = Conv <pads = [1,1,1,1]> (r, w2)
      s = Add(b, r)
      dead = Mul(s, zero)
      constant = Add(dead, three)
      t = Sigmoid(s)
      m = GlobalAveragePool(t)
      f = Flatten(m)
      y = MatMul(f, w3)
    }})",
      weight_text("w1", {8, 3, 3, 3}, 0), weight_text("w2", {8, 8, 3, 3}, 1), weight_text("w3", {8, 5}, 2)));
  onnx::infer_types(model);
  return model;
}

/// Lets samples arrive out of order.
class ShuffledDataset final : public data::Dataset {
 public:
  explicit ShuffledDataset(const MemoryDataset& inner) : inner_(inner) {}
  [[nodiscard]] const std::vector<data::SampleInfo>& samples() const override { return inner_.samples(); }
  [[nodiscard]] const std::vector<data::Source>& sources() const override { return inner_.sources(); }
  [[nodiscard]] data::Sample load(std::size_t index) const override {
    std::this_thread::sleep_for(std::chrono::microseconds(200 * ((index * 7) % 5)));
    return inner_.load(index);
  }

 private:
  const MemoryDataset& inner_;
};

TEST(CalibrateTest, EqualBytesForEveryBatchThreadCountAndOrderOfWorkers) {
  const graph::Model model = network();
  const std::vector<std::string> tensors = activation_names(model.graph);
  ASSERT_EQ(tensors.size(), 11U);  // the input and every node's output
  const MemoryDataset data =
      normal_samples(73, {1, 3, 10, 10});  // ragged in batches of 2, 3 and 6; two merges
  const ShuffledDataset shuffled(data);
  QuietHost quiet;
  std::string expected;
  struct Case {
    int batch;
    int threads;
    int workers;
    bool fixed;
  };
  for (const Case& c : {Case{1, 1, 1, true}, Case{1, 3, 5, true}, Case{2, 1, 5, true}, Case{3, 2, 1, true},
                        Case{6, 3, 2, true}, Case{1, 2, 3, false}, Case{3, 1, 2, false}}) {
    CalibrateOptions options;
    options.batch = c.batch;
    options.compile.threads = c.threads;
    options.workers = c.workers;
    if (c.fixed) {
      options.compile.input_shapes = {{"x", {1, 3, 10, 10}}};
    }
    const std::string json =
        to_json(calibrate(model, tensors, shuffled, data.all(), engine(), options, quiet.host));
    expected = expected.empty() ? json : expected;
    ASSERT_EQ(json, expected) << "batch " << c.batch << ", threads " << c.threads << ", workers "
                              << c.workers;
  }
  const Calibration found = calibration_from_json(expected);
  EXPECT_EQ(found.ranges.at("dead").lo, 0.0F);
  EXPECT_EQ(found.ranges.at("dead").hi, 0.0F);
  EXPECT_EQ(found.ranges.at("dead").relative_mse, 0.0);
  EXPECT_EQ(found.ranges.at("constant").hi, 3.0F);
  EXPECT_LT(found.ranges.at("constant").relative_mse, 1e-12);
  EXPECT_EQ(found.ranges.at("r").lo, 0.0F);
}

TEST(CalibrateTest, ATensorThatMixesSamplesRunsThemOneAtATime) {
  // The mean over the batch differs from that of one sample, but has the batch's leading dimension again.
  const graph::Model model = onnx::parse_graph(
      "g (float[N,4] x) => (float[N,4] y) { m = ReduceMean <keepdims = 1, axes = [0]> (x)  y = Sub(x, m) }",
      13);
  const MemoryDataset data = normal_samples(9, {1, 4});
  QuietHost quiet;
  CalibrateOptions options;
  options.batch = 3;
  const Calibration found = calibrate(model, {"y"}, data, data.all(), engine(), options, quiet.host);
  EXPECT_EQ(found.ranges.at("y").max, 0.0F);  // x minus the mean of x alone
  EXPECT_EQ(found.ranges.at("y").min, 0.0F);
}

TEST(CalibrateTest, ManyTensorsRunInGroupsWithTheSameResult) {
  const graph::Model model = network();
  const std::vector<std::string> tensors = activation_names(model.graph);
  const std::map<std::string, graph::Dims> shapes{{"x", {1, 3, 10, 10}}};
  const std::vector<std::int64_t> bytes_of = tap_bytes(model, tensors, shapes);
  const auto one = group_taps(tensors, bytes_of, 1 << 20);
  ASSERT_EQ(one.size(), 1U);
  EXPECT_EQ(one[0], tensors);
  const auto many = group_taps(tensors, bytes_of, 8000);  // r and b take 3,200 bytes each, x 1,200
  ASSERT_GT(many.size(), 2U);
  std::vector<std::string> joined;
  for (const auto& group : many) {
    joined.insert(joined.end(), group.begin(), group.end());
    std::int64_t bytes = 0;
    for (const std::string& name : group) {
      bytes += name == "x" ? 1200 : name == "m" || name == "f" ? 32 : name == "y" ? 20 : 3200;
    }
    EXPECT_LE(bytes, 8000);
  }
  EXPECT_EQ(joined, tensors);
}

TEST(CalibrateTest, NanAndInfinityNameTheFirstSampleAndItsTensor) {
  const graph::Model model = network();
  QuietHost quiet;
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    std::vector<std::vector<Tensor>> inputs;
    for (std::size_t i = 0; i < 30; ++i) {
      Tensor::Writable x = Tensor::allocate(graph::DataType::kFloat32, {1, 3, 10, 10});
      CounterRng(1, i).fill_normal(x.values<float>());
      if (i == 9 || i == 10 || i == 25) {  // 9 is one of those that judge
        x.values<float>()[7] = bad;
      }
      inputs.push_back({std::move(x.tensor)});
    }
    const MemoryDataset data(std::move(inputs));
    for (const int threads : {1, 3}) {
      CalibrateOptions options;
      options.compile.threads = threads;
      try {
        (void)calibrate(model, {"r", "x", "a"}, data, data.all(), engine(), options, quiet.host);
        FAIL() << "no error";
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
        const std::string text = error.text();
        EXPECT_NE(text.find("sample 'sample 9'"), std::string::npos) << text;
        EXPECT_NE(text.find("tensor '"), std::string::npos) << text;
        EXPECT_NE(text.find(std::isnan(bad) ? "nan" : "inf"), std::string::npos) << text;
      }
    }
  }
}

// Values are shown channels last; the message counts as the tensor is stored.
TEST(CalibrateTest, TheFirstBadElementIsNamedInRowMajorOrder) {
  const graph::Model model = onnx::parse_graph("g (float[1,2,2,3] x) => (float[1,2,2,3] y) { y = Neg(x) }");
  Tensor::Writable x = Tensor::allocate(graph::DataType::kFloat32, {1, 2, 2, 3});
  CounterRng(1, 0).fill_normal(x.values<float>());
  x.values<float>()[7] = std::numeric_limits<float>::infinity();  // channel 1, row 0, column 1: shown before
  x.values<float>()[2] = std::numeric_limits<float>::infinity();  // channel 0, row 0, column 2
  const MemoryDataset data({{std::move(x.tensor)}});
  QuietHost quiet;
  try {
    (void)calibrate(model, {"y"}, data, data.all(), engine(), {}, quiet.host);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(error.text().find("tensor 'y' holds -inf at element 2"), std::string::npos) << error.text();
  }
}

TEST(CalibrateTest, AnEmptyTensorNamesSampleAndTensor) {
  const graph::Model model = onnx::parse_graph("g (float[N,4] x) => (float[N,4] y) { y = Relu(x) }");
  std::vector<std::vector<Tensor>> inputs;
  for (const std::int64_t n : {2, 0, 3}) {
    inputs.push_back({Tensor::allocate(graph::DataType::kFloat32, {n, 4}).tensor});
  }
  const MemoryDataset data(std::move(inputs));
  QuietHost quiet;
  try {
    (void)calibrate(model, {"y"}, data, data.all(), engine(), {}, quiet.host);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(error.text().find("tensor 'y' is empty"), std::string::npos) << error.text();
    EXPECT_NE(error.text().find("sample 'sample 1'"), std::string::npos) << error.text();
  }
}

/// Asks to stop when a sample is loaded for the n-th time.
class InterruptingDataset final : public data::Dataset {
 public:
  InterruptingDataset(const MemoryDataset& inner, int stop_at, CancelToken cancel)
      : inner_(inner), stop_at_(stop_at), cancel_(std::move(cancel)) {}
  [[nodiscard]] const std::vector<data::SampleInfo>& samples() const override { return inner_.samples(); }
  [[nodiscard]] const std::vector<data::Source>& sources() const override { return inner_.sources(); }
  [[nodiscard]] data::Sample load(std::size_t index) const override {
    if (++loads == stop_at_) {
      cancel_.cancel();
    }
    return inner_.load(index);
  }

  mutable std::atomic<int> loads = 0;

 private:
  const MemoryDataset& inner_;
  int stop_at_;
  CancelToken cancel_;
};

class ResumeTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("tempera_calibrate_" + std::to_string(::getpid()));
    std::filesystem::remove_all(folder_);
    options_.cache_dir = folder_;
    options_.workers = 1;
    options_.compile.input_shapes = {{"x", {1, 3, 10, 10}}};  // all tensors then run in one group
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string run(const data::Dataset& data, const Host& host) const {
    return to_json(
        calibrate(model_, activation_names(model_.graph), data, data_.all(), engine(), options_, host));
  }

  const graph::Model model_ = network();
  const MemoryDataset data_ = normal_samples(200, {1, 3, 10, 10});
  std::filesystem::path folder_;
  CalibrateOptions options_;
};

TEST_F(ResumeTest, WhatWasInterruptedGoesOnToTheSameBytes) {
  QuietHost quiet;
  options_.cache_dir.clear();
  const std::string expected = run(data_, quiet.host);
  options_.cache_dir = folder_;
  for (int time = 0; time < 3; ++time) {  // each time 100 samples further, 3 of which are read for the key
    QuietHost stopped;
    const InterruptingDataset interrupting(data_, 100, stopped.cancel);
    try {
      (void)run(interrupting, stopped.host);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kCancelled);
    }
    EXPECT_LE(interrupting.loads, 104);
  }
  const InterruptingDataset counting(data_, 0, {});
  EXPECT_EQ(run(counting, quiet.host), expected);
  EXPECT_LT(counting.loads, 150);  // not from the start: that takes 200 and those that judge
}

TEST_F(ResumeTest, AFinishedCalibrationIsTakenFromTheCache) {
  QuietHost quiet;
  const std::string expected = run(data_, quiet.host);
  const InterruptingDataset counting(data_, 0, {});
  EXPECT_EQ(run(counting, quiet.host), expected);
  EXPECT_EQ(counting.loads, 3);  // for the key
  options_.percentile = 0.99;    // another key
  (void)run(counting, quiet.host);
  EXPECT_GT(counting.loads, 200);
}

TEST_F(ResumeTest, DamagedStateIsNotUsed) {
  QuietHost quiet;
  const std::string expected = run(data_, quiet.host);
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_)) {
    if (entry.is_regular_file()) {
      std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(100);
      file.put('#');
    }
  }
  const InterruptingDataset counting(data_, 0, {});
  EXPECT_EQ(run(counting, quiet.host), expected);
  EXPECT_GT(counting.loads, 200);
}

TEST(StratifiedSamplesTest, AreOneOfEachPartOfTheSortedTimesteps) {
  const graph::Model model =
      onnx::parse_graph("g (float[1] t, float[2] x) => (float[2] y) { y = Add(t, x) }");
  std::vector<std::vector<Tensor>> inputs;
  for (int i = 0; i < 100; ++i) {  // 0, 37, 74, 11, ...: each of 0 to 99 once
    inputs.push_back(
        {Tensor::from<float>({1}, {static_cast<float>(i * 37 % 100)}), Tensor::from<float>({2}, {1, 2})});
  }
  const MemoryDataset data(std::move(inputs));
  QuietHost quiet;
  std::vector<std::size_t> taken = stratified_samples(data, model.graph, data.all(), "t", 10, 3, quiet.host);
  ASSERT_EQ(taken.size(), 10U);
  EXPECT_TRUE(std::is_sorted(taken.begin(), taken.end()));
  EXPECT_EQ(taken, stratified_samples(data, model.graph, data.all(), "t", 10, 3, quiet.host));
  EXPECT_NE(taken, stratified_samples(data, model.graph, data.all(), "t", 10, 4, quiet.host));
  std::sort(taken.begin(), taken.end(),
            [](std::size_t a, std::size_t b) { return a * 37 % 100 < b * 37 % 100; });
  for (std::size_t i = 0; i < taken.size(); ++i) {
    EXPECT_EQ(taken[i] * 37 % 100 / 10, i);
  }
  EXPECT_EQ(stratified_samples(data, model.graph, {5, 3}, "t", 10, 3, quiet.host),
            (std::vector<std::size_t>{5, 3}));
  EXPECT_THROW((void)stratified_samples(data, model.graph, data.all(), "u", 10, 3, quiet.host), Error);

  CalibrateOptions options;
  options.timestep_input = "t";
  EXPECT_EQ(calibrate(model, {"y"}, data, data.all(), engine(), options, quiet.host).ranges.at("y").max,
            101.0F);
  options.timestep_input = "u";
  EXPECT_THROW((void)calibrate(model, {"y"}, data, data.all(), engine(), options, quiet.host), Error);
}

TEST(CalibrateTest, JsonKeepsEveryBit) {
  Calibration calibration;
  calibration.engine = "openvino 1 cpu f32";
  calibration.samples = 3;
  calibration.ranges["a/b:0"] = {-0.1F,    1.0F / 3.0F, -0.0F, std::nextafter(1.0F, 2.0F), RangeMethod::kMse,
                                 1.0 / 3.0};
  calibration.ranges["tiny"] = {std::numeric_limits<float>::denorm_min(),
                                std::numeric_limits<float>::max(),
                                0.0F,
                                1e-30F,
                                RangeMethod::kEntropy,
                                0.0};
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
