#include "tempera/base/error.h"
#include "tempera/engine/torch/kernels/kernel_testing.h"

namespace tempera::engine::aten::testing {
namespace {

/// The definition, by loops: one image, groups, strides, dilations, pads of its own at each end.
at::Tensor convolution_by_loops(const at::Tensor& x, const at::Tensor& weight, std::int64_t group,
                                const Ints& strides, const Ints& dilations, const Ints& pads) {
  const std::int64_t channels = weight.size(1);
  const std::int64_t filters = weight.size(0);
  const auto length = [&](std::int64_t axis) {
    const auto i = static_cast<std::size_t>(axis);
    return (x.size(axis + 2) + pads[i] + pads[i + 2] - (weight.size(axis + 2) - 1) * dilations[i] - 1) /
               strides[i] +
           1;
  };
  at::Tensor y = at::zeros({1, filters, length(0), length(1)}, at::kDouble);
  for (std::int64_t f = 0; f < filters; ++f) {
    for (std::int64_t c = 0; c < channels; ++c) {
      const std::int64_t source = f / (filters / group) * channels + c;
      for (std::int64_t i = 0; i < y.size(2); ++i) {
        for (std::int64_t j = 0; j < y.size(3); ++j) {
          for (std::int64_t k = 0; k < weight.size(2); ++k) {
            for (std::int64_t l = 0; l < weight.size(3); ++l) {
              const std::int64_t row = i * strides[0] - pads[0] + k * dilations[0];
              const std::int64_t column = j * strides[1] - pads[1] + l * dilations[1];
              if (row >= 0 && row < x.size(2) && column >= 0 && column < x.size(3)) {
                y[0][f][i][j] += x[0][source][row][column] * weight[f][c][k][l];
              }
            }
          }
        }
      }
    }
  }
  return y;
}

TEST(Conv, GroupsStridesDilationsAndUnevenPads) {
  const at::Tensor x = counting({1, 4, 6, 7}, at::kDouble).remainder(11).sub(5);
  const at::Tensor weight = counting({6, 2, 2, 3}, at::kDouble).remainder(7).sub(3);
  const Attributes attributes{{"group", std::int64_t{2}},
                              {"strides", Ints{2, 1}},
                              {"dilations", Ints{1, 2}},
                              {"pads", Ints{1, 0, 2, 3}}};
  EXPECT_TRUE(near(run_tensor("Conv", {x, weight}, attributes),
                   convolution_by_loops(x, weight, 2, {2, 1}, {1, 2}, {1, 0, 2, 3}), 1e-12));
}

TEST(Conv, SamePaddingPutsTheOddElementWhereAsked) {
  const at::Tensor x = floats({1, 2, 3, 4}, {1, 1, 4});
  const at::Tensor weight = floats({1, 10}, {1, 1, 2});
  EXPECT_TRUE(near(run_tensor("Conv", {x, weight}, {{"auto_pad", std::string("SAME_UPPER")}}),
                   floats({21, 32, 43, 4}, {1, 1, 4})));
  EXPECT_TRUE(near(run_tensor("Conv", {x, weight}, {{"auto_pad", std::string("SAME_LOWER")}}),
                   floats({10, 21, 32, 43}, {1, 1, 4})));
}

TEST(Conv, FourSpatialAxesAreSumsOverTheFirst) {
  const at::Tensor x = counting({2, 2, 3, 2, 3, 2}, at::kDouble).remainder(5);
  const at::Tensor weight = counting({3, 2, 2, 1, 2, 1}, at::kDouble).remainder(3).sub(1);
  at::Tensor expected = at::zeros({2, 3, 2, 2, 2, 2}, at::kDouble);
  for (std::int64_t k = 0; k < 2; ++k) {
    for (std::int64_t i = 0; i < 2; ++i) {
      expected.select(2, i).add_(at::conv3d(x.select(2, i + k), weight.select(2, k)));
    }
  }
  EXPECT_TRUE(near(run_tensor("Conv", {x, weight}), expected, 1e-12));
}

TEST(Conv, HalfIsSummedInFloatAndRoundedOnce) {
  // 2048 + 1 + 1 + ... in float16 would stay at 2048.
  at::Tensor x = at::ones({1, 1, 9}, at::kHalf);
  x[0][0][0] = 2048;
  EXPECT_TRUE(
      near(run_tensor("Conv", {x, at::ones({1, 1, 9}, at::kHalf)}), at::full({1, 1, 1}, 2056, at::kHalf)));
}

TEST(Conv, SaysWhatDoesNotFit) {
  const at::Tensor x = at::zeros({1, 3, 4, 4});
  try {
    (void)run_tensor("Conv", {x, at::zeros({2, 2, 3, 3})});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kBadModel);
    EXPECT_STREQ(error.what(),
                 "the input has 3 channels and the weight [2, 2, ...], which do not fit 1 groups");
  }
  EXPECT_THROW((void)run_tensor("Conv", {x, at::zeros({2, 3, 5, 5})}), Error);
  EXPECT_THROW((void)run_tensor("Conv", {x, at::zeros({2, 3, 3, 3})}, {{"strides", Ints{0, 1}}}), Error);
  EXPECT_THROW((void)run_tensor("Conv", {x, at::zeros({2, 3, 3, 3})}, {{"auto_pad", std::string("SAME")}}),
               Error);
}

TEST(ConvTranspose, IsTheAdjointOfConv) {
  // <conv(x), y> = <x, conv_transpose(y)> for the same weight.
  const Attributes attributes{{"group", std::int64_t{2}},
                              {"strides", Ints{2, 3}},
                              {"dilations", Ints{2, 1}},
                              {"pads", Ints{1, 0, 0, 2}}};
  const at::Tensor x = counting({1, 4, 7, 9}, at::kDouble).remainder(13).sub(6);
  const at::Tensor weight = counting({4, 2, 2, 3}, at::kDouble).remainder(5).sub(2);
  const at::Tensor forward = run_tensor("Conv", {x, weight}, attributes);
  const at::Tensor y = counting(forward.sizes(), at::kDouble).remainder(3).sub(1);
  Attributes backward = attributes;
  backward["output_padding"] =
      Ints{x.size(2) + 1 - (forward.size(2) - 1) * 2 - 3, x.size(3) + 2 - (forward.size(3) - 1) * 3 - 3};
  const at::Tensor adjoint = run_tensor("ConvTranspose", {y, weight}, backward);
  ASSERT_EQ(adjoint.sizes(), x.sizes());
  EXPECT_DOUBLE_EQ((forward * y).sum().item().toDouble(), (x * adjoint).sum().item().toDouble());
}

TEST(ConvTranspose, BiasReachesBeyondTheProducts) {
  const at::Tensor x = floats({1, 2}, {1, 1, 2});
  const at::Tensor weight = floats({1, 1}, {1, 1, 2});
  const Attributes attributes{{"strides", Ints{3}}, {"output_padding", Ints{2}}};
  EXPECT_TRUE(near(run_tensor("ConvTranspose", {x, weight, floats({10}, {1})}, attributes),
                   floats({11, 11, 10, 12, 12, 10, 10}, {1, 1, 7})));
}

TEST(ConvTranspose, OutputShapeSetsThePadding) {
  const at::Tensor x = floats({1, 2, 3}, {1, 1, 3});
  const at::Tensor weight = floats({1, 1, 1}, {1, 1, 3});
  // All products: 1 3 6 5 3. Four are asked for: one is cut, at the begin unless SAME_UPPER.
  EXPECT_TRUE(near(run_tensor("ConvTranspose", {x, weight}, {{"output_shape", Ints{4}}}),
                   floats({3, 6, 5, 3}, {1, 1, 4})));
  EXPECT_TRUE(near(run_tensor("ConvTranspose", {x, weight},
                              {{"output_shape", Ints{4}}, {"auto_pad", std::string("SAME_UPPER")}}),
                   floats({1, 3, 6, 5}, {1, 1, 4})));
}

TEST(ConvInteger, PaddingIsTheZeroPoint) {
  const at::Tensor x = at::full({1, 1, 3}, 130, at::kByte);
  const at::Tensor weight = at::full({1, 1, 3}, -128, at::kChar);
  const at::Tensor zero = at::full({}, 128, at::kByte);
  EXPECT_TRUE(near(run_tensor("ConvInteger", {x, weight, zero}, {{"pads", Ints{1, 1}}}),
                   at::tensor({-512, -768, -512}, at::kInt).reshape({1, 1, 3})));
}

TEST(QLinearConv, ScalesByChannelAndSaturates) {
  const auto scalar = [](float v) { return at::full({}, v); };
  const at::Tensor x = at::full({1, 1, 1}, 100, at::kByte);
  const at::Tensor weight = at::tensor({1, 2, 127}, at::kChar).reshape({3, 1, 1});
  const at::Tensor zero = at::full({}, 0, at::kByte);
  const at::Tensor y = run_tensor(
      "QLinearConv", {x, scalar(0.5F), zero, weight, floats({1, 0.25F, 1}, {3}), at::zeros({3}, at::kChar),
                      scalar(2), at::full({}, 3, at::kByte), at::tensor({2, 2, 0}, at::kInt)});
  // (100 + 2) / 4 = 25.5 -> 28.5 -> 28 to even; (200 + 2) / 16 = 12.625 -> 16; beyond 255
  EXPECT_TRUE(near(y, at::tensor({28, 16, 255}, at::kByte).reshape({1, 3, 1})));
}

TEST(Col2Im, AddsWhatOverlaps) {
  const at::Tensor x = counting({1, 2, 3});  // blocks of two along an image of four
  EXPECT_TRUE(
      near(run_tensor("Col2Im", {x, integers({4}), integers({2})}), floats({0, 1 + 3, 2 + 4, 5}, {1, 1, 4})));
}

TEST(DeformConv, WithoutOffsetsIsConv) {
  const at::Tensor x = counting({1, 4, 5, 5}, at::kDouble).remainder(7);
  const at::Tensor weight = counting({2, 2, 3, 3}, at::kDouble).remainder(3);
  const Attributes attributes{{"group", std::int64_t{2}},
                              {"offset_group", std::int64_t{2}},
                              {"pads", Ints{1, 1, 1, 1}},
                              {"strides", Ints{2, 2}}};
  const at::Tensor offset = at::zeros({1, 36, 3, 3}, at::kDouble);
  Attributes plain = attributes;
  plain.erase("offset_group");
  EXPECT_TRUE(near(run_tensor("DeformConv", {x, weight, offset}, attributes),
                   run_tensor("Conv", {x, weight}, plain), 1e-12));
}

TEST(DeformConv, OffsetsReadBetweenPixelsAndMasksScale) {
  const at::Tensor x = floats({0, 1, 2, 3}, {1, 1, 2, 2});
  const at::Tensor offset = floats({0.5F, 0.25F}, {1, 2, 1, 1}).expand({1, 2, 2, 2}).contiguous();
  const at::Tensor mask = at::full({1, 1, 2, 2}, 2.0F);
  // Pixel (0, 0) is read at (0.5, 0.25): 0.5 * 2 + 0.25; from (1, 0) on the rest lies outside and counts as
  // 0.
  EXPECT_TRUE(near(run_tensor("DeformConv", {x, at::ones({1, 1, 1, 1}), offset, at::ones({1}), mask}),
                   floats({3.5F, 4.0F, 3.25F, 3.25F}, {1, 1, 2, 2}), 1e-6));
}

TEST(CausalConvWithState, TwoPiecesEqualTheWhole) {
  const at::Tensor x = counting({1, 2, 6}).sin();
  const at::Tensor weight = counting({2, 1, 3}).cos();
  const Attributes attributes{{"activation", std::string("silu")}};
  const auto all = run("CausalConvWithState", {value(x), value(weight)}, attributes, 2);
  const auto first = run("CausalConvWithState", {value(x.slice(2, 0, 2)), value(weight)}, attributes, 2);
  const auto second =
      run("CausalConvWithState", {value(x.slice(2, 2)), value(weight), Value(), first[1]}, attributes, 2);
  EXPECT_TRUE(
      near(at::cat({first[0].array()->data, second[0].array()->data}, 2), all[0].array()->data, 1e-6));
  EXPECT_TRUE(near(second[1].array()->data, x.slice(2, 4)));
}

}  // namespace
}  // namespace tempera::engine::aten::testing
