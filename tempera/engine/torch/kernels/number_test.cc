// Quantisation, signal processing, random numbers.
#include <cmath>
#include <numbers>

#include "tempera/engine/torch/kernels/kernel_testing.h"

namespace tempera::engine::aten::testing {
namespace {

std::int64_t number(DataType type) { return static_cast<std::int64_t>(type); }

TEST(QuantizeLinear, RoundsHalfToEvenBeforeTheZeroPoint) {
  const at::Tensor x = floats({0.5F, 1.5F, 2.5F, -300, 300, std::nanf("")}, {6});
  const Value y =
      run("QuantizeLinear", {value(x), value(at::ones({})), value(at::full({}, 1, at::kByte))}).front();
  EXPECT_TRUE(near(y.array()->data, at::tensor({1, 3, 3, 0, 255, 0}, at::kByte)));
}

TEST(QuantizeLinear, EveryIntegerTypeSaturatesAtItsOwnLimits) {
  const struct {
    DataType type;
    std::int64_t low, high;
  } limits[] = {{DataType::kInt2, -2, 1},          {DataType::kUint2, 0, 3},     {DataType::kInt4, -8, 7},
                {DataType::kUint4, 0, 15},         {DataType::kInt8, -128, 127}, {DataType::kUint8, 0, 255},
                {DataType::kInt16, -32768, 32767}, {DataType::kUint16, 0, 65535}};
  for (const auto& limit : limits) {
    const Value y = run("QuantizeLinear", {value(floats({-1e6F, 1e6F}, {2})), value(at::ones({}))},
                        {{"output_dtype", number(limit.type)}})
                        .front();
    EXPECT_EQ(y.array()->type, limit.type);
    EXPECT_TRUE(near(y.array()->data.to(at::kLong), integers({limit.low, limit.high})));
  }
}

TEST(QuantizeLinear, BlocksOfTwoWithARest) {
  const at::Tensor x = floats({1, 2, 3, 4, 5, 6}, {2, 3});
  const at::Tensor scale = floats({1, 0.5F, 1, 2}, {2, 2});
  const Attributes attributes{{"axis", std::int64_t{1}}, {"block_size", std::int64_t{2}}};
  EXPECT_TRUE(near(run_tensor("QuantizeLinear", {x, scale}, attributes),
                   at::tensor({1, 2, 6, 4, 5, 3}, at::kByte).reshape({2, 3})));
  EXPECT_TRUE(near(run_tensor("DequantizeLinear",
                              {at::tensor({1, 2, 6, 4, 5, 3}, at::kByte).reshape({2, 3}), scale}, attributes),
                   x));
  EXPECT_THROW((void)run_tensor("QuantizeLinear", {x, scale},
                                {{"axis", std::int64_t{0}}, {"block_size", std::int64_t{2}}}),
               Error);
}

TEST(QuantizeLinear, SmallFloatsSaturateOrOverflow) {
  const std::vector<Value> inputs{value(floats({1000, 17, -0.3F}, {3})), value(at::ones({}))};
  const auto codes = [&](std::int64_t saturate) {
    return run("QuantizeLinear", inputs,
               {{"output_dtype", number(DataType::kFloat8E4M3FN)}, {"saturate", saturate}})
        .front()
        .array()
        ->data;
  };
  EXPECT_TRUE(near(
      codes(1), floats({448, 16, -0.3125F}, {3})));  // 17 lies halfway between 16 and 18: the even mantissa
  EXPECT_TRUE(near(codes(0), floats({std::nanf(""), 16, -0.3125F}, {3})));
}

TEST(QuantizeLinear, DividesInThePrecisionOfTheScale) {
  const Value scale = value(at::full({}, 1, at::kHalf));
  const at::Tensor x = floats({10003}, {1});  // float16 has steps of 8 there
  const Value coarse =
      run("QuantizeLinear", {value(x), scale}, {{"output_dtype", number(DataType::kInt16)}}).front();
  EXPECT_EQ(coarse.array()->data.item().toLong(), 10000);
  const Attributes in_float{{"output_dtype", number(DataType::kInt16)},
                            {"precision", number(DataType::kFloat32)}};
  const Value fine = run("QuantizeLinear", {value(x), scale}, in_float).front();
  EXPECT_EQ(fine.array()->data.item().toLong(), 10003);
}

TEST(DequantizeLinear, ByAxisWithZeroPoints) {
  const Value x = value(at::tensor({-8, 7, 0, 1}, at::kChar).reshape({2, 2}), DataType::kInt4);
  const Value zero_point = value(at::tensor({-8, 1}, at::kChar), DataType::kInt4);
  const Value y =
      run("DequantizeLinear", {x, value(floats({0.5F, 2}, {2})), zero_point}, {{"axis", std::int64_t{0}}})
          .front();
  EXPECT_TRUE(near(y.array()->data, floats({0, 7.5F, -2, 0}, {2, 2})));
}

TEST(DynamicQuantizeLinear, ZeroIsExact) {
  const auto outputs = run("DynamicQuantizeLinear", {value(floats({-1, 0, 1.55F}, {3}))}, {}, 3);
  EXPECT_TRUE(near(outputs[0].array()->data, at::tensor({0, 100, 255}, at::kByte)));
  EXPECT_TRUE(near(outputs[1].array()->data, at::full({}, 0.01F), 1e-7));
  EXPECT_TRUE(near(run("DynamicQuantizeLinear", {value(at::zeros({2}))}, {}, 3)[0].array()->data,
                   at::zeros({2}, at::kByte)));
}

TEST(Dft, OneSidedAndBack) {
  const at::Tensor x = floats({1, 0, 0, 0, 2}, {1, 5, 1});
  const at::Tensor axis = at::full({}, 1, at::kLong);
  const at::Tensor spectrum = run_tensor("DFT", {x, {}, axis}, {{"onesided", std::int64_t{1}}});
  ASSERT_EQ(spectrum.sizes(), (Ints{1, 3, 2}));
  EXPECT_NEAR(spectrum[0][1][0].item().toDouble(), 1 + 2 * std::cos(2 * std::numbers::pi / 5), 1e-6);
  EXPECT_NEAR(spectrum[0][1][1].item().toDouble(), 2 * std::sin(2 * std::numbers::pi / 5), 1e-6);
  const Attributes backward{{"onesided", std::int64_t{1}}, {"inverse", std::int64_t{1}}};
  EXPECT_TRUE(near(run_tensor("DFT", {spectrum, at::full({}, 5, at::kLong), axis}, backward), x, 1e-6));
}

TEST(Stft, AToneFallsIntoItsBin) {
  const at::Tensor x = (counting({1, 16}) * (std::numbers::pi / 2)).cos().unsqueeze(-1);
  const at::Tensor y = run_tensor("STFT", {x, at::full({}, 4, at::kLong), at::ones({8})});
  ASSERT_EQ(y.sizes(), (Ints{1, 3, 5, 2}));
  EXPECT_TRUE(near(y.square().sum(-1), floats({0, 0, 16, 0, 0}, {1, 1, 5}).expand({1, 3, 5}), 1e-5));
}

TEST(Windows, PeriodicOrSymmetric) {
  const at::Tensor size = at::full({}, 4, at::kLong);
  const Attributes symmetric{{"periodic", std::int64_t{0}}};
  EXPECT_TRUE(near(run_tensor("HannWindow", {size}), floats({0, 0.5F, 1, 0.5F}, {4}), 1e-6));
  EXPECT_TRUE(near(run_tensor("HannWindow", {size}, symmetric), floats({0, 0.75F, 0.75F, 0}, {4}), 1e-6));
  EXPECT_TRUE(near(run_tensor("HannWindow", {at::full({}, 1, at::kLong)}, symmetric), at::ones({1})));
}

TEST(Random, ASeedDecidesAndMomentsAreThoseAskedFor) {
  Attributes attributes{{"shape", Ints{100000}}, {"mean", 3.0F}, {"scale", 2.0F}, {"seed", 5.0F}};
  const at::Tensor x = run_tensor("RandomNormal", {}, attributes);
  EXPECT_TRUE(near(run_tensor("RandomNormal", {}, attributes), x));
  EXPECT_NEAR(x.mean().item().toDouble(), 3.0, 5 * 2 / std::sqrt(1e5));
  EXPECT_NEAR(x.std().item().toDouble(), 2.0, 5 * 2 / std::sqrt(2e5));
  attributes["seed"] = 6.0F;
  EXPECT_FALSE(at::equal(run_tensor("RandomNormal", {}, attributes), x));
}

TEST(Random, UniformBernoulliAndMultinomialFollowTheirDistribution) {
  const at::Tensor uniform =
      run_tensor("RandomUniform", {}, {{"shape", Ints{100000}}, {"low", -1.0F}, {"high", 3.0F}});
  EXPECT_GE(uniform.min().item().toDouble(), -1.0);
  EXPECT_LT(uniform.max().item().toDouble(), 3.0);
  EXPECT_NEAR(uniform.mean().item().toDouble(), 1.0, 5 * 4 / std::sqrt(12e5));
  const at::Tensor coin = run_tensor("Bernoulli", {at::full({100000}, 0.3F)});
  EXPECT_NEAR(coin.mean().item().toDouble(), 0.3, 5 * std::sqrt(0.21 / 1e5));
  const at::Tensor drawn =
      run_tensor("Multinomial", {at::log(floats({1, 3}, {1, 2}))}, {{"sample_size", std::int64_t{100000}}});
  EXPECT_EQ(drawn.scalar_type(), at::kInt);
  EXPECT_NEAR(drawn.to(at::kDouble).mean().item().toDouble(), 0.75, 5 * std::sqrt(0.1875 / 1e5));
}

TEST(Dropout, KeepsItsShareAndScalesWhatItKeeps) {
  const std::vector<Value> inputs{value(at::ones({100000})), value(at::full({}, 0.2F)),
                                  value(at::ones({}, at::kBool))};
  const auto outputs = run("Dropout", inputs, {{"seed", std::int64_t{3}}}, 2);
  const at::Tensor y = outputs[0].array()->data;
  EXPECT_TRUE(near(y, outputs[1].array()->data * 1.25F, 1e-6));
  EXPECT_NEAR(y.mean().item().toDouble(), 1.0, 5 * 1.25 * std::sqrt(0.16 / 1e5));
  const auto inference = run("Dropout", {inputs[0]}, {}, 2);
  EXPECT_TRUE(near(inference[0].array()->data, at::ones({100000})));
  EXPECT_TRUE(inference[1].array()->data.all().item().toBool());
}

}  // namespace
}  // namespace tempera::engine::aten::testing
