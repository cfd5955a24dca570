#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tempera/image/image.h"

namespace tempera::image {

/// Resampling, by exact definition. The first four widen their kernel when shrinking (antialiasing) and are
/// Pillow's filters of the same name; the others are what networks were fed by PyTorch and TensorFlow 1.
enum class ResizeKernel : std::uint8_t {
  kBox,
  kBilinear,
  kBicubic,        ///< Keys with a = -0.5
  kLanczos,        ///< three lobes
  kBilinearPoint,  ///< half-pixel centres, two taps, no antialiasing: torch interpolate(mode="bilinear")
  kBilinearTf1,    ///< source = target * in / out, two taps: TensorFlow 1 resize_bilinear
  kNearest,        ///< floor((target + 0.5) * in / out)
};

[[nodiscard]] std::string_view to_string(
    ResizeKernel kernel);  ///< "box", "bilinear", ..., "bilinear_point", "nearest"
[[nodiscard]] std::optional<ResizeKernel> resize_kernel_from_string(std::string_view name);
[[nodiscard]] std::vector<std::string> resize_kernel_names();

/// Resamples, columns first and then rows.
///
/// An image of whole numbers is computed as Pillow does for 8-bit images, bit for bit (22-bit fixed point,
/// rounded and clipped after each direction) under the antialiased kernels, and rounded at the end under the
/// others. Other images are computed in double and rounded to float; overshoot is kept.
///
/// \param width,height  >= 1
[[nodiscard]] Image resize(const Image& image, int width, int height, ResizeKernel kernel);

/// The same for samples in a row, in double: the definition, and what resize() applies along each direction.
[[nodiscard]] std::vector<double> resize_line(const std::vector<double>& line, int length,
                                              ResizeKernel kernel);

}  // namespace tempera::image
