#pragma once

#include <string>
#include <string_view>

#include "tempera/engine/torch/value.h"

namespace tempera::engine::aten {

struct CastOptions {
  bool saturate = true;                 ///< to float8: to the largest finite value, else to infinity or NaN
  std::string_view round_mode = "up";   ///< to e8m0: "up", "down" or "nearest"
};

/// The array's elements in another numeric type, as ONNX Cast defines it: floats to integers truncate; integers that do
/// not fit keep their low bits; floats to narrower floats round to nearest even.
///
/// Source: ONNX Cast-25.
[[nodiscard]] Array cast(const Array& array, DataType to, const CastOptions& options = {});

/// Numbers as text, as Cast writes them: integers plain, floats with as many digits as tell them apart.
[[nodiscard]] graph::Tensor cast_to_strings(const Array& array);

/// Text as numbers: decimal, scientific, "INF", "+INF", "-INF", "NaN". \throws Error{kInvalidArgument} naming the text
[[nodiscard]] Array cast_from_strings(const graph::Tensor& strings, DataType to, const CastOptions& options = {});

}  // namespace tempera::engine::aten
