#pragma once

#include "tempera/image/image.h"

namespace tempera::quality {

/// 10 log10(255^2 / MSE) in dB over all pixels and channels; infinity for equal images.
/// \param border  pixels left out at each edge, as papers on super-resolution do
/// \throws Error{kInvalidArgument} when sizes differ or nothing is left
[[nodiscard]] double psnr(const image::Image& reference, const image::Image& candidate, int border = 0);

/// The same on luma, Y = 16 + (65.481 R + 128.553 G + 24.966 B) / 255 (ITU-R BT.601 studio range, MATLAB
/// rgb2ycbcr, not rounded). Grey images are taken as R = G = B.
[[nodiscard]] double psnr_y(const image::Image& reference, const image::Image& candidate, int border = 0);

/// Structural similarity, -1..1: 11 x 11 Gaussian window of sigma 1.5 over the valid region only, C1 = (0.01
/// 255)^2, C2 = (0.03 255)^2, population moments; mean over the map, then over channels. \throws
/// Error{kInvalidArgument} also for images below 11 pixels Source: Wang et al. 2004, IEEE TIP 13(4), eq. 13;
/// the window as in its section III.C.
[[nodiscard]] double ssim(const image::Image& reference, const image::Image& candidate, int border = 0);

/// ssim() of the luma of psnr_y().
[[nodiscard]] double ssim_y(const image::Image& reference, const image::Image& candidate, int border = 0);

/// The luma of psnr_y() as a one-channel image, 16..235.
[[nodiscard]] image::Image luma(const image::Image& image);

}  // namespace tempera::quality
