#include "tempera/image/tensor.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "tempera/base/error.h"
#include "tempera/numeric/convert.h"

namespace tempera::image {
namespace {

double per_channel(const std::vector<double>& values, std::size_t channel, double fallback) {
  if (values.empty()) {
    return fallback;
  }
  return values.size() == 1 ? values[0] : values[channel];
}

void check_statistics(const PixelFormat& format, std::size_t channels) {
  for (const auto& [name, values] : {std::pair{"mean", &format.mean}, std::pair{"std", &format.std}}) {
    if (values->size() > 1 && values->size() != channels) {
      throw Error(
          ErrorCode::kInvalidArgument,
          fmt::format("'{}' has {} numbers where the image has {} channels", name, values->size(), channels));
    }
  }
}

int channel_count(const PixelFormat& format) { return format.channels == ChannelOrder::kGrey ? 1 : 3; }

/// Channel of the picture that channel `c` of the tensor holds.
int picture_channel(const PixelFormat& format, int c) {
  return format.channels == ChannelOrder::kBgr ? 2 - c : c;
}

}  // namespace

graph::Tensor to_tensor(const Image& image, const PixelFormat& format) {
  const int channels = channel_count(format);
  check_statistics(format, static_cast<std::size_t>(channels));
  const Image picture = to_channels(image, channels);
  const bool nchw = format.layout == Layout::kNchw;
  const std::int64_t w = picture.width;
  const std::int64_t h = picture.height;
  auto out = graph::Tensor::allocate(graph::DataType::kFloat32,
                                     nchw ? graph::Dims{1, channels, h, w} : graph::Dims{1, h, w, channels});
  const std::span<float> values = out.values<float>();
  for (int c = 0; c < channels; ++c) {
    const double mean = per_channel(format.mean, static_cast<std::size_t>(c), 0.0);
    const double std = per_channel(format.std, static_cast<std::size_t>(c), 1.0);
    const int from = picture_channel(format, c);
    for (std::int64_t y = 0; y < h; ++y) {
      for (std::int64_t x = 0; x < w; ++x) {
        const double p = picture.at(static_cast<int>(x), static_cast<int>(y), from);
        const double r = format.low + p / 255.0 * (format.high - format.low);
        const std::int64_t at = nchw ? (c * h + y) * w + x : (y * w + x) * channels + c;
        values[static_cast<std::size_t>(at)] = static_cast<float>((r - mean) / std);
      }
    }
  }
  return std::move(out.tensor);
}

Image from_tensor(const graph::Tensor& tensor, const PixelFormat& format, std::int64_t n) {
  const int channels = channel_count(format);
  check_statistics(format, static_cast<std::size_t>(channels));
  const bool nchw = format.layout == Layout::kNchw;
  graph::Dims dims = tensor.dims();
  if (dims.size() == 3) {
    dims.insert(dims.begin(), 1);
  }
  const bool fits = dims.size() == 4 && dims[nchw ? 1 : 3] == channels;
  if (!fits || n < 0 || n >= dims[0]) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("a tensor of dimensions {} has no image {} of {} channels in {} layout",
                            graph::to_string(tensor.dims()), n, channels, nchw ? "NCHW" : "NHWC"));
  }
  const std::int64_t h = dims[nchw ? 2 : 1];
  const std::int64_t w = dims[nchw ? 3 : 2];
  constexpr std::int64_t kMaxSide = 1 << 30;
  if (h < 1 || w < 1 || h > kMaxSide || w > kMaxSide) {
    throw Error(ErrorCode::kInvalidArgument, fmt::format("{} x {} pixels make no image", w, h));
  }
  const std::vector<double> values = graph::to_doubles(tensor);
  const std::int64_t first = n * h * w * channels;
  Image image(static_cast<int>(w), static_cast<int>(h), channels);
  image.whole_numbers = false;
  for (int c = 0; c < channels; ++c) {
    const double mean = per_channel(format.mean, static_cast<std::size_t>(c), 0.0);
    const double std = per_channel(format.std, static_cast<std::size_t>(c), 1.0);
    const int to = picture_channel(format, c);
    for (std::int64_t y = 0; y < h; ++y) {
      for (std::int64_t x = 0; x < w; ++x) {
        const std::int64_t at = first + (nchw ? (c * h + y) * w + x : (y * w + x) * channels + c);
        const double r = values[static_cast<std::size_t>(at)] * std + mean;
        const double p = (r - format.low) / (format.high - format.low) * 255.0;
        // max(0, NaN) is 0 with this order of the arguments
        image.at(static_cast<int>(x), static_cast<int>(y), to) =
            static_cast<float>(std::min(std::max(0.0, p), 255.0));
      }
    }
  }
  return image;
}

}  // namespace tempera::image
