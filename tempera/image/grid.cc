#include "tempera/image/grid.h"

#include <algorithm>
#include <cmath>

#include "tempera/base/error.h"

namespace tempera::image {

Image grid(const std::vector<Image>& images, const GridOptions& options) {
  if (images.empty()) {
    throw Error(ErrorCode::kInvalidArgument, "a grid needs at least one picture");
  }
  const int count = static_cast<int>(images.size());
  const int wanted = options.columns > 0 ? options.columns : static_cast<int>(std::ceil(std::sqrt(count)));
  const int columns = std::min(wanted, count);
  const int rows = (count + columns - 1) / columns;
  int cell_width = 0;
  int cell_height = 0;
  for (const Image& image : images) {
    cell_width = std::max(cell_width, image.width);
    cell_height = std::max(cell_height, image.height);
  }
  const int gap = std::max(options.gap, 0);
  Image sheet(columns * (cell_width + gap) + gap, rows * (cell_height + gap) + gap, 3, options.background);
  for (int i = 0; i < count; ++i) {
    const Image picture = to_channels(images[static_cast<std::size_t>(i)], 3);
    sheet.whole_numbers = sheet.whole_numbers && picture.whole_numbers;
    const int left = gap + i % columns * (cell_width + gap) + (cell_width - picture.width) / 2;
    const int top = gap + i / columns * (cell_height + gap) + (cell_height - picture.height) / 2;
    for (int y = 0; y < picture.height; ++y) {
      std::copy_n(&picture.values[static_cast<std::size_t>(y) * picture.width * 3],
                  static_cast<std::size_t>(picture.width) * 3, &sheet.at(left, top + y, 0));
    }
  }
  return sheet;
}

}  // namespace tempera::image
