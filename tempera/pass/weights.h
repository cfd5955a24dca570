#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "tempera/graph/tensor.h"

/// Arithmetic on constant tensors, done in double and rounded once.
namespace tempera::pass {

/// Encodes numbers in a float type; nothing when a finite number would leave the type's range (a weight of 70000 in
/// float16), so that a rewrite can decline instead of making infinities.
[[nodiscard]] std::optional<graph::Tensor> encode_weights(graph::DataType type, graph::Dims dims,
                                                          std::span<const double> values);

/// Elements [start, start + count) along `axis`. Shares the bytes when the axis is the first one.
/// Any type of whole bytes. \throws Error{kInvalidArgument} when the range or type does not fit
[[nodiscard]] graph::Tensor slice_tensor(const graph::Tensor& tensor, std::int64_t axis, std::int64_t start,
                                         std::int64_t count);

/// Tensors of one type joined along `axis`; the other axes agree. Any type of whole bytes.
/// \throws Error{kInvalidArgument} when there is none, or they do not fit together
[[nodiscard]] graph::Tensor concat_tensors(std::span<const graph::Tensor> tensors, std::int64_t axis);

/// The tensor with its axes permuted: result.dims[i] = dims[perm[i]]. Any type of whole bytes.
[[nodiscard]] graph::Tensor transpose_tensor(const graph::Tensor& tensor, std::span<const std::int64_t> perm);

/// A constant that broadcasts along one axis alone, spread over that axis: the numbers c[0..size) such that
/// broadcasting `tensor` against a shape of rank `rank` whose axis `axis` has `size` elements equals broadcasting c along
/// that axis. Nothing when the tensor varies along another axis or would enlarge the result.
[[nodiscard]] std::optional<std::vector<double>> spread_along(const graph::Tensor& tensor, std::int64_t rank,
                                                              std::int64_t axis, std::int64_t size);

}  // namespace tempera::pass
