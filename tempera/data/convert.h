#pragma once

#include <cstdint>
#include <string>

#include "tempera/graph/tensor.h"
#include "tempera/graph/type.h"

namespace tempera::data {

/// Private to the datasets: bringing values from outside into the form a graph input wants.

enum class Rounding : std::uint8_t {
  kExact,    ///< whole-number types take whole numbers in their range only
  kNearest,  ///< rounded to the nearest, and limited to the range: for pixels
};

/// The same values as another type. Float types round to nearest.
/// \param what  names the values for messages, "coffee.npz, array 'ids'"
/// \throws Error{kInvalidArgument} when a value has no exact form in `type`, naming the element
[[nodiscard]] graph::Tensor cast(const graph::Tensor& tensor, graph::DataType type, Rounding rounding,
                                 const std::string& what);

/// \throws Error{kInvalidArgument} when the dimensions do not fit what the graph says of the input
void require_shape(const graph::Dims& dims, const graph::ValueType& type, const std::string& what,
                   const std::string& input);

/// Index number `i` of the leading axis: [n, ...] -> [1, ...], or -> [...] with `drop_axis`. Shares the bytes
/// where they are aligned.
[[nodiscard]] graph::Tensor slice_leading(const graph::Tensor& tensor, std::int64_t i, bool drop_axis);

}  // namespace tempera::data
