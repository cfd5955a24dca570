#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

#include "tempera/engine/torch/kernels/spatial.h"

namespace tempera::engine::aten {

/// Cross-correlation over any number of spatial axes, the definition of ONNX's Conv.
///
/// \param x       [N, C, in...], float32 or float64 (or another type with an ATen convolution on its device)
/// \param weight  [M, C / group, kernel...], the type of x
/// \param axes    one for each spatial axis
/// \return [N, M, out...]
at::Tensor convolve(const at::Tensor& x, const at::Tensor& weight, std::span<const Window> axes,
                    std::int64_t group);

/// The adjoint of convolve() in x, without bias and padding: [N, C, in...] with weight [C, M / group,
/// kernel...] to [N, M, (in - 1) stride + extent ...].
at::Tensor convolve_transposed(const at::Tensor& x, const at::Tensor& weight,
                               const std::vector<std::int64_t>& strides,
                               const std::vector<std::int64_t>& dilations, std::int64_t group);

}  // namespace tempera::engine::aten
