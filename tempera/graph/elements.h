#pragma once

#include <cstdint>
#include <span>

#include "tempera/graph/tensor.h"

/// Going through the elements of a tensor without a copy of the whole.
namespace tempera::graph {

/// Where element number `position` stands, in row-major order: element 5 of [2,3] is [1,2].
[[nodiscard]] Dims index_of(std::int64_t position, const Dims& dims);

/// Elements decoded at once: a whole number of bytes for every packed type.
inline constexpr std::int64_t kChunk = 4096;

/// Elements begin, begin + 1, .. as double. \param begin  a multiple of kChunk
/// \throws Error{kInvalidArgument} for complex or string tensors
void decode_elements(const Tensor& tensor, std::int64_t begin, std::span<double> values);

}  // namespace tempera::graph
