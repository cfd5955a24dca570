#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tempera::image {

/// A picture in sRGB, values 0..255, rows from the top, channels interleaved: values [height, width,
/// channels].
///
/// Files of 8 bits a channel give whole numbers; 16-bit ones give v / 257, so nothing of them is lost.
struct Image {
  int width = 0;
  int height = 0;
  int channels = 3;  ///< 3 (RGB) or 1 (grey)
  bool whole_numbers =
      true;  ///< every value is one of 0, 1, ..., 255; resizing then rounds as 8-bit libraries do
  std::vector<float> values;

  Image() = default;
  Image(int w, int h, int c, float fill = 0.0F);

  [[nodiscard]] float& at(int x, int y, int c) {
    return values[(static_cast<std::size_t>(y) * width + x) * channels + c];
  }
  [[nodiscard]] float at(int x, int y, int c) const {
    return values[(static_cast<std::size_t>(y) * width + x) * channels + c];
  }
};

/// The nearest of 0, ..., 255 to each value (ties to even, NaN to 0).
[[nodiscard]] std::vector<std::uint8_t> to_bytes(const Image& image);
[[nodiscard]] Image from_bytes(int width, int height, int channels, std::span<const std::uint8_t> bytes);

/// To grey by Rec. 601 luma, 0.299 R + 0.587 G + 0.114 B (whole numbers round as Pillow's 16-bit fixed point
/// does), or one channel copied to three; unchanged when the number is right. \param channels  1 or 3
[[nodiscard]] Image to_channels(const Image& image, int channels);

/// The part of `width` x `height` pixels whose upper left corner is (x, y). \throws Error{kInvalidArgument}
/// outside.
[[nodiscard]] Image crop(const Image& image, int x, int y, int width, int height);
/// The middle part: x = round_half_even((image width - width) / 2), likewise y, as torchvision's center_crop.
[[nodiscard]] Image center_crop(const Image& image, int width, int height);

/// At least `width` x `height` pixels: what is missing is mirrored at the edges (without repeating the edge
/// pixel), half on each side. Images that are large enough come back unchanged.
[[nodiscard]] Image pad_mirrored(const Image& image, int width, int height);

}  // namespace tempera::image
