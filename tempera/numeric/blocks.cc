#include "tempera/numeric/blocks.h"

#include <algorithm>

#include <fmt/format.h>

#include "tempera/base/error.h"

namespace tempera::numeric {

std::int64_t BlockLayout::scale_of(std::int64_t element) const {
  const std::int64_t behind = element % inner;
  const std::int64_t at = element / inner % size;
  const std::int64_t before = element / inner / size;
  return (before * along() + at / block) * inner + behind;
}

BlockLayout::Members BlockLayout::members(std::int64_t scale) const {
  const std::int64_t behind = scale % inner;
  const std::int64_t at = scale / inner % along() * block;
  const std::int64_t before = scale / inner / along();
  return {(before * size + at) * inner + behind, inner, std::min(block, size - at)};
}

BlockLayout block_layout(std::span<const std::int64_t> dims, std::int64_t axis, std::int64_t block) {
  if (axis < 0 || axis >= static_cast<std::int64_t>(dims.size())) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("blocks along axis {} of an array with {} axes", axis, dims.size()));
  }
  if (block < 1) {
    throw Error(ErrorCode::kInvalidArgument, fmt::format("a block of {} elements, expected at least 1", block));
  }
  BlockLayout layout;
  for (std::int64_t i = 0; i < axis; ++i) {
    layout.outer *= dims[static_cast<std::size_t>(i)];
  }
  layout.size = dims[static_cast<std::size_t>(axis)];
  for (std::size_t i = static_cast<std::size_t>(axis) + 1; i < dims.size(); ++i) {
    layout.inner *= dims[i];
  }
  layout.block = std::min(block, std::max<std::int64_t>(layout.size, 1));
  return layout;
}

std::vector<std::int64_t> scale_dims(std::span<const std::int64_t> dims, std::int64_t axis, std::int64_t block) {
  const BlockLayout layout = block_layout(dims, axis, block);
  std::vector<std::int64_t> result(dims.begin(), dims.end());
  result[static_cast<std::size_t>(axis)] = layout.along();
  return result;
}

}  // namespace tempera::numeric
