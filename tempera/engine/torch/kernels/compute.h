#pragma once

#include <cstdint>
#include <utility>

#include <ATen/core/Tensor.h>

#include "tempera/engine/torch/value.h"

/// In which type kernels compute, and how results get back to the type asked for.
namespace tempera::engine::aten {

/// The type in which floating-point kernels compute: float32 for float16 and bfloat16, whose results are then
/// rounded once (torch lacks many CPU operators for them, and ONNX's reference accumulates in float32 or
/// better); others as is.
[[nodiscard]] at::ScalarType compute_type(at::ScalarType type);
[[nodiscard]] at::Tensor widened(const at::Tensor& x);

/// Smallest and largest value of an integer type of at most 32 bits.
[[nodiscard]] std::pair<std::int64_t, std::int64_t> integer_range(DataType type);

/// Rounds to nearest, ties to even, clamps to the integer type's range, and casts to its carrier. NaN becomes
/// 0.
[[nodiscard]] at::Tensor round_saturate(const at::Tensor& x, DataType type);

/// The same for small floats and integers alike: what QuantizeLinear writes.
///
/// \param saturate  small floats only: beyond the largest finite value, that value instead of infinity or NaN
[[nodiscard]] at::Tensor quantized(const at::Tensor& x, DataType type, bool saturate = true);

/// `v`, of one dimension, laid along `axis` of a tensor of rank `rank`: [n] -> [1,..,n,..,1].
[[nodiscard]] at::Tensor along_axis(const at::Tensor& v, std::int64_t axis, std::int64_t rank);

}  // namespace tempera::engine::aten
