#include "tempera/engine/openvino/openvino_engine.h"

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "tempera/base/error.h"
#include "tempera/onnx/text.h"

namespace tempera::engine {
namespace {

using graph::DataType;
using graph::Tensor;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

// One runtime for all tests: starting it costs 30 ms.
const Engine& engine() {
  static const std::unique_ptr<Engine> instance = make_openvino_engine();
  return *instance;
}

std::unique_ptr<Session> compile(std::string_view text, const CompileOptions& options = {}) {
  return engine().compile(onnx::parse_graph(text), options);
}

std::vector<float> floats(const Tensor& tensor) {
  const auto values = tensor.values<float>();
  return {values.begin(), values.end()};
}

ErrorCode error_of(const std::function<void()>& call, std::string* text = nullptr) {
  try {
    call();
  } catch (const Error& e) {
    if (text != nullptr) {
      *text = e.text();
    }
    return e.code();
  }
  return ErrorCode::kInternal;
}

TEST(OpenvinoEngineTest, SaysWhatItIs) {
  const Attributes& attributes = engine().attributes();
  EXPECT_EQ(attributes.name, "openvino");
  EXPECT_EQ(attributes.version, "2026.4.1");
  EXPECT_THAT(attributes.devices, ElementsAre("cpu"));
  EXPECT_EQ(attributes.precisions.front(), Precision::kFloat32);
}

TEST(OpenvinoEngineTest, RunsAndLeavesInputsAlone) {
  const auto session = compile("g (float[2,2] x) => (float[2,2] y) { a = Relu(x) y = Add(a, a) }");
  const Tensor x = Tensor::from<float>({2, 2}, {-1, 2, 3, -4});
  const auto outputs = session->run(std::vector{x});
  ASSERT_EQ(outputs.size(), 1U);
  EXPECT_EQ(outputs[0].dims(), (graph::Dims{2, 2}));
  EXPECT_THAT(floats(outputs[0]), ElementsAre(0, 4, 6, 0));
  EXPECT_THAT(floats(x), ElementsAre(-1, 2, 3, -4));
}

TEST(OpenvinoEngineTest, OutputsBelongToTheCaller) {
  for (const char* dim : {"2", "N"}) {
    const auto session = compile(fmt::format("g (float[{0}] x) => (float[{0}] y) {{ y = Neg(x) }}", dim));
    const auto first = session->run(std::vector{Tensor::from<float>({2}, {1, 2})});
    const auto second = session->run(std::vector{Tensor::from<float>({2}, {3, 4})});
    EXPECT_THAT(floats(first[0]), ElementsAre(-1, -2)) << dim;
    EXPECT_THAT(floats(second[0]), ElementsAre(-3, -4)) << dim;
  }
}

TEST(OpenvinoEngineTest, OutputsOutliveSessionAndEngine) {
  std::vector<Tensor> outputs;
  {
    const auto own = make_openvino_engine();
    outputs = own->compile(onnx::parse_graph("g (float[2] x) => (float[2] y) { y = Neg(x) }"), {})
                  ->run(std::vector{Tensor::from<float>({2}, {1, 2})});
  }
  EXPECT_THAT(floats(outputs[0]), ElementsAre(-1, -2));
}

TEST(OpenvinoEngineTest, TheSessionOutlivesItsEngine) {
  auto own = make_openvino_engine();
  const auto session = own->compile(onnx::parse_graph("g (float[1] x) => (float[1] y) { y = Neg(x) }"), {});
  own.reset();
  EXPECT_THAT(floats(session->run(std::vector{Tensor::from<float>({1}, {5})})[0]), ElementsAre(-5));
}

TEST(OpenvinoEngineTest, AGraphThatOnlyHandsItsInputOnStillGivesIt) {
  for (const char* node : {"Sum", "Dropout", "Identity"}) {
    const auto session = compile(fmt::format("g (float[3] x) => (float[3] y) {{ y = {}(x) }}", node));
    EXPECT_THAT(floats(session->run(std::vector{Tensor::from<float>({3}, {1, 2, 3})})[0]), ElementsAre(1, 2, 3)) << node;
  }
}

// OpenVINO's reader names the input after the Dropout's output.
TEST(OpenvinoEngineTest, AnInputThroughDropoutKeepsItsName) {
  CompileOptions options;
  options.input_shapes = {{"x", {2}}};
  const auto session =
      compile("g (float[2] a, float[N] x) => (float[N] y) { d = Dropout(x) s = Sub(d, a) y = Exp(s) }", options);
  EXPECT_EQ(graph::to_string(session->inputs()[1].type), "float[2]");
  const auto outputs = session->run(std::vector{Tensor::from<float>({2}, {1, 2}), Tensor::from<float>({2}, {1, 2})});
  EXPECT_THAT(floats(outputs[0]), ElementsAre(1, 1));
}

TEST(OpenvinoEngineTest, AnInputMayBeAnOutputAndAnOutputConstant) {
  const auto session = compile(
      "g (float[2] x) => (float[2] x_out, float[2] c_out, float[2] y) "
      "{ x_out = Identity(x) c = Constant<value_floats = [7.0, 8.0]>() c_out = Identity(c) y = Neg(x) }");
  const Tensor x = Tensor::from<float>({2}, {1, 2});
  for (int run = 0; run < 2; ++run) {
    const auto outputs = session->run(std::vector{x});
    EXPECT_THAT(floats(outputs[0]), ElementsAre(1, 2));
    EXPECT_THAT(floats(outputs[1]), ElementsAre(7, 8));
    EXPECT_THAT(floats(outputs[2]), ElementsAre(-1, -2));
  }
}

TEST(OpenvinoEngineTest, DynamicShapesStayDynamic) {
  const auto session = compile("g (float[N,3] x) => (float[M] y) { y = ReduceSum<keepdims = 0>(x) }");
  EXPECT_EQ(graph::to_string(session->inputs()[0].type), "float[?,3]");
}

TEST(OpenvinoEngineTest, RunsOneShapeAfterAnother) {
  const auto session = compile("g (float[N,2] x) => (float[N,2] y) { y = Neg(x) }");
  for (const std::int64_t n : {1, 3, 2, 0}) {
    const std::vector<float> values(static_cast<std::size_t>(2 * n), 1.0F);
    const auto outputs = session->run(std::vector{Tensor::from<float>({n, 2}, std::span<const float>(values))});
    EXPECT_EQ(outputs[0].dims(), (graph::Dims{n, 2}));
  }
}

TEST(OpenvinoEngineTest, ShapesCanBeFixedByName) {
  CompileOptions options;
  options.input_shapes = {{"x", {4, 2}}};
  const auto session = compile("g (float[N,2] x) => (float[N,2] y) { y = Neg(x) }", options);
  EXPECT_EQ(graph::to_string(session->inputs()[0].type), "float[4,2]");
  EXPECT_EQ(graph::to_string(session->outputs()[0].type), "float[4,2]");
}

TEST(OpenvinoEngineTest, WrongShapesToFixAreErrors) {
  const std::string model = "g (float[N,2] x) => (float[N,2] y) { y = Neg(x) }";
  const auto code = [&](const std::string& name, const graph::Dims& dims) {
    CompileOptions options;
    options.input_shapes = {{name, dims}};
    return error_of([&] { (void)compile(model, options); });
  };
  EXPECT_EQ(code("z", {4, 2}), ErrorCode::kNotFound);
  EXPECT_EQ(code("x", {4, -2}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code("x", {4, 2, 1}), ErrorCode::kInvalidArgument);
}

TEST(OpenvinoEngineTest, WrongInputsAreNamedAllTogether) {
  const auto session = compile("g (float[2] a, int64[N,3] b) => (float[2] y, int64[N,3] z) { y = Neg(a) z = Neg(b) }");
  std::string text;
  const std::vector<Tensor> inputs{Tensor::from<std::int64_t>({2}, {1, 2}), Tensor::from<std::int64_t>({1, 2}, {1, 2})};
  EXPECT_EQ(error_of([&] { (void)session->run(inputs); }, &text), ErrorCode::kInvalidArgument);
  EXPECT_EQ(text,
            "error[invalid_argument]: input 'a' has type int64, expected float; input 'b' has shape [1,2], expected [?,3]\n");
  EXPECT_EQ(error_of([&] { (void)session->run({}); }), ErrorCode::kInvalidArgument);
}

TEST(OpenvinoEngineTest, ScalarsAndEmptyTensorsPass) {
  const auto session = compile("g (float x, float[0,3] e) => (float y, float[0,3] f) { y = Neg(x) f = Neg(e) }");
  const auto outputs = session->run(std::vector{Tensor::scalar(2.0F), Tensor::from<float>({0, 3}, {})});
  EXPECT_EQ(outputs[0].rank(), 0);
  EXPECT_THAT(floats(outputs[0]), ElementsAre(-2));
  EXPECT_EQ(outputs[1].dims(), (graph::Dims{0, 3}));
}

TEST(OpenvinoEngineTest, AnInputThatNobodyReadsIsStillAsked) {
  const auto session = compile("g (float[1] x, float[1] unused) => (float[1] y) { y = Neg(x) }");
  ASSERT_EQ(session->inputs().size(), 2U);
  const auto outputs = session->run(std::vector{Tensor::from<float>({1}, {3}), Tensor::from<float>({1}, {4})});
  EXPECT_THAT(floats(outputs[0]), ElementsAre(-3));
}

// Every type that both sides have goes through unchanged: bytes 1, 2, 3, ... in, the same out.
class OpenvinoTypeTest : public testing::TestWithParam<DataType> {};

TEST_P(OpenvinoTypeTest, BytesPassThrough) {
  const DataType type = GetParam();
  const auto session = compile(fmt::format("g ({0}[4] x) => ({0}[4] y) {{ y = Identity(x) }}", numeric::to_string(type)));
  std::vector<std::byte> bytes(numeric::bytes_of(type, 4));
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = type == DataType::kBool ? std::byte(i % 2) : std::byte(i + 1);
    if (type == DataType::kInt64 && i % 8 >= 4) {
      bytes[i] = std::byte(0);  // OpenVINO computes in 32 bits
    }
  }
  const Tensor x = Tensor::from_bytes(type, {4}, bytes);
  const auto outputs = session->run(std::vector{x});
  EXPECT_TRUE(outputs[0].same_bytes(x));
}

INSTANTIATE_TEST_SUITE_P(All, OpenvinoTypeTest,
                         testing::Values(DataType::kFloat32, DataType::kFloat64, DataType::kFloat16, DataType::kBfloat16,
                                         DataType::kInt8, DataType::kInt16, DataType::kInt32, DataType::kInt64,
                                         DataType::kUint8, DataType::kUint16, DataType::kUint32, DataType::kUint64,
                                         DataType::kBool, DataType::kInt4, DataType::kUint4, DataType::kFloat8E4M3FN,
                                         DataType::kFloat8E5M2),
                         [](const auto& info) { return std::string(numeric::to_string(info.param)); });

TEST(OpenvinoEngineTest, EmptyTensorsOfPackedTypesAreTaken) {
  const auto session = compile("g (int4[N] like, float[2] x) => (int4[2] y) { y = CastLike(x, like) }");
  EXPECT_NO_THROW((void)session->run(std::vector{Tensor::from_bytes(DataType::kInt4, {0}, {}), Tensor::from<float>({2}, {1, 2})}));
}

TEST(OpenvinoEngineTest, TypesItLacksAreNamed) {
  std::string text;
  EXPECT_EQ(error_of([] { (void)compile("g (string[N] words) => (string[N] y) { y = Identity(words) }"); }, &text),
            ErrorCode::kUnsupported);
  EXPECT_THAT(text, HasSubstr("input 'words' has type string"));
  EXPECT_THAT(text, HasSubstr("output 'y' has type string"));
}

TEST(OpenvinoEngineTest, StartAndWaitGiveTheSameAsRun) {
  const auto session = compile("g (float[2] x) => (float[2] y) { y = Exp(x) }");
  const std::vector<Tensor> inputs{Tensor::from<float>({2}, {0, 1})};
  session->start(inputs);
  EXPECT_EQ(error_of([&] { session->start(inputs); }), ErrorCode::kInvalidArgument);
  EXPECT_TRUE(session->wait()[0].same_bytes(session->run(inputs)[0]));
  EXPECT_EQ(error_of([&] { (void)session->wait(); }), ErrorCode::kInvalidArgument);
}

// 2^-9 is half a unit in the last place of 1 in bf16 (8 bits): 1 + 2^-9 rounds to 1 (ties to even), in f32 it stays.
TEST(OpenvinoEngineTest, ThePrecisionAskedForIsTheOneUsed) {
  const std::string model = "g (float[64,64] x, float[64,64] w) => (float[64,64] y) { y = MatMul(x, w) }";
  const std::vector<float> ones(4096, 1.0F);
  std::vector<float> diagonal(4096, 0.0F);
  for (std::size_t i = 0; i < 64; ++i) {
    diagonal[65 * i] = 1.0F + std::ldexp(1.0F, -9);
  }
  const std::vector<Tensor> inputs{Tensor::from<float>({64, 64}, std::span<const float>(ones)),
                                   Tensor::from<float>({64, 64}, std::span<const float>(diagonal))};
  const auto exact = compile(model);
  EXPECT_EQ(floats(exact->run(inputs)[0])[0], 1.0F + std::ldexp(1.0F, -9));
  EXPECT_EQ(exact->settings().at("INFERENCE_PRECISION_HINT"), "f32");

  CompileOptions options;
  options.precision = Precision::kBfloat16;
  const auto& native = engine().attributes().precisions;
  if (std::find(native.begin(), native.end(), Precision::kBfloat16) == native.end()) {
    EXPECT_EQ(error_of([&] { (void)compile(model, options); }), ErrorCode::kUnsupported);
    GTEST_SKIP() << "this CPU does not compute in bf16";
  }
  EXPECT_EQ(floats(compile(model, options)->run(inputs)[0])[0], 1.0F);
}

TEST(OpenvinoEngineTest, ThreadsAreThoseAskedFor) {
  CompileOptions options;
  options.threads = 1;
  EXPECT_EQ(compile("g (float[1] x) => (float[1] y) { y = Neg(x) }", options)->settings().at("INFERENCE_NUM_THREADS"), "1");
}

TEST(OpenvinoEngineTest, UnknownOptionsAreErrors) {
  const std::string model = "g (float[1] x) => (float[1] y) { y = Neg(x) }";
  std::string text;
  CompileOptions options;
  options.properties = {{"ENABLE_CPU_PINING", "NO"}};
  EXPECT_EQ(error_of([&] { (void)compile(model, options); }, &text), ErrorCode::kNotFound);
  EXPECT_THAT(text, HasSubstr("ENABLE_CPU_PINNING"));
  CompileOptions device;
  device.device = "cuda";
  EXPECT_EQ(error_of([&] { (void)compile(model, device); }), ErrorCode::kNotFound);
  CompileOptions threads;
  threads.threads = -1;
  EXPECT_EQ(error_of([&] { (void)compile(model, threads); }), ErrorCode::kInvalidArgument);
}

TEST(OpenvinoEngineTest, ExactSwitchesOffWhatTradesExactness) {
  CompileOptions options;
  options.exact = true;
  const auto settings = compile("g (float[1] x) => (float[1] y) { y = Neg(x) }", options)->settings();
  EXPECT_EQ(settings.at("DYNAMIC_QUANTIZATION_GROUP_SIZE"), "0");
  EXPECT_EQ(settings.at("CPU_DENORMALS_OPTIMIZATION"), "NO");
  EXPECT_EQ(settings.at("KV_CACHE_PRECISION"), "f32");
}

// w [128, 256] of 128 KiB becomes a shared constant, read by the main graph and by a body: y = z = x w.
TEST(OpenvinoEngineTest, LargeWeightsAreSharedWithTheModel) {
  graph::Model model = onnx::parse_graph(
      "g (float[1,128] x, bool c, float[128,256] w) => (float[1,256] y, float[1,256] z) {"
      "  y = MatMul(x, w)"
      "  z = If (c) <then_branch = t () => (float[1,256] a) { a = MatMul(x, w) },"
      "              else_branch = e () => (float[1,256] b) { b = Neg(y) }> }");
  std::vector<float> weight(128 * 256);
  for (std::size_t i = 0; i < weight.size(); ++i) {
    weight[i] = static_cast<float>(i / 256);  // row r holds r
  }
  const auto w = model.graph.find_value("w").value();
  model.graph.set_constant(w, Tensor::from<float>({128, 256}, std::span<const float>(weight)));
  model.graph.remove_input(2);
  const auto session = engine().compile(model, {});
  ASSERT_EQ(session->inputs().size(), 2U);
  const std::vector<float> ones(128, 1.0F);
  const Tensor x = Tensor::from<float>({1, 128}, std::span<const float>(ones));
  const float sum = 127.0F * 128.0F / 2.0F;
  const auto yes = session->run(std::vector{x, Tensor::scalar(true)});
  EXPECT_EQ(floats(yes[0])[255], sum);
  EXPECT_EQ(floats(yes[1])[255], sum);
  const auto no = session->run(std::vector{x, Tensor::scalar(false)});
  EXPECT_EQ(floats(no[1])[255], -sum);
}

TEST(OpenvinoEngineTest, LocalFunctionsAreInlined) {
  const auto model = onnx::parse_text(R"(<ir_version: 10, opset_import: ["" : 21, "my" : 1]>
      g (float[2] x) => (float[2] y) { y = my.twice(x) }
      <domain: "my", opset_import: ["" : 21]> twice (a) => (b) { b = Add(a, a) })");
  EXPECT_TRUE(engine().unsupported(model).empty());
  EXPECT_THAT(floats(engine().compile(model, {})->run(std::vector{Tensor::from<float>({2}, {1, 2})})[0]), ElementsAre(2, 4));
}

TEST(OpenvinoEngineTest, WhatItCannotTakeIsNamed) {
  const auto model = onnx::parse_text(R"(<ir_version: 10, opset_import: ["" : 21, "my" : 1]>
      g (float[2,4] x) => (float[2,4] y) { a = Relu(x) [odd] b = my.Odd(a) y = Neg(b) })");
  const auto unsupported = engine().unsupported(model);
  ASSERT_EQ(unsupported.size(), 1U);
  EXPECT_EQ(unsupported[0].node, "odd");
  EXPECT_EQ(unsupported[0].op_type, "Odd");
  EXPECT_FALSE(unsupported[0].reason.empty());
  std::string text;
  EXPECT_EQ(error_of([&] { (void)engine().compile(model, {}); }, &text), ErrorCode::kUnsupported);
  EXPECT_THAT(text, HasSubstr("node 'odd' (Odd)"));
}

TEST(OpenvinoEngineTest, AFailingRunNamesTheNode) {
  const auto session = compile(
      "g (float[N,1,4,4] x) => (float[N,1,2,2] y) { a = Neg(x) [pool] y = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(a) }");
  std::string text;
  const std::vector<Tensor> empty{Tensor::from<float>({0, 1, 4, 4}, {})};
  EXPECT_EQ(error_of([&] { (void)session->run(empty); }, &text), ErrorCode::kEngineFailed);
  EXPECT_THAT(text, HasSubstr("in: node 'pool' (MaxPool)"));
  EXPECT_THAT(text, HasSubstr("Batch size is zero"));
  const std::vector<float> values(16, 1.0F);
  const std::vector<Tensor> good{Tensor::from<float>({1, 1, 4, 4}, std::span<const float>(values))};
  EXPECT_EQ(session->run(good)[0].dims(), (graph::Dims{1, 1, 2, 2})) << "the session still works";
}

TEST(OpenvinoEngineTest, TheProfileSpeaksOfTheModelsNodes) {
  CompileOptions options;
  options.profile = true;
  const auto session = compile(
      "g (float[1,8,32,32] x, float[8,8,3,3] w) => (float[1,8,32,32] y) {"
      "  [conv] c = Conv<pads = [1, 1, 1, 1]>(x, w) [act] r = Relu(c) [norm] n = Softmax<axis = 1>(r) [last] y = HardSwish(n) }",
      options);
  EXPECT_TRUE(session->profile().empty() || session->profile().front().time_us == 0.0);
  const std::vector<float> x(8192, 0.5F);
  const std::vector<float> w(576, 0.25F);
  (void)session->run(std::vector{Tensor::from<float>({1, 8, 32, 32}, std::span<const float>(x)),
                                 Tensor::from<float>({8, 8, 3, 3}, std::span<const float>(w))});
  std::vector<std::string> nodes;
  for (const NodeTime& time : session->profile()) {
    EXPECT_FALSE(time.kernel.empty());
    if (time.from_model) {
      nodes.push_back(time.node);
      nodes.insert(nodes.end(), time.fused.begin(), time.fused.end());
    }
  }
  EXPECT_THAT(nodes, testing::IsSupersetOf({"conv", "act", "norm", "last"}));
  EXPECT_TRUE(compile("g (float[1] x) => (float[1] y) { y = Neg(x) }")->profile().empty());
}

class OpenvinoCacheTest : public testing::Test {
 protected:
  void SetUp() override { options_.cache_dir = folder_; }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::size_t entries() const {
    std::size_t count = 0;
    for (const auto& item : std::filesystem::recursive_directory_iterator(folder_)) {
      count += item.is_regular_file() ? 1 : 0;
    }
    return count;
  }

  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / fmt::format("tempera_openvino_cache_{}", ::getpid());
  CompileOptions options_;
};

TEST_F(OpenvinoCacheTest, TheSecondCompileUsesTheFirstsResult) {
  const std::string model = "g (float[N,2] x) => (float[N,2] y) { a = Exp(x) y = Neg(a) }";
  const std::vector<Tensor> inputs{Tensor::from<float>({1, 2}, {0, 1})};
  const Tensor first = compile(model, options_)->run(inputs)[0];
  EXPECT_EQ(entries(), 1U);
  const auto again = compile(model, options_);
  EXPECT_EQ(entries(), 1U);
  EXPECT_EQ(again->inputs()[0].name, "x");
  EXPECT_EQ(again->outputs()[0].name, "y");
  EXPECT_TRUE(again->run(inputs)[0].same_bytes(first));
}

TEST_F(OpenvinoCacheTest, OtherModelsAndOptionsHaveOtherEntries) {
  (void)compile("g (float[2] x) => (float[2] y) { y = Exp(x) }", options_);
  (void)compile("g (float[2] x) => (float[2] y) { y = Neg(x) }", options_);
  EXPECT_EQ(entries(), 2U);
  options_.threads = 1;
  (void)compile("g (float[2] x) => (float[2] y) { y = Neg(x) }", options_);
  EXPECT_EQ(entries(), 3U);
}

}  // namespace
}  // namespace tempera::engine
