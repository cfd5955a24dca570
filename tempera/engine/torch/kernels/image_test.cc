// Resize, sampling, regions.
#include <cmath>

#include "tempera/engine/torch/kernels/kernel_testing.h"

namespace tempera::engine::aten::testing {
namespace {

at::Tensor resized(const at::Tensor& x, const std::vector<float>& scales, Attributes attributes) {
  return run_tensor("Resize", {x, {}, at::tensor(scales)}, std::move(attributes));
}

TEST(Resize, LinearUnderEachCoordinateTransformation) {
  const at::Tensor x = floats({0, 4}, {1, 2});
  const auto linear = [&](const char* mode) {
    return resized(x, {1, 2},
                   {{"mode", std::string("linear")}, {"coordinate_transformation_mode", std::string(mode)}});
  };
  EXPECT_TRUE(near(linear("half_pixel"), floats({0, 1, 3, 4}, {1, 4})));
  EXPECT_TRUE(near(linear("asymmetric"), floats({0, 2, 4, 4}, {1, 4})));
  EXPECT_TRUE(near(linear("align_corners"), floats({0, 4.0F / 3, 8.0F / 3, 4}, {1, 4}), 1e-6));
}

TEST(Resize, NearestRoundsAsAsked) {
  const at::Tensor x = floats({1, 2}, {2});
  const auto nearest =
      [&](const char* mode) {  // half_pixel: -0.25, 0.25, 0.75, 1.25; asymmetric below: 0, 0.5, 1, 1.5
        return resized(x, {2},
                       {{"nearest_mode", std::string(mode)},
                        {"coordinate_transformation_mode", std::string("asymmetric")}});
      };
  EXPECT_TRUE(near(nearest("round_prefer_floor"), floats({1, 1, 2, 2}, {4})));
  EXPECT_TRUE(near(nearest("round_prefer_ceil"), floats({1, 2, 2, 2}, {4})));
  EXPECT_TRUE(near(nearest("floor"), floats({1, 1, 2, 2}, {4})));
  EXPECT_TRUE(near(nearest("ceil"), floats({1, 2, 2, 2}, {4})));
}

TEST(Resize, AntialiasAveragesWhatItDrops) {
  const at::Tensor x = floats({0, 0, 8, 0, 0, 0}, {6});
  const Attributes attributes{{"mode", std::string("linear")}, {"antialias", std::int64_t{1}}};
  // Factor 1/3: triangles of radius 3 about 1 and 4; element 2 lies 1 from the first and 2 from the second.
  // Weights 3 2 1 of 9 (two beyond the edge share element 0) and 1 2 3 2 1 of 9.
  EXPECT_TRUE(near(resized(x, {1.0F / 3}, attributes), floats({8 * 2.0F / 9, 8 * 1.0F / 9}, {2}), 1e-5));
}

TEST(Resize, SizesKeepTheAspectRatio) {
  const at::Tensor x = at::zeros({1, 1, 4, 6});
  const at::Tensor sizes = integers({8, 9});
  const auto shape = [&](const char* policy) {
    return run_tensor("Resize", {x, {}, {}, sizes},
                      {{"axes", Ints{2, 3}}, {"keep_aspect_ratio_policy", std::string(policy)}})
        .sizes()
        .vec();
  };
  EXPECT_EQ(shape("stretch"), (Ints{1, 1, 8, 9}));
  EXPECT_EQ(shape("not_larger"), (Ints{1, 1, 6, 9}));
  EXPECT_EQ(shape("not_smaller"), (Ints{1, 1, 8, 12}));
}

TEST(Resize, CropExtrapolatesOutsideTheImage) {
  const at::Tensor x = floats({1, 2, 3}, {3});
  const Attributes attributes{{"mode", std::string("linear")},
                              {"coordinate_transformation_mode", std::string("tf_crop_and_resize")},
                              {"extrapolation_value", -1.0F}};
  EXPECT_TRUE(near(run_tensor("Resize", {x, floats({0.5F, 1.5F}, {2}), {}, integers({3})}, attributes),
                   floats({2, 3, -1}, {3})));
}

TEST(Resize, IntegersRoundAndKeepTheirType) {
  const at::Tensor x = at::tensor({0, 255}, at::kByte);
  EXPECT_TRUE(
      near(resized(x, {2}, {{"mode", std::string("cubic")}}), at::tensor({0, 58, 197, 255}, at::kByte), 0));
}

TEST(CenterCropPad, TheOddElementFallsOnTheEnd) {
  EXPECT_TRUE(near(run_tensor("CenterCropPad", {counting({4}), integers({3})}), floats({0, 1, 2}, {3})));
  EXPECT_TRUE(
      near(run_tensor("CenterCropPad", {counting({2}) + 1, integers({5})}), floats({0, 1, 2, 0, 0}, {5})));
}

at::Tensor sampled(std::initializer_list<float> grid, const char* padding, const char* mode = "linear",
                   bool align = true) {
  const at::Tensor x = floats({1, 2, 3}, {1, 1, 3});
  const auto points = static_cast<std::int64_t>(grid.size());
  return run_tensor("GridSample", {x, floats(grid, {1, points, 1})},
                    {{"padding_mode", std::string(padding)},
                     {"mode", std::string(mode)},
                     {"align_corners", std::int64_t{align}}})
      .flatten();
}

TEST(GridSample, OneAxisOutsideTheImage) {
  // Corners aligned: -1 is pixel 0, 1 is pixel 2; 1.5 is 2.5 and 2 is 3.
  EXPECT_TRUE(near(sampled({0, 0.5F, 1.5F, 2}, "zeros"), floats({2, 2.5F, 1.5F, 0}, {4})));
  EXPECT_TRUE(near(sampled({1.5F, -9}, "border"), floats({3, 1}, {2})));
  EXPECT_TRUE(near(sampled({1.5F, 2, 3}, "reflection"), floats({2.5F, 2, 1}, {3})));
  // Edges aligned: 1 is 2.5, mirrored about itself.
  EXPECT_TRUE(near(sampled({1}, "reflection", "nearest", false), floats({3}, {1})));
  EXPECT_TRUE(near(sampled({0}, "border", "cubic"), floats({2}, {1})));
}

TEST(GridSample, AgreesWithAtenOnImages) {
  const at::Tensor x = counting({2, 3, 4, 5}).sin();
  const at::Tensor grid = counting({2, 3, 3, 2}).mul(0.9).cos() * 1.4;
  EXPECT_TRUE(near(run_tensor("GridSample", {x, grid}, {{"padding_mode", std::string("reflection")}}),
                   at::grid_sampler(x, grid, 0, 2, false), 1e-5));
}

TEST(RoiAlign, AWholePixelIsItself) {
  const at::Tensor x = counting({1, 1, 3, 3});
  const at::Tensor roi = floats({1, 1, 2, 2}, {1, 4});  // half_pixel: its centre is pixel (1, 1)
  const Attributes attributes{{"output_height", std::int64_t{1}},
                              {"output_width", std::int64_t{1}},
                              {"sampling_ratio", std::int64_t{1}}};
  EXPECT_TRUE(
      near(run_tensor("RoiAlign", {x, roi, integers({0})}, attributes), at::full({1, 1, 1, 1}, 4.0F)));
}

TEST(MaxRoiPool, BinsOverlapAndCornersAreInside) {
  const at::Tensor x = counting({1, 1, 4, 4});
  const at::Tensor rois = floats({0, 0, 0, 2, 2}, {1, 5});  // three pixels in two bins: 0-1 and 1-2
  EXPECT_TRUE(near(run_tensor("MaxRoiPool", {x, rois}, {{"pooled_shape", Ints{2, 2}}}),
                   floats({5, 6, 9, 10}, {1, 1, 2, 2})));
}

TEST(NonMaxSuppression, FlippedCornersAndThresholds) {
  const at::Tensor boxes = floats({0, 0, 1, 1, 1, 1, 0, 0.1F, 0, 2, 1, 3}, {1, 3, 4});
  const at::Tensor scores = floats({0.5F, 0.9F, 0.3F}, {1, 1, 3});
  const at::Tensor most = integers({5});
  const at::Tensor overlap = floats({0.5F}, {1});
  EXPECT_TRUE(near(run_tensor("NonMaxSuppression", {boxes, scores, most, overlap}),
                   integers({0, 0, 1, 0, 0, 2}).reshape({2, 3})));
  EXPECT_TRUE(near(run_tensor("NonMaxSuppression", {boxes, scores, most, overlap, floats({0.3F}, {1})}),
                   integers({0, 0, 1}).reshape({1, 3})));
  EXPECT_EQ(run_tensor("NonMaxSuppression", {boxes, scores}).sizes(), (Ints{0, 3}));
}

}  // namespace
}  // namespace tempera::engine::aten::testing
