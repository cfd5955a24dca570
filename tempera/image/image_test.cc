#include "tempera/image/image.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tempera/base/error.h"
#include "tempera/base/hash.h"
#include "tempera/image/grid.h"
#include "tempera/image/tensor.h"

namespace tempera::image {
namespace {

using testing::ElementsAre;

Image row(std::vector<float> values) {
  Image image(static_cast<int>(values.size()), 1, 1);
  image.values = std::move(values);
  return image;
}

TEST(ImageTest, ToBytesRoundsClipsAndTurnsNanBlack) {
  const Image image = row({-3, 0.5F, 1.5F, 254.6F, 300, std::numeric_limits<float>::quiet_NaN(),
                           std::numeric_limits<float>::infinity()});
  EXPECT_THAT(to_bytes(image), ElementsAre(0, 0, 2, 255, 255, 0, 255));
}

TEST(ImageTest, GreyEqualsPillow) {
  Image image(61, 47, 3);
  for (int i = 0; i < 47; ++i) {
    for (int j = 0; j < 61; ++j) {
      for (int c = 0; c < 3; ++c) {
        image.at(j, i, c) = static_cast<float>((7 * i + 13 * j + 29 * c + (i * j) % 31) % 256);
      }
    }
  }
  // Pillow 13.0, convert("L"): printed by testdata/make_images.py.
  const std::vector<std::uint8_t> grey = to_bytes(to_channels(image, 1));
  EXPECT_EQ(to_hex(sha256(std::as_bytes(std::span(grey)))),
            "3045464f5615bae0d23eb3c960c319582a145fcbf6ead5ca5aa39ecf04054f5e");
  EXPECT_EQ(to_channels(row({7}), 3).values, (std::vector<float>{7, 7, 7}));
}

TEST(ImageTest, CropsAreTakenWhereTorchvisionTakesThem) {
  const Image image = row({0, 1, 2, 3, 4, 5, 6});
  EXPECT_THAT(center_crop(image, 6, 1).values, ElementsAre(0, 1, 2, 3, 4, 5));  // round(0.5) = 0
  EXPECT_THAT(center_crop(image, 4, 1).values, ElementsAre(2, 3, 4, 5));        // round(1.5) = 2
  EXPECT_THAT(center_crop(image, 3, 1).values, ElementsAre(2, 3, 4));
  EXPECT_THAT(center_crop(image, 2, 1).values, ElementsAre(2, 3));  // round(2.5) = 2
  EXPECT_THROW((void)center_crop(image, 8, 1), Error);
  EXPECT_THROW((void)crop(image, 5, 0, 3, 1), Error);
}

TEST(ImageTest, MirroringDoesNotRepeatTheEdge) {
  EXPECT_THAT(pad_mirrored(row({0, 1, 2}), 8, 1).values, ElementsAre(2, 1, 0, 1, 2, 1, 0, 1));
  EXPECT_THAT(pad_mirrored(row({5}), 3, 2).values, ElementsAre(5, 5, 5, 5, 5, 5));
  EXPECT_THAT(pad_mirrored(row({0, 1, 2}), 2, 1).values, ElementsAre(0, 1, 2));
}

TEST(ImageTest, TensorsFollowRangeStatisticsOrderAndLayout) {
  Image image(2, 1, 3);
  image.values = {0, 51, 255, 255, 0, 102};
  PixelFormat format;
  const graph::Tensor plain = to_tensor(image, format);
  EXPECT_EQ(plain.dims(), (graph::Dims{1, 3, 1, 2}));
  EXPECT_THAT(graph::to_doubles(plain), ElementsAre(0, 1, 0.2F, 0, 1, 0.4F));

  format = {Layout::kNhwc, ChannelOrder::kBgr, 0.0, 255.0, {127}, {128}};  // EfficientNet-Lite's numbers
  const graph::Tensor scaled = to_tensor(image, format);
  EXPECT_EQ(scaled.dims(), (graph::Dims{1, 1, 2, 3}));
  EXPECT_THAT(graph::to_doubles(scaled),
              ElementsAre(1, -76.0 / 128, -127.0 / 128, -25.0 / 128, -127.0 / 128, 1));
  EXPECT_EQ(to_bytes(from_tensor(scaled, format)), to_bytes(image));

  format = {};
  format.channels = ChannelOrder::kGrey;
  format.low = -1;
  EXPECT_THAT(graph::to_doubles(to_tensor(row({0, 255}), format)), ElementsAre(-1, 1));
  format.mean = {0.1, 0.2, 0.3};
  EXPECT_THROW((void)to_tensor(row({0}), format), Error);
}

TEST(ImageTest, ReadingATensorClipsAndTurnsNanBlack) {
  const auto tensor = graph::Tensor::from<float>(
      {2, 1, 1, 3}, {0, 0, 0, -0.5F, 2.0F, std::numeric_limits<float>::quiet_NaN()});
  PixelFormat format;
  format.channels = ChannelOrder::kGrey;
  EXPECT_THAT(from_tensor(tensor, format, 1).values, ElementsAre(0, 255, 0));
  EXPECT_THROW((void)from_tensor(tensor, format, 2), Error);
  EXPECT_THROW((void)from_tensor(tensor, PixelFormat{}, 0), Error);
}

TEST(ImageTest, GridCentresPicturesInEqualCells) {
  const Image sheet = grid({Image(2, 2, 3, 10), Image(4, 2, 1, 20), Image(2, 1, 3, 30)}, {2, 1, 255});
  EXPECT_EQ(sheet.width, 2 * (4 + 1) + 1);
  EXPECT_EQ(sheet.height, 2 * (2 + 1) + 1);
  EXPECT_EQ(sheet.at(0, 0, 0), 255);
  EXPECT_EQ(sheet.at(1, 1, 0), 255);
  EXPECT_EQ(sheet.at(2, 1, 0), 10);
  EXPECT_EQ(sheet.at(6, 1, 2), 20);
  EXPECT_EQ(sheet.at(2, 4, 1), 30);
  EXPECT_EQ(sheet.at(7, 4, 1), 255);
  EXPECT_THROW((void)grid({}), Error);
}

}  // namespace
}  // namespace tempera::image
