#include "tempera/image/codec.h"

#include <cstdlib>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tempera/base/error.h"
#include "tempera/base/file.h"
#include "tempera/base/random.h"

namespace tempera::image {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Written by testdata/make_images.py with Pillow.
std::filesystem::path test_file(const std::string& name) {
  const char* root = std::getenv("TEMPERA_SOURCE_DIR");
  return std::filesystem::path(root == nullptr ? "." : root) / "tempera/image/testdata" / name;
}

/// Checks the picture of make_images.py: 24 x 16, quarters red, green / blue, grey 128.
void expect_quarters(const Image& image, float tolerance, const std::string& name) {
  ASSERT_EQ(image.width, 24) << name;
  ASSERT_EQ(image.height, 16) << name;
  ASSERT_EQ(image.channels, 3) << name;
  const float quarters[4][3] = {{255, 0, 0}, {0, 255, 0}, {0, 0, 255}, {128, 128, 128}};
  for (int y = 0; y < 16; ++y) {
    for (int x = 0; x < 24; ++x) {
      for (int c = 0; c < 3; ++c) {
        ASSERT_NEAR(image.at(x, y, c), quarters[2 * (y / 8) + x / 12][c], tolerance)
            << name << " " << x << " " << y << " " << c;
      }
    }
  }
}

std::string message_of(std::span<const std::byte> bytes, const DecodeOptions& options = {}) {
  try {
    (void)decode(bytes, options);
  } catch (const Error& error) {
    return error.text();
  }
  return "no error";
}

TEST(CodecTest, LosslessFormatsGiveTheExactPixels) {
  for (const char* name : {"rgb.png", "palette.png", "rgb.webp", "rgb.tiff", "pages.tiff", "moving.webp"}) {
    expect_quarters(load(test_file(name)), 0, name);
  }
}

TEST(CodecTest, JpegIsNearAndEveryExifOrientationIsUndone) {
  expect_quarters(load(test_file("rgb.jpg")), 3, "rgb.jpg");  // quantisation of JPEG at quality 100
  for (int orientation = 1; orientation <= 8; ++orientation) {
    const std::string name = "exif" + std::to_string(orientation) + ".jpg";
    expect_quarters(load(test_file(name)), 3, name);
  }
}

TEST(CodecTest, CmykLooksLikeTheColoursItStandsFor) {
  // Conversion through a press profile: colours keep their hue, not their numbers.
  const Image image = load(test_file("cmyk.jpg"));
  EXPECT_GT(image.at(2, 2, 0), 150);
  EXPECT_LT(image.at(2, 2, 1), 100);
  EXPECT_GT(image.at(20, 2, 1), image.at(20, 2, 0));
  EXPECT_GT(image.at(2, 12, 2), image.at(2, 12, 0));
  EXPECT_NEAR(image.at(20, 12, 0), 128, 30);
  EXPECT_NEAR(image.at(20, 12, 0), image.at(20, 12, 2), 25);
}

TEST(CodecTest, GreyFilesGiveThreeEqualChannelsOrOne) {
  // Luma of red, green, blue and grey 128 in Pillow: 76, 150, 29, 128.
  const Image rgb = load(test_file("grey.png"));
  EXPECT_THAT(std::vector<float>(rgb.values.begin(), rgb.values.begin() + 3), ElementsAre(76, 76, 76));
  const Image grey = load(test_file("grey.png"), {.channels = 1});
  EXPECT_EQ(grey.channels, 1);
  EXPECT_EQ(grey.at(20, 2, 0), 150);
  EXPECT_EQ(load(test_file("rgb.png"), {.channels = 1}).at(2, 12, 0), 29);
  EXPECT_NEAR(load(test_file("grey.jpg")).at(20, 12, 1), 128, 3);
  EXPECT_EQ(load(test_file("one_bit.png")).at(20, 2, 0), 255);
  EXPECT_EQ(load(test_file("one_bit.png")).at(2, 2, 0), 0);
}

TEST(CodecTest, TransparencyIsLaidOverWhite) {
  const Image image = load(test_file("alpha.png"));
  EXPECT_EQ(to_bytes(crop(image, 0, 0, 1, 1)), (std::vector<std::uint8_t>{255, 0, 0}));
  EXPECT_NEAR(image.at(1, 0, 1), 127, 1);  // 255 (1 - 128/255)
  EXPECT_EQ(image.at(1, 0, 0), 255);
  EXPECT_EQ(to_bytes(crop(image, 2, 0, 1, 1)), (std::vector<std::uint8_t>{255, 255, 255}));
  const Image grey = load(test_file("grey_alpha.png"));
  EXPECT_EQ(grey.at(0, 0, 0), 100);
  EXPECT_EQ(grey.at(1, 0, 0), 255);
}

TEST(CodecTest, SixteenBitsKeepTheirPrecision) {
  const Image rgb = load(test_file("rgb16.png"));
  EXPECT_FALSE(rgb.whole_numbers);
  EXPECT_THAT(rgb.values, ElementsAre(0, 1, 255, static_cast<float>(1000 / 257.0),
                                      static_cast<float>(32768 / 257.0), static_cast<float>(2 / 257.0)));
  for (const char* name : {"grey16.png", "grey16.tiff"}) {
    const Image grey = load(test_file(name), {.channels = 1});
    EXPECT_THAT(grey.values, ElementsAre(0, static_cast<float>(300 / 257.0), 255)) << name;
  }
}

TEST(CodecTest, BombsAreRefusedFromTheHeader) {
  const std::vector<std::byte> bomb = read_file(test_file("bomb.png"));
  EXPECT_THAT(message_of(bomb), HasSubstr("60000 x 60000 pixels, more than the 128000000 allowed"));
  EXPECT_THAT(message_of(read_file(test_file("rgb.png")), {.max_pixels = 383}), HasSubstr("24 x 16 pixels"));
  EXPECT_EQ(probe(bomb).width, 60000);
  EXPECT_EQ(probe(bomb).format, "png");
}

TEST(CodecTest, OtherFormatsAndOtherDataAreRefused) {
  EXPECT_THAT(message_of(read_file(test_file("rgb.gif"))), HasSubstr("no JPEG, PNG, WebP or TIFF"));
  EXPECT_THAT(message_of(read_file(test_file("float.tiff"))), HasSubstr("holds float values"));
  EXPECT_THAT(message_of({}), HasSubstr("no JPEG"));
  const std::string svg = "<svg xmlns='http://www.w3.org/2000/svg' width='10' height='10'/>";
  EXPECT_THAT(message_of(std::as_bytes(std::span(svg.data(), svg.size()))), HasSubstr("no JPEG"));
  try {
    (void)load(test_file("make_images.py"));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kIo);
    EXPECT_THAT(error.text(), HasSubstr("make_images.py"));
  }
}

TEST(CodecTest, PngKeepsPixelsAndJpegStaysNear) {
  Image image(32, 20, 3);
  for (std::size_t i = 0; i < image.values.size(); ++i) {
    image.values[i] = static_cast<float>(i * 7 % 256);
  }
  EXPECT_EQ(decode(encode_png(image)).values, image.values);
  EXPECT_EQ(decode(encode_png(to_channels(image, 1)), {.channels = 1}).values, to_channels(image, 1).values);
  const Image flat(16, 16, 3, 90);
  for (const float value : decode(encode_jpeg(flat, 95)).values) {
    ASSERT_NEAR(value, 90, 1);
  }
  EXPECT_THROW((void)encode_jpeg(flat, 0), Error);
  EXPECT_THROW(save("x.bmp", flat), Error);
  EXPECT_TRUE(has_image_extension("a/B.JPeG"));
  EXPECT_FALSE(has_image_extension("a.npy"));
}

TEST(CodecTest, TruncatedAndChangedFilesNeverCrashNorPrint) {
  testing::internal::CaptureStderr();
  for (const char* name :
       {"rgb.png", "rgb.jpg", "rgb.webp", "rgb.tiff", "palette.png", "cmyk.jpg", "rgb16.png"}) {
    const std::vector<std::byte> good = read_file(test_file(name));
    const bool slow =
        std::string(name) == "cmyk.jpg";  // each conversion sets up a table of the press profile
    for (std::size_t size = 0; size < good.size(); size += slow ? 50 : 5) {
      (void)message_of(std::span(good).first(size));
    }
    const CounterRng rng(3);
    for (std::uint64_t i = 0; i < (slow ? 40U : 400U); ++i) {
      std::vector<std::byte> bad = good;
      for (std::uint64_t change = 0; change <= rng.below(16 * i, 3); ++change) {
        bad[rng.below(16 * i + 2 * change + 1, bad.size())] =
            static_cast<std::byte>(rng.below(16 * i + 2 * change + 2, 256));
      }
      (void)message_of(bad, {.max_pixels = 1'000'000});
    }
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(CodecTest, ManyThreadsDecodeAtOnce) {
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([] {
      for (int i = 0; i < 20; ++i) {
        expect_quarters(load(test_file("rgb.png")), 0, "rgb.png");
      }
    });
  }
}

}  // namespace
}  // namespace tempera::image
