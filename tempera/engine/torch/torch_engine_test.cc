#include "tempera/engine/torch/torch_engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tempera/base/error.h"
#include "tempera/onnx/text.h"

namespace tempera::engine {
namespace {

using graph::Tensor;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<Tensor> run(const graph::Model& model, const std::vector<Tensor>& inputs) {
  return make_torch_engine()->compile(model, CompileOptions{})->run(inputs);
}

std::vector<Tensor> run(std::string_view text, const std::vector<Tensor>& inputs, std::int64_t opset = 21) {
  return run(onnx::parse_graph(text, opset), inputs);
}

/// The error that `function` throws.
template <typename Function>
Error error_of(Function&& function) {
  try {
    function();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "nothing was thrown";
  return Error(ErrorCode::kInternal, "");
}

TEST(TorchEngine, ComputesAGraph) {
  const std::vector<Tensor> y = run("g (float[2,2] x) => (float[2,2] y) { a = Mul(x, x) y = Add(a, x) }",
                                    {Tensor::from<float>({2, 2}, {1, 2, 3, -4})});
  EXPECT_THAT(y[0].values<float>(), ElementsAre(2, 6, 12, 12));
}

TEST(TorchEngine, BodiesSeeOuterValues) {
  const char* text = R"(g (bool c, float[2] x) => (float[2] y) {
    twice = Add(x, x)
    y = If(c) <then_branch = t () => (float[2] a) { a = Mul(twice, x) },
               else_branch = e () => (float[2] b) { b = Identity(twice) }> })";
  const Tensor x = Tensor::from<float>({2}, {1, 3});
  EXPECT_THAT(run(text, {Tensor::scalar(true), x})[0].values<float>(), ElementsAre(2, 18));
  EXPECT_THAT(run(text, {Tensor::scalar(false), x})[0].values<float>(), ElementsAre(2, 6));
}

TEST(TorchEngine, LoopKeepsStateAndStacksScanOutputs) {
  const std::vector<Tensor> outputs = run(R"(g (int64 n, float x) => (float last, float[k] all) {
    yes = Constant <value = bool {1}> ()
    last, all = Loop(n, yes, x) <body = b (int64 i, bool c, float s) => (bool again, float next, float seen) {
      again = Identity(c)
      next = Add(s, s)
      seen = Identity(s) }> })", {Tensor::scalar<std::int64_t>(3), Tensor::scalar(1.0F)});
  EXPECT_THAT(outputs[0].values<float>(), ElementsAre(8));
  EXPECT_THAT(outputs[1].values<float>(), ElementsAre(1, 2, 4));
}

TEST(TorchEngine, LoopOfNoStepsGivesEmptyScanOutputs) {
  const std::vector<Tensor> outputs = run(R"(g (int64 n, float[2] x) => (float[2] last, float[k,2] all) {
    yes = Constant <value = bool {1}> ()
    last, all = Loop(n, yes, x) <body = b (int64 i, bool c, float[2] s) => (bool again, float[2] next, float[2] seen) {
      again = Identity(c)
      next = Add(s, s)
      seen = Identity(s) }> })", {Tensor::scalar<std::int64_t>(0), Tensor::from<float>({2}, {1, 2})});
  EXPECT_THAT(outputs[0].values<float>(), ElementsAre(1, 2));
  EXPECT_THAT(outputs[1].dims(), ElementsAre(0, 2));
}

TEST(TorchEngine, AnOperatorWithoutKernelRunsByItsFunctionBody) {
  const std::vector<Tensor> y = run("g (float[2,1] x) => (float[2,1] y) { y = MeanVarianceNormalization <axes = [0]> (x) }",
                                    {Tensor::from<float>({2, 1}, {1, 3})});
  EXPECT_NEAR(y[0].values<float>()[0], -1.0F, 1e-5F);
  EXPECT_NEAR(y[0].values<float>()[1], 1.0F, 1e-5F);
}

TEST(TorchEngine, NamesTheNodeThatFails) {
  const Error error = error_of([] {
    run("g (float[2,3] x, int64[1] s) => (float[N] y) { [flat] y = Reshape(x, s) }",
        {Tensor::from<float>({2, 3}, {1, 2, 3, 4, 5, 6}), Tensor::from<std::int64_t>({1}, {5})});
  });
  EXPECT_EQ(error.code(), ErrorCode::kBadModel);
  EXPECT_THAT(error.text(), HasSubstr("a tensor of shape [2,3] cannot take the shape [5]"));
  EXPECT_THAT(error.text(), HasSubstr("'flat' (Reshape"));
}

TEST(TorchEngine, TranslatesTorchsOwnErrors) {
  const Error error = error_of([] {
    run("g (float[N] x, float[M] y) => (float[K] z) { [sum] z = Add(x, y) }",
        {Tensor::from<float>({2}, {1, 2}), Tensor::from<float>({3}, {1, 2, 3})});
  });
  EXPECT_EQ(error.code(), ErrorCode::kEngineFailed);
  EXPECT_THAT(error.text(), HasSubstr("'sum' (Add"));
}

TEST(TorchEngine, ChecksItsInputs) {
  const char* text = "g (float[2,N] x) => (float[2,N] y) { y = Abs(x) }";
  EXPECT_THAT(error_of([&] { run(text, {Tensor::from<std::int64_t>({2, 1}, {1, 2})}); }).text(),
              HasSubstr("input 'x' is int64, expected float"));
  EXPECT_THAT(error_of([&] { run(text, {Tensor::from<float>({3, 1}, {1, 2, 3})}); }).text(),
              HasSubstr("input 'x' has shape [3,1], expected [2,N]"));
  EXPECT_THAT(error_of([&] { run(text, {}); }).text(), HasSubstr("takes 1 inputs and was given 0"));
}

TEST(TorchEngine, ListsOperatorsThatItCannotRun) {
  const graph::Model model = onnx::parse_text(R"(<ir_version: 10, opset_import: ["" : 21, "mine" : 1]>
    g (float[2] x) => (float[2] y) { [odd] y = mine.Odd(x) })");
  const std::vector<Unsupported> missing = make_torch_engine()->unsupported(model);
  ASSERT_EQ(missing.size(), 1U);
  EXPECT_EQ(missing[0].op_type, "Odd");
  EXPECT_EQ(error_of([&] { (void)make_torch_engine()->compile(model, CompileOptions{}); }).code(), ErrorCode::kUnsupported);
}

TEST(TorchEngine, ObserverSeesEveryValue) {
  const graph::Model model = onnx::parse_graph("g (float[2] x) => (float[2] y) { a = Neg(x) b = Abs(a) y = Sqrt(b) }", 21);
  const std::unique_ptr<TorchSession> session = make_torch_engine()->compile_torch(model, CompileOptions{});
  std::vector<std::string> names;
  std::vector<float> first;
  session->set_observer([&](std::string_view name, const Tensor& tensor) {
    names.emplace_back(name);
    first.push_back(tensor.values<float>()[0]);
  });
  (void)session->run(std::vector<Tensor>{Tensor::from<float>({2}, {4, 9})});
  EXPECT_THAT(names, ElementsAre("a", "b", "y"));
  EXPECT_THAT(first, ElementsAre(-4, 4, 2));
}

TEST(TorchEngine, OutputsOutliveTheSessionAndItsInputs) {
  std::vector<Tensor> y;
  {
    const graph::Model model = onnx::parse_graph("g (float[2] x) => (float[2] y, float[2] z) { y = Identity(x) z = Neg(x) }", 21);
    const std::unique_ptr<Session> session = make_torch_engine()->compile(model, CompileOptions{});
    y = session->run(std::vector<Tensor>{Tensor::from<float>({2}, {5, 6})});
  }
  EXPECT_THAT(y[0].values<float>(), ElementsAre(5, 6));
  EXPECT_THAT(y[1].values<float>(), ElementsAre(-5, -6));
}

TEST(TorchEngine, SmallestIntegerOverMinusOneWraps) {
  constexpr std::int32_t kSmallest = std::numeric_limits<std::int32_t>::min();
  const std::vector<Tensor> y = run("g (int32[2] x, int32[2] d) => (int32[2] q, int32[2] r) { q = Div(x, d) r = Mod(x, d) }",
                                    {Tensor::from<std::int32_t>({2}, {kSmallest, -7}), Tensor::from<std::int32_t>({2}, {-1, 2})});
  EXPECT_THAT(y[0].values<std::int32_t>(), ElementsAre(kSmallest, -3));  // truncated as in C
  EXPECT_THAT(y[1].values<std::int32_t>(), ElementsAre(0, 1));           // the sign of the divisor
}

TEST(TorchEngine, IntegerDivisionByZeroIsAnError) {
  const auto divide = [] {
    run("g (int32[1] x, int32[1] d) => (int32[1] y) { y = Div(x, d) }",
        {Tensor::from<std::int32_t>({1}, {1}), Tensor::from<std::int32_t>({1}, {0})});
  };
  EXPECT_THAT(error_of(divide).text(), HasSubstr("division by zero"));
}

TEST(TorchEngine, Uint64UsesItsUpperHalf) {
  constexpr std::uint64_t kLargest = std::numeric_limits<std::uint64_t>::max();
  const std::vector<Tensor> y =
      run("g (uint64[2] a, uint64[2] b) => (uint64[2] m, bool[2] l, uint64[2] q, double[2] d) "
          "{ m = Max(a, b) l = Less(a, b) q = Div(a, b) d = Cast <to = 11> (a) }",
          {Tensor::from<std::uint64_t>({2}, {kLargest, 3}), Tensor::from<std::uint64_t>({2}, {2, kLargest})});
  EXPECT_THAT(y[0].values<std::uint64_t>(), ElementsAre(kLargest, kLargest));
  EXPECT_THAT(y[1].values<bool>(), ElementsAre(false, true));
  EXPECT_THAT(y[2].values<std::uint64_t>(), ElementsAre(kLargest / 2, 0));
  EXPECT_THAT(y[3].values<double>(), ElementsAre(18446744073709551616.0, 3.0));
}

TEST(TorchEngine, NarrowIntegersWrapAround) {
  const std::vector<Tensor> y = run("g (uint16[1] a, uint16[1] b) => (uint16[1] s, uint16[1] p) { s = Add(a, b) p = Mul(a, a) }",
                                    {Tensor::from<std::uint16_t>({1}, {65535}), Tensor::from<std::uint16_t>({1}, {2})});
  EXPECT_THAT(y[0].values<std::uint16_t>(), ElementsAre(1));
  EXPECT_THAT(y[1].values<std::uint16_t>(), ElementsAre(1));  // 65535^2 = 2^32 - 2^17 + 1
}

TEST(TorchEngine, GatherNamesAnIndexOutside) {
  const auto gather = [] {
    run("g (float[3] x, int64[1] i) => (float[1] y) { y = Gather(x, i) }",
        {Tensor::from<float>({3}, {1, 2, 3}), Tensor::from<std::int64_t>({1}, {3})});
  };
  EXPECT_THAT(error_of(gather).text(), HasSubstr("index 3 outside [-3, 3)"));
}

TEST(TorchEngine, StringsMoveLikeNumbers) {
  const std::vector<Tensor> y =
      run("g (string[2,2] x) => (string[2,2] t, string[1,2] s) { t = Transpose(x) starts = Constant <value_ints = [-1]> () "
          "ends = Constant <value_ints = [-9]> () axes = Constant <value_ints = [0]> () steps = Constant <value_ints = [-2]> () "
          "s = Slice(x, starts, ends, axes, steps) }",
          {Tensor::strings({2, 2}, {"a", "b", "c", "d"})});
  EXPECT_THAT(y[0].string_values(), ElementsAre("a", "c", "b", "d"));
  EXPECT_THAT(y[1].string_values(), ElementsAre("c", "d"));
}

TEST(TorchEngine, ReadsFormsOfOldOpsets) {
  const std::vector<Tensor> y = run("g (float[1,3] x) => (float[2] y, float[3] z) "
                                    "{ s = Slice <axes = [1], starts = [1], ends = [3]> (x) y = Squeeze <axes = [0]> (s) "
                                    "c = Clip <min = 0.0, max = 2.0> (x) shape = Constant <value = int64[1] {-1}> () z = Reshape(c, shape) }",
                                    {Tensor::from<float>({1, 3}, {-1, 2, 3})}, 9);
  EXPECT_THAT(y[0].values<float>(), ElementsAre(2, 3));
  EXPECT_THAT(y[1].values<float>(), ElementsAre(0, 2, 2));
}

TEST(TorchEngine, RaisesTheOldestOpsets) {
  // Before opset 7 the place of the second operand's dimensions was an attribute.
  const std::vector<Tensor> y =
      run("g (float[2,3] x, float[2] b) => (float[2,3] y) { y = Add <axis = 0, broadcast = 1> (x, b) }",
          {Tensor::from<float>({2, 3}, {0, 0, 0, 0, 0, 0}), Tensor::from<float>({2}, {1, 2})}, 6);
  EXPECT_THAT(y[0].values<float>(), ElementsAre(1, 1, 1, 2, 2, 2));
}

TEST(TorchEngine, RefusesWhatMemoryCannotHold) {
  const auto fill = [] {
    run("g (int64[2] s) => (float[N,M] y) { c = ConstantOfShape(s) y = Exp(c) }",
        {Tensor::from<std::int64_t>({2}, {1LL << 30, 1LL << 20})});
  };
  EXPECT_EQ(error_of(fill).code(), ErrorCode::kOutOfMemory);
}

TEST(TorchEngine, ReshapeRefusesDimensionsThatOverflow) {
  const auto reshape = [] {
    run("g (float[2] x, int64[3] s) => (float[N,M,K] y) { y = Reshape(x, s) }",
        {Tensor::from<float>({2}, {1, 2}), Tensor::from<std::int64_t>({3}, {-1, 1LL << 40, 1LL << 40})});
  };
  EXPECT_NE(error_of(reshape).code(), ErrorCode::kInternal);
}

TEST(TorchEvaluator, ComputesASingleNode) {
  graph::Node node;
  node.op_type = "Concat";
  node.inputs = {graph::ValueId{0}, graph::ValueId{1}};
  node.outputs = {graph::ValueId{2}};
  node.attributes["axis"] = std::int64_t{0};
  const auto outputs = make_torch_evaluator()->evaluate(
      node, 21, std::vector<Tensor>{Tensor::from<std::int64_t>({1}, {7}), Tensor::from<std::int64_t>({2}, {8, 9})});
  ASSERT_TRUE(outputs.has_value());
  EXPECT_THAT(outputs->at(0).values<std::int64_t>(), ElementsAre(7, 8, 9));
}

TEST(TorchEvaluator, DeclinesTheUnknownAndTheRandom) {
  graph::Node node;
  node.op_type = "RandomNormalLike";
  node.inputs = {graph::ValueId{0}};
  node.outputs = {graph::ValueId{1}};
  const std::vector<Tensor> inputs = {Tensor::from<float>({1}, {7})};
  EXPECT_FALSE(make_torch_evaluator()->evaluate(node, 21, inputs).has_value());
  node.op_type = "NoSuchOperator";
  EXPECT_FALSE(make_torch_evaluator()->evaluate(node, 21, inputs).has_value());
}

}  // namespace
}  // namespace tempera::engine
