#include "tempera/image/image.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "tempera/base/error.h"

namespace tempera::image {
namespace {

/// Half of n, ties to even: 1 -> 0, 3 -> 2.
int half_to_even(int n) { return n / 2 + (n % 4 == 3 ? 1 : 0); }

/// Index mirrored into 0..size-1 without repeating the edge: -1 -> 1, size -> size - 2.
int mirrored(int i, int size) {
  if (size == 1) {
    return 0;
  }
  const int period = 2 * (size - 1);
  const int folded = ((i % period) + period) % period;
  return folded < size ? folded : period - folded;
}

}  // namespace

Image::Image(int w, int h, int c, float fill)
    : width(w), height(h), channels(c), whole_numbers(fill == std::round(fill)) {
  if (w < 1 || h < 1 || (c != 1 && c != 3)) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("an image of {} x {} pixels and {} channels", w, h, c));
  }
  values.assign(static_cast<std::size_t>(w) * static_cast<std::size_t>(h) * static_cast<std::size_t>(c),
                fill);
}

std::vector<std::uint8_t> to_bytes(const Image& image) {
  std::vector<std::uint8_t> bytes(image.values.size());
  std::transform(image.values.begin(), image.values.end(), bytes.begin(), [](float value) {
    // max(0, NaN) is 0 with this order of the arguments
    return static_cast<std::uint8_t>(std::nearbyint(std::min(std::max(0.0F, value), 255.0F)));
  });
  return bytes;
}

Image from_bytes(int width, int height, int channels, std::span<const std::uint8_t> bytes) {
  Image image(width, height, channels);
  if (bytes.size() != image.values.size()) {
    throw Error(ErrorCode::kInvalidArgument, fmt::format("{} bytes given for an image of {} x {} x {}",
                                                         bytes.size(), width, height, channels));
  }
  std::copy(bytes.begin(), bytes.end(), image.values.begin());
  return image;
}

Image to_channels(const Image& image, int channels) {
  if (image.channels == channels) {
    return image;
  }
  Image out(image.width, image.height, channels);
  out.whole_numbers = image.whole_numbers;
  const std::size_t pixels = image.values.size() / static_cast<std::size_t>(image.channels);
  for (std::size_t i = 0; i < pixels; ++i) {
    if (channels == 3) {
      std::fill_n(out.values.begin() + static_cast<std::ptrdiff_t>(3 * i), 3, image.values[i]);
      continue;
    }
    const float red = image.values[3 * i];
    const float green = image.values[3 * i + 1];
    const float blue = image.values[3 * i + 2];
    if (image.whole_numbers) {  // Pillow, Convert.c, L24: weights in units of 2^-16
      const auto sum = static_cast<std::uint32_t>(red) * 19595 + static_cast<std::uint32_t>(green) * 38470 +
                       static_cast<std::uint32_t>(blue) * 7471 + 0x8000;
      out.values[i] = static_cast<float>(sum >> 16);
    } else {
      out.values[i] = static_cast<float>(0.299 * red + 0.587 * green + 0.114 * blue);
    }
  }
  return out;
}

Image crop(const Image& image, int x, int y, int width, int height) {
  if (x < 0 || y < 0 || width < 1 || height < 1 || width > image.width - x || height > image.height - y) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("a crop of {} x {} at ({}, {}) lies outside an image of {} x {}", width, height,
                            x, y, image.width, image.height));
  }
  Image out(width, height, image.channels);
  out.whole_numbers = image.whole_numbers;
  const std::size_t row = static_cast<std::size_t>(width) * static_cast<std::size_t>(image.channels);
  for (int r = 0; r < height; ++r) {
    std::copy_n(&image.values[(static_cast<std::size_t>(y + r) * image.width + x) * image.channels], row,
                &out.values[static_cast<std::size_t>(r) * row]);
  }
  return out;
}

Image center_crop(const Image& image, int width, int height) {
  if (width > image.width || height > image.height) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("the middle {} x {} lies outside an image of {} x {}", width, height, image.width,
                            image.height));
  }
  return crop(image, half_to_even(image.width - width), half_to_even(image.height - height), width, height);
}

Image pad_mirrored(const Image& image, int width, int height) {
  if (width <= image.width && height <= image.height) {
    return image;
  }
  Image out(std::max(width, image.width), std::max(height, image.height), image.channels);
  out.whole_numbers = image.whole_numbers;
  const int left = (out.width - image.width) / 2;
  const int top = (out.height - image.height) / 2;
  for (int y = 0; y < out.height; ++y) {
    const int from_y = mirrored(y - top, image.height);
    for (int x = 0; x < out.width; ++x) {
      const int from_x = mirrored(x - left, image.width);
      for (int c = 0; c < out.channels; ++c) {
        out.at(x, y, c) = image.at(from_x, from_y, c);
      }
    }
  }
  return out;
}

}  // namespace tempera::image
