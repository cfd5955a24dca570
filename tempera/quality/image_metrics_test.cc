#include "tempera/quality/image_metrics.h"

#include <algorithm>
#include <limits>

#include <gtest/gtest.h>

#include "tempera/base/error.h"

namespace tempera::quality {
namespace {

using image::Image;

/// 48 x 48 x 3: A = (7 i + 13 j + 29 c + (i j) mod 31) mod 256; B = clip(A + ((5 i + 3 j + c) mod 17) - 8, 0,
/// 255).
std::pair<Image, Image> pictures() {
  Image a(48, 48, 3);
  Image b(48, 48, 3);
  for (int i = 0; i < 48; ++i) {
    for (int j = 0; j < 48; ++j) {
      for (int c = 0; c < 3; ++c) {
        const int value = (7 * i + 13 * j + 29 * c + (i * j) % 31) % 256;
        a.at(j, i, c) = static_cast<float>(value);
        b.at(j, i, c) = static_cast<float>(std::clamp(value + (5 * i + 3 * j + c) % 17 - 8, 0, 255));
      }
    }
  }
  return {a, b};
}

// Golden numbers computed in float64 from the definitions, and equal to scikit-image (gaussian_weights,
// sigma 1.5, use_sample_covariance=False) for SSIM. The luma of the tests below is float32, hence 1e-6.
TEST(ImageMetricsTest, GoldenNumbers) {
  const auto [a, b] = pictures();
  EXPECT_NEAR(psnr(a, b), 34.4007039369369, 1e-12);
  EXPECT_NEAR(psnr(a, b, 4), 34.4066703995275, 1e-12);
  EXPECT_NEAR(psnr_y(a, b), 36.7334990799620, 1e-5);
  EXPECT_NEAR(ssim(a, b), 0.9873963716478, 1e-12);
  EXPECT_NEAR(ssim_y(a, b), 0.9879483638413, 1e-6);
}

TEST(ImageMetricsTest, EqualImagesArePerfect) {
  const Image a = pictures().first;
  EXPECT_EQ(psnr(a, a), std::numeric_limits<double>::infinity());
  EXPECT_EQ(psnr_y(a, a), std::numeric_limits<double>::infinity());
  EXPECT_NEAR(ssim(a, a), 1.0, 1e-12);
}

TEST(ImageMetricsTest, BlackAgainstWhiteIsZeroDecibel) {
  EXPECT_EQ(psnr(Image(12, 12, 1, 0), Image(12, 12, 1, 255)), 0.0);
}

TEST(ImageMetricsTest, LumaSpansTheStudioRange) {
  EXPECT_NEAR(luma(Image(1, 1, 3, 0)).values[0], 16.0, 1e-5);
  EXPECT_NEAR(luma(Image(1, 1, 3, 255)).values[0], 235.0, 1e-4);
  EXPECT_NEAR(luma(Image(1, 1, 1, 255)).values[0], 235.0, 1e-4);
}

TEST(ImageMetricsTest, SizesAndBordersAreChecked) {
  EXPECT_THROW((void)psnr(Image(4, 4, 3), Image(4, 5, 3)), Error);
  EXPECT_THROW((void)psnr(Image(4, 4, 3), Image(4, 4, 3), 2), Error);
  EXPECT_THROW((void)ssim(Image(10, 20, 3), Image(10, 20, 3)), Error);
  EXPECT_NO_THROW((void)ssim(Image(11, 11, 3), Image(11, 11, 3)));
}

}  // namespace
}  // namespace tempera::quality
