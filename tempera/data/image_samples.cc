#include "tempera/data/image_samples.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "tempera/base/error.h"
#include "tempera/base/random.h"

namespace tempera::data {
namespace {

using image::Image;

/// Places for cuts: the middle, or seeded ones.
class Places {
 public:
  Places(const Sha256Digest& content, std::uint64_t seed, int crop)
      : random_(seed, draw_of(content)), crop_(crop) {}

  /// Where a cut of `size` starts in `length` pixels.
  int start(int length, int size) {
    const int room = length - size;
    return crop_ == 0 ? room / 2
                      : static_cast<int>(random_.below(next(), static_cast<std::uint64_t>(room) + 1));
  }

  double between(double min, double max) {
    return crop_ == 0 ? max : min + (max - min) * random_.uniform(2 * next());
  }

 private:
  static std::uint64_t draw_of(const Sha256Digest& content) {
    std::uint64_t draw = 0;
    std::memcpy(&draw, content.data(), sizeof draw);
    return draw;
  }

  std::uint64_t next() {
    constexpr std::uint64_t kNumbersEach = 16;
    return static_cast<std::uint64_t>(crop_) * kNumbersEach + used_++;
  }

  CounterRng random_;
  int crop_;
  std::uint64_t used_ = 0;
};

Image cut(const Image& picture, int width, int height, Places& places) {
  const Image large = image::pad_mirrored(picture, width, height);
  const int x = places.start(large.width, width);
  const int y = places.start(large.height, height);
  return image::crop(large, x, y, width, height);
}

}  // namespace

Image fit_picture(const Image& picture, const ImageFit& fit) {
  Image out = picture;
  if (fit.short_side) {
    // torchvision's resize(size): the long side is cut off to whole pixels.
    const auto side = static_cast<std::int64_t>(*fit.short_side);
    const auto other = [&](int longer, int shorter) {
      return std::max<int>(1, static_cast<int>(side * longer / shorter));
    };
    const int width =
        picture.width <= picture.height ? *fit.short_side : other(picture.width, picture.height);
    const int height =
        picture.height <= picture.width ? *fit.short_side : other(picture.height, picture.width);
    constexpr int kMaxSide = 1 << 20;
    if (std::max(width, height) > kMaxSide) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("a picture of {} x {} is too long for a short side of {}", picture.width,
                              picture.height, *fit.short_side));
    }
    out = image::resize(out, width, height, fit.kernel);
  } else if (fit.size) {
    out = image::resize(out, fit.size->width, fit.size->height, fit.kernel);
  }
  if (fit.crop) {
    out = image::center_crop(image::pad_mirrored(out, fit.crop->width, fit.crop->height), fit.crop->width,
                             fit.crop->height);
  }
  return out;
}

PictureSample cut_sample(const Image& picture, const ImageSource& source, const Sha256Digest& content,
                         std::uint64_t seed, int crop) {
  const ImageSampling& sampling = source.sampling;
  Places places(content, seed, crop);
  Image out = picture;
  if (sampling.zoom) {
    const double shorter = std::min(picture.width, picture.height);
    const double fraction = places.between(sampling.zoom->min, sampling.zoom->max);
    const int side = std::max(1, static_cast<int>(std::lround(fraction * shorter)));
    out = cut(out, side, side, places);
  }
  out = fit_picture(out, source.fit);
  if (sampling.size) {
    out = cut(out, sampling.size->width * sampling.reduce, sampling.size->height * sampling.reduce, places);
  }
  if (sampling.reduce == 1) {
    return {out, out};
  }
  const int width = out.width / sampling.reduce;
  const int height = out.height / sampling.reduce;
  if (width < 1 || height < 1) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("a picture of {} x {} is too small to be reduced {} times", out.width, out.height,
                            sampling.reduce));
  }
  Image whole = image::center_crop(out, width * sampling.reduce, height * sampling.reduce);
  Image reduced = image::resize(whole, width, height, source.fit.kernel);
  return {std::move(reduced), std::move(whole)};
}

}  // namespace tempera::data
