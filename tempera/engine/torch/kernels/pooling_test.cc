#include <cmath>
#include <limits>

#include "tempera/engine/torch/kernels/kernel_testing.h"

namespace tempera::engine::aten::testing {
namespace {

TEST(MaxPool, IntegersAndDilation) {
  const at::Tensor x = at::tensor({3, 1, 4, 1, 5, 9}, at::kByte).reshape({1, 1, 6});
  EXPECT_TRUE(near(run_tensor("MaxPool", {x}, {{"kernel_shape", Ints{2}}, {"dilations", Ints{3}}}),
                   at::tensor({3, 5, 9}, at::kByte).reshape({1, 1, 3})));
  const at::Tensor negative = at::full({1, 1, 2}, -7, at::kChar);
  EXPECT_TRUE(near(run_tensor("MaxPool", {negative}, {{"kernel_shape", Ints{3}}, {"pads", Ints{1, 1}}}),
                   at::full({1, 1, 2}, -7, at::kChar)));
}

TEST(MaxPool, CeilModeDropsAWindowThatBeginsInThePadding) {
  const at::Tensor x = counting({1, 1, 5});
  const Attributes attributes{
      {"kernel_shape", Ints{2}}, {"strides", Ints{2}}, {"ceil_mode", std::int64_t{1}}};
  EXPECT_TRUE(near(run_tensor("MaxPool", {x}, attributes), floats({1, 3, 4}, {1, 1, 3})));
  Attributes padded = attributes;
  padded["strides"] = Ints{3};
  padded["pads"] = Ints{1, 1};  // (5 + 2 - 2) / 3 + 1 = 2.67 -> 3, but window 3 would begin at 6 = 5 + 1
  EXPECT_TRUE(near(run_tensor("MaxPool", {x}, padded), floats({0, 3}, {1, 1, 2})));
}

TEST(MaxPool, IndicesNameTheFirstOfEqualsAndCountOverTheWholeTensor) {
  const at::Tensor x = floats({1, 7, 7, 0, 7, 2}, {1, 1, 2, 3}).expand({2, 1, 2, 3}).contiguous();
  const Attributes attributes{{"kernel_shape", Ints{2, 2}}};
  EXPECT_TRUE(near(run("MaxPool", {value(x)}, attributes, 2)[1].array()->data,
                   integers({1, 1, 7, 7}).reshape({2, 1, 1, 2})));
  Attributes by_column = attributes;
  by_column["storage_order"] = std::int64_t{1};
  EXPECT_TRUE(near(run("MaxPool", {value(x)}, by_column, 2)[1].array()->data,
                   integers({2, 2, 8, 8}).reshape({2, 1, 1, 2})));
}

TEST(MaxPool, IndicesNeverNamePadding) {
  const at::Tensor x = at::full({1, 1, 2}, -std::numeric_limits<float>::infinity());
  EXPECT_TRUE(
      near(run("MaxPool", {value(x)}, {{"kernel_shape", Ints{2}}, {"pads", Ints{1, 0}}}, 2)[1].array()->data,
           integers({0, 0}).reshape({1, 1, 2})));
}

TEST(AveragePool, CountsPaddingOnlyWhenAsked) {
  const at::Tensor x = floats({2, 4, 6}, {1, 1, 3});
  Attributes attributes{{"kernel_shape", Ints{2}}, {"pads", Ints{1, 0}}};
  EXPECT_TRUE(near(run_tensor("AveragePool", {x}, attributes), floats({2, 3, 5}, {1, 1, 3})));
  attributes["count_include_pad"] = std::int64_t{1};
  EXPECT_TRUE(near(run_tensor("AveragePool", {x}, attributes), floats({1, 3, 5}, {1, 1, 3})));
  attributes["ceil_mode"] = std::int64_t{1};
  attributes["strides"] =
      Ints{3};  // windows at -1 and 2; the second reaches one element beyond, which never counts
  EXPECT_TRUE(near(run_tensor("AveragePool", {x}, attributes), floats({1, 6}, {1, 1, 2})));
}

TEST(LpPool, IsTheNormOfAWindow) {
  EXPECT_TRUE(near(run_tensor("LpPool", {floats({3, -4, 0}, {1, 1, 3})}, {{"kernel_shape", Ints{2}}}),
                   floats({5, 4}, {1, 1, 2}), 1e-6));
  EXPECT_TRUE(near(run_tensor("GlobalLpPool", {floats({1, -2, 4}, {1, 1, 3})}, {{"p", std::int64_t{1}}}),
                   floats({7}, {1, 1, 1}), 1e-6));
}

TEST(MaxUnpool, UndoesMaxPool) {
  const at::Tensor x = counting({1, 2, 4, 4});
  const Attributes attributes{{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}};
  const auto pooled = run("MaxPool", {value(x)}, attributes, 2);
  const at::Tensor back = run("MaxUnpool", pooled, attributes)[0].array()->data;
  EXPECT_TRUE(near(back, x * x.remainder(2).eq(1) * (x / 4).floor().remainder(2).eq(1)));
}

}  // namespace
}  // namespace tempera::engine::aten::testing
