// Products, normalisations, softmax and losses, activations.
#include <cmath>
#include <limits>

#include "tempera/engine/torch/kernels/kernel_testing.h"

namespace tempera::engine::aten::testing {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

TEST(MatMul, UnsignedIntegersWrap) {
  // 2^31 * 2 = 2^32 = 0 in uint32, carried in int64.
  const Value a = value(integers({std::int64_t{1} << 31, 3}).reshape({1, 2}), DataType::kUint32);
  const Value b = value(integers({2, 5}).reshape({2, 1}), DataType::kUint32);
  const Value y = run("MatMul", {a, b}).front();
  EXPECT_EQ(y.array()->type, DataType::kUint32);
  EXPECT_TRUE(near(y.array()->data, integers({15}).reshape({1, 1})));
}

TEST(MatMul, HalfIsSummedInFloat) {
  at::Tensor a = at::ones({9}, at::kHalf);
  a[0] = 2048;
  EXPECT_TRUE(near(run_tensor("MatMul", {a, at::ones({9}, at::kHalf)}), at::full({}, 2056, at::kHalf)));
}

TEST(Gemm, TransposesScalesAndBroadcastsC) {
  const at::Tensor a = floats({1, 2, 3, 4, 5, 6}, {3, 2});
  const at::Tensor b = floats({1, 0, 2, 1, 0, 1}, {2, 3});
  const Attributes attributes{
      {"transA", std::int64_t{1}}, {"transB", std::int64_t{1}}, {"alpha", 0.5F}, {"beta", 2.0F}};
  // A^T B^T = [[1+10, 1+5], [2+12, 2+6]]
  EXPECT_TRUE(near(run_tensor("Gemm", {a, b, floats({1, 10}, {2, 1})}, attributes),
                   floats({7.5F, 5, 27, 24}, {2, 2})));
}

TEST(MatMulInteger, ZeroPointsByRowAndColumn) {
  const at::Tensor a = at::tensor({1, 2, 3, 4}, at::kByte).reshape({2, 2});
  const at::Tensor b = at::tensor({1, -1, 0, 2}, at::kChar).reshape({2, 2});
  const at::Tensor y =
      run_tensor("MatMulInteger", {a, b, at::tensor({1, 3}, at::kByte), at::tensor({0, -1}, at::kChar)});
  EXPECT_TRUE(near(y, at::tensor({0, 3, 0, 3}, at::kInt).reshape({2, 2})));  // [[0,1],[0,1]] x [[1,0],[0,3]]
}

TEST(BatchNormalization, TrainingReturnsRunningStatisticsOfThePopulation) {
  const at::Tensor x = floats({1, 3, 5, 7}, {2, 1, 2});
  const at::Tensor one = at::ones({1});
  const auto outputs =
      run("BatchNormalization",
          {value(x), value(one), value(at::zeros({1})), value(at::full({1}, 8.0F)), value(one)},
          {{"training_mode", std::int64_t{1}}, {"momentum", 0.75F}, {"epsilon", 0.0F}}, 3);
  const double deviation = std::sqrt(5.0);  // of 1 3 5 7 about 4
  EXPECT_TRUE(near(outputs[0].array()->data, (x - 4) / deviation, 1e-6));
  EXPECT_TRUE(near(outputs[1].array()->data, floats({7}, {1}), 1e-6));  // 0.75 8 + 0.25 4
  EXPECT_TRUE(near(outputs[2].array()->data, floats({2}, {1}), 1e-6));  // 0.75 1 + 0.25 5
}

TEST(LayerNormalization, HalfTakesItsStatisticsInFloat) {
  const at::Tensor x =
      at::tensor({300.0F, -300.0F, 300.0F, -300.0F}).to(at::kHalf);  // squares overflow float16
  EXPECT_TRUE(near(run_tensor("LayerNormalization", {x, at::ones({4}, at::kHalf)}),
                   at::tensor({1.0F, -1.0F, 1.0F, -1.0F}).to(at::kHalf)));
}

TEST(GroupNormalization, BeforeOpset21ScalesByGroup) {
  const at::Tensor x = floats({1, 3, 1, 3}, {1, 4, 1});
  const std::vector<Value> inputs{value(x), value(floats({1, 10}, {2})), value(floats({0, 5}, {2}))};
  const Attributes attributes{{"num_groups", std::int64_t{2}}, {"epsilon", 0.0F}};
  EXPECT_TRUE(near(run("GroupNormalization", inputs, attributes, 1, 18)[0].array()->data,
                   floats({-1, 1, -5, 15}, {1, 4, 1}), 1e-6));
}

TEST(Lrn, SumsOverNeighbouringChannels) {
  const at::Tensor x = floats({1, 2, 3}, {1, 3, 1});
  const Attributes attributes{{"size", std::int64_t{2}}, {"alpha", 2.0F}, {"beta", 1.0F}, {"bias", 1.0F}};
  // The window of two begins at the channel itself: sums 5, 13, 9.
  EXPECT_TRUE(
      near(run_tensor("LRN", {x}, attributes), floats({1.0F / 6, 2.0F / 14, 3.0F / 10}, {1, 3, 1}), 1e-6));
}

TEST(LpNormalization, LeavesAZeroVectorZero) {
  EXPECT_TRUE(near(run_tensor("LpNormalization", {floats({3, 4, 0, 0}, {2, 2})}),
                   floats({0.6F, 0.8F, 0, 0}, {2, 2}), 1e-6));
}

TEST(Softmax, BeforeOpset13GoesOverAllAxesFromTheGivenOne) {
  const Value x = value(at::zeros({2, 2, 3}));
  EXPECT_TRUE(near(run("Softmax", {x}, {}, 1, 11)[0].array()->data, at::full({2, 2, 3}, 1.0F / 6), 1e-6));
  EXPECT_TRUE(near(run("Softmax", {x}, {}, 1, 13)[0].array()->data, at::full({2, 2, 3}, 1.0F / 3), 1e-6));
}

TEST(Hardmax, PicksTheFirstOfEquals) {
  EXPECT_TRUE(near(run_tensor("Hardmax", {floats({1, 3, 3}, {1, 3})}), floats({0, 1, 0}, {1, 3})));
}

TEST(NegativeLogLikelihoodLoss, WeightsAndIgnoresClasses) {
  const at::Tensor x = floats({-1, -2, -kInf, -4}, {2, 2});
  const at::Tensor weight = floats({1, 3}, {2});
  const Attributes attributes{{"ignore_index", std::int64_t{-5}}};
  // Sample 0 has class 1: 3 * 2 over a weight of 3; sample 1 is ignored, whatever its log probabilities.
  EXPECT_TRUE(near(run_tensor("NegativeLogLikelihoodLoss", {x, integers({1, -5}), weight}, attributes),
                   at::full({}, 2.0F)));
  EXPECT_THROW((void)run_tensor("NegativeLogLikelihoodLoss", {x, integers({1, 2}), weight}), Error);
}

TEST(Activations, AtTheirLimits) {
  const at::Tensor x = floats({-kInf, -100, 0, 100, kInf}, {5});
  EXPECT_TRUE(near(run_tensor("Softplus", {x}), floats({0, 0, std::log(2.0F), 100, kInf}, {5}), 1e-6));
  EXPECT_TRUE(near(run_tensor("HardSigmoid", {x}), floats({0, 0, 0.5F, 1, 1}, {5}), 1e-6));
  EXPECT_TRUE(near(run_tensor("ThresholdedRelu", {floats({1, 1.5F}, {2})}), floats({0, 1.5F}, {2})));
  EXPECT_TRUE(near(run_tensor("Elu", {floats({-kInf, 0, kInf}, {3})}, {{"alpha", 2.0F}}),
                   floats({-2, 0, kInf}, {3})));
  EXPECT_TRUE(near(run_tensor("Celu", {floats({-4, 4}, {2})}, {{"alpha", 2.0F}}),
                   floats({2 * std::expm1(-2.0F), 4}, {2}), 1e-6));
}

TEST(Shrink, WorksOnIntegers) {
  const at::Tensor x = at::tensor({-3, -1, 0, 1, 3}, at::kChar);
  EXPECT_TRUE(near(run_tensor("Shrink", {x}, {{"lambd", 1.5F}, {"bias", 1.5F}}),
                   at::tensor({-1, 0, 0, 0, 1}, at::kChar)));
}

TEST(Det, OfAStack) {
  EXPECT_TRUE(
      near(run_tensor("Det", {floats({1, 2, 3, 4, 2, 0, 0, 3}, {2, 2, 2})}), floats({-2, 6}, {2}), 1e-6));
}

}  // namespace
}  // namespace tempera::engine::aten::testing
