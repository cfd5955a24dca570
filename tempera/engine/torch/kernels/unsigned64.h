#pragma once

#include <ATen/core/Tensor.h>

#include "tempera/engine/torch/value.h"

/// uint64 is carried in int64 with the same bits: sums and products come out right by themselves; what depends on the
/// order or on division goes through these.
namespace tempera::engine::aten {

/// For uint64 a key with the order of the values (the sign bit flipped; its own inverse), else the data itself.
[[nodiscard]] at::Tensor order_key(const at::Tensor& data, DataType type);

/// `function` on each pair of elements of two uint64 carriers, broadcast; on the CPU.
[[nodiscard]] at::Tensor map_uint64(const at::Tensor& a, const at::Tensor& b,
                                    std::uint64_t (*function)(std::uint64_t a, std::uint64_t b));

/// The values as doubles (beyond 2^53 rounded to nearest even); the data itself, converted, for other types.
[[nodiscard]] at::Tensor to_double(const at::Tensor& data, DataType type);

}  // namespace tempera::engine::aten
