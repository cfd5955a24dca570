#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "tempera/graph/tensor.h"

namespace tempera::image {

/// Cutting of a large image into overlapping tiles for a model that looks at a neighbourhood only.
struct TileOptions {
  int size = 128;    ///< side of a tile, input pixels
  int context = 16;  ///< pixels at each inner side of a tile that are computed and thrown away: the model's
                     ///< receptive radius
  int feather =
      8;  ///< pixels over which neighbouring tiles fade into each other, beyond the context; 0: a hard cut
  int scale = 1;            ///< output pixels for each input pixel
  bool fixed_size = false;  ///< the model takes nothing but size x size: smaller images are mirrored up to it
};

/// One tile's place in the input.
struct Tile {
  int x = 0;
  int y = 0;
  int width = 0;
  int height = 0;
};

/// Tiles of equal size that cover the image, rows first; the last of a row or column is moved inward to fit.
/// \throws Error{kInvalidArgument} when size <= 2 * context + feather
[[nodiscard]] std::vector<Tile> plan_tiles(int width, int height, const TileOptions& options);

/// Runs `model` over tiles of `input` and joins its outputs without visible seams. Where the model's
/// receptive radius is at most `context`, the result equals the model run on the whole image, up to the
/// rounding of the weighted mean.
///
/// \param input  float32 [N, C, H, W]
/// \param model  [N, C, h, w] -> [N, C', scale h, scale w], float32
/// \return [N, C', scale H, scale W]
/// \throws Error{kInvalidArgument} when an output has other dimensions
[[nodiscard]] graph::Tensor run_tiled(const graph::Tensor& input, const TileOptions& options,
                                      const std::function<graph::Tensor(const graph::Tensor&)>& model);

}  // namespace tempera::image
