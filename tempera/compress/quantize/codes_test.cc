#include "tempera/compress/quantize/codes.h"

#include <cmath>
#include <cstring>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tempera/base/error.h"

namespace tempera::compress {
namespace {

using graph::DataType;
using graph::Tensor;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;

std::vector<int> codes_of(const WeightCodes& codes) {
  const auto values = codes.codes.values<std::int8_t>();
  return {values.begin(), values.end()};
}

TEST(QuantizeWeights, PerChannelScalesReachTheLargestWeightOfEach) {
  const Tensor weights = Tensor::from<float>({2, 3}, {1.27F, -0.635F, 0.0F, -254.0F, 1.0F, 3.0F});
  const WeightCodes codes = quantize_weights(weights, {.channel_axis = 0});
  EXPECT_THAT(codes.scale_values, ElementsAre(0.01F, 2.0F));
  // 0.635 / 0.01f lies just below 63.5 in float32; 1 / 2 and 3 / 2 are ties, which go to even codes.
  EXPECT_THAT(codes_of(codes), ElementsAre(127, ::testing::AnyOf(-63, -64), 0, -127, 0, 2));
  EXPECT_EQ(codes.scales.dims(), graph::Dims{2});
}

TEST(QuantizeWeights, ChannelAxisInTheMiddle) {
  const Tensor weights =
      Tensor::from<float>({2, 2, 2}, {127.0F, 1.0F, 254.0F, 2.0F, 3.0F, 5.0F, 8.0F, 10.0F});
  const WeightCodes codes = quantize_weights(weights, {.channel_axis = 1});
  EXPECT_THAT(codes.scale_values, ElementsAre(1.0F, 2.0F));
  EXPECT_THAT(codes_of(codes), ElementsAre(127, 1, 127, 1, 3, 5, 4, 5));
  EXPECT_EQ(codes.relative_l2, 0.0);
}

TEST(QuantizeWeights, OneScaleForAll) {
  const Tensor weights = Tensor::from<float>({2, 2}, {127.0F, 1.0F, -2.0F, 0.25F});
  const WeightCodes codes = quantize_weights(weights, {});
  EXPECT_EQ(codes.scales.rank(), 0);
  EXPECT_THAT(codes_of(codes), ElementsAre(127, 1, -2, 0));
  EXPECT_NEAR(codes.relative_l2, 0.25 / std::sqrt(127.0 * 127 + 1 + 4 + 0.0625), 1e-9);
}

TEST(QuantizeWeights, ZeroChannelKeepsScaleOneOrTheLeastAsked) {
  const Tensor weights = Tensor::from<float>({3, 1}, {0.0F, 0.0F, 127.0F});
  EXPECT_THAT(quantize_weights(weights, {.channel_axis = 0}).scale_values, ElementsAre(1.0F, 1.0F, 1.0F));
  const std::vector<float> least = {0.5F, 0.0F, 2.0F};
  const WeightCodes codes = quantize_weights(weights, {.channel_axis = 0}, least);
  EXPECT_THAT(codes.scale_values, ElementsAre(0.5F, 1.0F, 2.0F));
  EXPECT_THAT(codes_of(codes), ElementsAre(0, 0, 64)) << "63.5 is a tie and goes to the even code";
}

TEST(QuantizeWeights, SubnormalWeightsHaveANormalScale) {
  const Tensor weights = Tensor::from<float>({1, 1}, {std::numeric_limits<float>::denorm_min()});
  const WeightCodes codes = quantize_weights(weights, {.channel_axis = 0});
  EXPECT_EQ(codes.scale_values[0], std::numeric_limits<float>::min());
  EXPECT_THAT(codes_of(codes), ElementsAre(0));
}

TEST(QuantizeWeights, SevenBitsStayWithin63) {
  const Tensor weights = Tensor::from<float>({1, 3}, {6.3F, -6.3F, 0.1F});
  const WeightCodes codes = quantize_weights(weights, {.channel_axis = 0, .seven_bit = true});
  EXPECT_THAT(codes_of(codes), ElementsAre(63, -63, 1));
}

TEST(QuantizeWeights, Float8ReachesItsLargestNumber) {
  const Tensor weights = Tensor::from<float>({1, 3}, {896.0F, -2.0F, 0.0F});
  const WeightCodes codes = quantize_weights(weights, {.type = DataType::kFloat8E4M3FN, .channel_axis = 0});
  EXPECT_EQ(codes.scale_values[0], 2.0F);
  const auto bytes = codes.codes.bytes();
  // S.1111.110 = 448, S.0111.000 = 1 (OCP 8-bit Floating Point Specification 1.0, table 2).
  EXPECT_THAT(std::vector<std::byte>(bytes.begin(), bytes.end()),
              ElementsAre(std::byte{0x7E}, std::byte{0xB8}, std::byte{0x00}));
}

TEST(QuantizeWeights, HalfPrecisionScalesAreThoseAReaderSees) {
  Tensor::Writable made = Tensor::allocate(DataType::kFloat16, {1, 2});
  const std::vector<std::uint16_t> bits = {0x3C00, 0x0001};  // 1 and the least subnormal, 2^-24
  std::memcpy(made.bytes.data(), bits.data(), 4);
  const WeightCodes codes = quantize_weights(made.tensor, {.channel_axis = 0});
  EXPECT_EQ(codes.scales.type(), DataType::kFloat16);
  EXPECT_NEAR(codes.scale_values[0], 1.0 / 127, 0x1p-11 / 127) << "1/127 rounded to 11 bits";
  EXPECT_THAT(codes_of(codes), ElementsAre(127, 0));
}

TEST(QuantizeWeights, RefusesWhatIsNotFinite) {
  const Tensor weights = Tensor::from<float>({2}, {1.0F, std::numeric_limits<float>::quiet_NaN()});
  try {
    (void)quantize_weights(weights, {});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "weight element 1 is nan, which cannot be quantised");
  }
}

}  // namespace
}  // namespace tempera::compress
