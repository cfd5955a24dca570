#pragma once

#include <cstdint>

#include "tempera/base/hash.h"
#include "tempera/data/recipe.h"
#include "tempera/image/image.h"

namespace tempera::data {

/// Private to the datasets: cutting samples out of a picture as ImageFit and ImageSampling say.

/// The picture as `tempera run` feeds it: resized and cropped.
[[nodiscard]] image::Image fit_picture(const image::Image& picture, const ImageFit& fit);

struct PictureSample {
  image::Image input;
  image::Image source;  ///< what the input was made from: `reduce` times as large, else equal to it
};

/// Sample number `crop` of a picture. Number 0 is its middle; the others lie at places that depend on seed,
/// content and number alone.
[[nodiscard]] PictureSample cut_sample(const image::Image& picture, const ImageSource& source,
                                       const Sha256Digest& content, std::uint64_t seed, int crop);

}  // namespace tempera::data
