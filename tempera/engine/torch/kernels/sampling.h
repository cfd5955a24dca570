#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

namespace tempera::engine::aten {

enum class Interpolation { kNearest, kLinear, kCubic };

/// What lies outside an image.
enum class Outside {
  kZeros,
  kBorder,      ///< the nearest pixel
  kReflection,  ///< the image mirrored about its border: pixel centres (corners aligned) or pixel edges
};

/// Values of images at points between their pixels; differentiable in both.
///
/// \param x      [N, C, in...], float32 or float64
/// \param point  for each spatial axis the coordinate of P points, [N, P]; 0 is the first pixel's centre, in
/// pixels \param align_corners  where kReflection mirrors \return [N, C, P]
///
/// Source: ONNX GridSample-22; the cubic kernel is Keys 1981, doi:10.1109/TASSP.1981.1163711, with a = -0.75.
at::Tensor sample(const at::Tensor& x, const std::vector<at::Tensor>& point, Interpolation interpolation,
                  Outside outside, bool align_corners);

/// Weights of the four pixels around a point that lies `ratio` in [0, 1] beyond the second of them, by Keys'
/// kernel.
std::vector<at::Tensor> cubic_weights(const at::Tensor& ratio, double a);

}  // namespace tempera::engine::aten
