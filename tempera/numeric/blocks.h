#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tempera::numeric {

/// Which elements of a row-major array share a scale: `block` consecutive ones along one axis, the last block shorter when
/// the axis is no multiple of it.
///
/// Scales have the array's dimensions with ceil(size / block) along the axis, as in ONNX DequantizeLinear-21 with
/// `block_size`. A block of the whole axis gives one scale for each line along it.
struct BlockLayout {
  std::int64_t outer = 1;  ///< product of the dimensions before the axis
  std::int64_t size = 1;   ///< of the axis
  std::int64_t inner = 1;  ///< product of the dimensions after it
  std::int64_t block = 1;  ///< > 0

  /// Elements first, first + stride, ...: the members of one block.
  struct Members {
    std::int64_t first = 0;
    std::int64_t stride = 1;
    std::int64_t count = 0;
  };

  [[nodiscard]] std::int64_t along() const { return (size + block - 1) / block; }
  [[nodiscard]] std::int64_t count() const { return outer * along() * inner; }

  /// Index of the scale of element `element`, both in row-major order.
  [[nodiscard]] std::int64_t scale_of(std::int64_t element) const;
  [[nodiscard]] Members members(std::int64_t scale) const;
};

/// \param axis   of `dims`, not negative
/// \param block  elements that share a scale; larger than the axis: all of it
/// \throws Error{kInvalidArgument} for an axis that dims do not have, or a block below 1
[[nodiscard]] BlockLayout block_layout(std::span<const std::int64_t> dims, std::int64_t axis, std::int64_t block);

/// Dimensions of the scales. \throws as block_layout
[[nodiscard]] std::vector<std::int64_t> scale_dims(std::span<const std::int64_t> dims, std::int64_t axis,
                                                   std::int64_t block);

}  // namespace tempera::numeric
