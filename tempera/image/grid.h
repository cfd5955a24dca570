#pragma once

#include <vector>

#include "tempera/image/image.h"

namespace tempera::image {

struct GridOptions {
  int columns = 0;  ///< 0: as square as it gets
  int gap = 4;      ///< pixels between pictures and around them
  float background = 255.0F;
};

/// Pictures side by side, row by row, each centred in a cell of the largest one's size.
/// \throws Error{kInvalidArgument} when there are none
[[nodiscard]] Image grid(const std::vector<Image>& images, const GridOptions& options = {});

}  // namespace tempera::image
