#include "tempera/image/resize.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tempera/base/hash.h"

namespace tempera::image {
namespace {

using testing::ElementsAre;

/// A(i, j, c) = (7 i + 13 j + 29 c + (i j) mod 31) mod 256, i the row; as in testdata/make_images.py.
Image pattern(int width, int height, int channels) {
  Image image(width, height, channels);
  for (int i = 0; i < height; ++i) {
    for (int j = 0; j < width; ++j) {
      for (int c = 0; c < channels; ++c) {
        image.at(j, i, c) = static_cast<float>((7 * i + 13 * j + 29 * c + (i * j) % 31) % 256);
      }
    }
  }
  return image;
}

struct Golden8 {
  const char* kernel;
  int width;
  int height;
  const char* sha256;
};

// SHA-256 of what Pillow 13.0 makes of the 61 x 47 pattern (testdata/make_images.py prints this table).
constexpr Golden8 kGolden8[] = {
    {"box", 20, 31, "6fc069b83aa206e6464556668d8ed50521011406edd4e6f8f4ffef3468ae1822"},
    {"box", 100, 90, "18530763a052d4b68fdab10b019bd7698982a7ac3ce08b3e485952e3ca8d0b74"},
    {"box", 61, 20, "11c15b2f565cd2797ae62cb5f36c543927aca7b0bcb0b995347237c004b8814b"},
    {"box", 1, 1, "5ee0482179b223828d4b6683777141d195b444b7a74332c8950809046b52ecdd"},
    {"bilinear", 20, 31, "1cd755cf19b55875839fda6ab19a5db54036de2437a5eabd6cf0ab6f78515a0a"},
    {"bilinear", 100, 90, "bf5547ffd8c7d2f29c78c327f91c5db164b1c8b8d5fda9a0921df13166374730"},
    {"bilinear", 61, 20, "fbd55ee1a99b60ad148c45f46ea20ebc1cccdc8f4cd82d5d0448ed325a17951c"},
    {"bilinear", 1, 1, "8ae40a3583aef6697d2c2eff57eb915ed0bda54aaa92812ad97982743ac06f37"},
    {"bicubic", 20, 31, "ab45d2f09635444674c0d51306de9c6b03f011531aa6a03b948eb0cb8e3446f0"},
    {"bicubic", 100, 90, "87b0193d2febeb6a8b38a9943c6736bbdc2caa3600c5c898b3a4faf8648ce606"},
    {"bicubic", 61, 20, "c0eabe84aeaf34dc990b4f0c8ad5f0ab3c2ec433e3020144257a59b2b155f690"},
    {"bicubic", 1, 1, "4ac5fe6b86e178f61c2c1a2cebfa78030693871895474d5309424d9ee4f1cf3f"},
    {"lanczos", 20, 31, "dadd15922553c785ee8b67c3274ca2f899f857afa332a89c0c26919349f3dfed"},
    {"lanczos", 100, 90, "234477066e26f9e0590d132a185ed8411905704f11da677130ea3c26216d6c97"},
    {"lanczos", 61, 20, "9ac9db8d0f4ac56b677971a0de788f629246e04d57375498525dd727c2171f46"},
    {"lanczos", 1, 1, "4ac5fe6b86e178f61c2c1a2cebfa78030693871895474d5309424d9ee4f1cf3f"},
    {"nearest", 20, 31, "a36483bb0c27a1b9ecf4e52ee54fedb4dab1b196ef20edc1b1ec2432f7704fb3"},
    {"nearest", 100, 90, "18530763a052d4b68fdab10b019bd7698982a7ac3ce08b3e485952e3ca8d0b74"},
    {"nearest", 61, 20, "b8edb9849f23352cdfbafd9c4257c8b4043610edfefcb7d6d814662452a45fa0"},
    {"nearest", 1, 1, "f65cbf19c80bf3a07fc379012077215bf3ad8de94add42b0856801530d792f05"},
};

TEST(ResizeTest, EightBitImagesEqualPillowToTheBit) {
  for (const Golden8& golden : kGolden8) {
    const Image out =
        resize(pattern(61, 47, 3), golden.width, golden.height, *resize_kernel_from_string(golden.kernel));
    const std::vector<std::uint8_t> bytes = to_bytes(out);
    EXPECT_EQ(to_hex(sha256(std::as_bytes(std::span(bytes)))), golden.sha256)
        << golden.kernel << " to " << golden.width << " x " << golden.height;
    EXPECT_TRUE(out.whole_numbers);
  }
}

struct GoldenFloat {
  const char* kernel;
  std::vector<float> values;
};

TEST(ResizeTest, FloatImagesEqualPillowsModeF) {
  // Channel 0 of the pattern to 5 x 3 by Pillow 13.0, mode F.
  const std::vector<GoldenFloat> goldens = {
      {"box",
       {132.671875F, 107.848961F, 149.403839F, 115.5625F, 126.296875F, 127.933334F, 143.75F, 108.497437F,
        145.85556F, 118.316666F, 113.671875F, 126.182297F, 143.634613F, 100.5625F, 140.630203F}},
      {"bilinear",
       {138.372696F, 118.011818F, 137.590378F, 122.71331F, 126.030624F, 125.777466F, 135.059006F, 122.30616F,
        134.088348F, 119.562447F, 117.706978F, 127.673271F, 132.8965F, 115.318832F, 140.743835F}},
      {"bicubic",
       {141.234329F, 116.552063F, 138.908218F, 121.948593F, 127.627586F, 123.637115F, 136.683319F,
        121.319481F, 135.421143F, 116.88826F, 117.465454F, 127.674706F, 133.609207F, 113.098625F,
        143.652206F}},
      {"lanczos",
       {142.575745F, 119.997231F, 134.309372F, 123.801979F, 129.370422F, 121.169174F, 135.031769F,
        126.214905F, 132.167877F, 116.21505F, 119.513885F, 127.905617F, 129.92598F, 116.518509F,
        143.238251F}},
  };
  Image plane = pattern(61, 47, 1);
  plane.whole_numbers = false;
  for (const GoldenFloat& golden : goldens) {
    const Image out = resize(plane, 5, 3, *resize_kernel_from_string(golden.kernel));
    ASSERT_EQ(out.values.size(), golden.values.size());
    for (std::size_t i = 0; i < golden.values.size(); ++i) {
      EXPECT_NEAR(out.values[i], golden.values[i], 2e-5)
          << golden.kernel << i;  // one rounding of the float between passes
    }
  }
}

// The two ways to place the samples of [0, 10, 20, 30] when it becomes 7 long: TensorFlow 1 and PyTorch 2.
TEST(ResizeTest, PointBilinearPlacesSamplesAsTensorFlowAndPyTorchDo) {
  const auto near = [](double value) {
    return testing::DoubleNear(value, 5e-5);
  };  // published to four digits
  EXPECT_THAT(resize_line({0, 10, 20, 30}, 7, ResizeKernel::kBilinearTf1),
              ElementsAre(near(0), near(5.7143), near(11.4286), near(17.1429), near(22.8571), near(28.5714),
                          near(30)));
  EXPECT_THAT(
      resize_line({0, 10, 20, 30}, 7, ResizeKernel::kBilinearPoint),
      ElementsAre(near(0), near(3.5714), near(9.2857), near(15), near(20.7143), near(26.4286), near(30)));
}

TEST(ResizeTest, ConstantsStayConstantAndSameSizeStaysEqual) {
  for (const std::string& name : resize_kernel_names()) {
    const ResizeKernel kernel = *resize_kernel_from_string(name);
    EXPECT_EQ(to_string(kernel), name);
    for (const float value : resize(Image(9, 7, 3, 77.0F), 13, 3, kernel).values) {
      ASSERT_EQ(value, 77.0F) << name;
    }
    const Image image = pattern(9, 7, 3);
    EXPECT_EQ(resize(image, 9, 7, kernel).values, image.values) << name;
    EXPECT_EQ(resize(Image(1, 1, 1, 5.0F), 3, 3, kernel).values, std::vector<float>(9, 5.0F)) << name;
  }
  EXPECT_FALSE(resize_kernel_from_string("cubic").has_value());
}

}  // namespace
}  // namespace tempera::image
