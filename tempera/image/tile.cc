#include "tempera/image/tile.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "tempera/base/error.h"

namespace tempera::image {
namespace {

using graph::Tensor;

struct Span {
  int start = 0;
  int length = 0;
};

/// Where the tiles of one direction start: every `stride`, the last moved inward so that it ends at the edge.
std::vector<Span> plan_line(int length, int size, int stride) {
  std::vector<Span> spans;
  const int tile = std::min(size, length);
  for (int start = 0;; start += stride) {
    if (start + tile >= length) {
      spans.push_back({length - tile, tile});
      return spans;
    }
    spans.push_back({start, tile});
  }
}

/// Weight of each output position of a tile along one direction: 0 in the context at inner sides, then a ramp
/// of `feather` to 1. Positions are output pixels, so a ramp has feather * scale steps.
std::vector<float> weights(const Span& span, int length, const TileOptions& options) {
  const int size = span.length * options.scale;
  const auto ramp = [&](int distance) {  // from an inner side, in output pixels
    const int beyond = distance - options.context * options.scale;
    if (beyond < 0) {
      return 0.0F;
    }
    const int width = options.feather * options.scale;
    return beyond >= width ? 1.0F : (static_cast<float>(beyond) + 0.5F) / static_cast<float>(width);
  };
  std::vector<float> out(static_cast<std::size_t>(size), 1.0F);
  for (int i = 0; i < size; ++i) {
    if (span.start > 0) {
      out[static_cast<std::size_t>(i)] = std::min(out[static_cast<std::size_t>(i)], ramp(i));
    }
    if (span.start + span.length < length) {
      out[static_cast<std::size_t>(i)] = std::min(out[static_cast<std::size_t>(i)], ramp(size - 1 - i));
    }
  }
  return out;
}

Tensor cut(const Tensor& input, const Tile& tile) {
  const graph::Dims& dims = input.dims();
  auto out = Tensor::allocate(graph::DataType::kFloat32, {dims[0], dims[1], tile.height, tile.width});
  const std::span<const float> from = input.values<float>();
  const std::span<float> to = out.values<float>();
  for (std::int64_t plane = 0; plane < dims[0] * dims[1]; ++plane) {
    for (std::int64_t y = 0; y < tile.height; ++y) {
      std::copy_n(from.begin() + (plane * dims[2] + tile.y + y) * dims[3] + tile.x, tile.width,
                  to.begin() + (plane * tile.height + y) * tile.width);
    }
  }
  return std::move(out.tensor);
}

std::int64_t mirrored(std::int64_t i, std::int64_t size) {
  if (size == 1) {
    return 0;
  }
  const std::int64_t period = 2 * (size - 1);
  const std::int64_t folded = i % period;
  return folded < size ? folded : period - folded;
}

/// Grown to at least height x width at the right and the bottom by mirroring.
Tensor grow(const Tensor& input, std::int64_t height, std::int64_t width) {
  const graph::Dims& dims = input.dims();
  const std::int64_t h = std::max(height, dims[2]);
  const std::int64_t w = std::max(width, dims[3]);
  auto out = Tensor::allocate(graph::DataType::kFloat32, {dims[0], dims[1], h, w});
  const std::span<const float> from = input.values<float>();
  const std::span<float> to = out.values<float>();
  for (std::int64_t plane = 0; plane < dims[0] * dims[1]; ++plane) {
    for (std::int64_t y = 0; y < h; ++y) {
      for (std::int64_t x = 0; x < w; ++x) {
        to[static_cast<std::size_t>((plane * h + y) * w + x)] = from[static_cast<std::size_t>(
            (plane * dims[2] + mirrored(y, dims[2])) * dims[3] + mirrored(x, dims[3]))];
      }
    }
  }
  return std::move(out.tensor);
}

void check(const TileOptions& options) {
  if (options.context < 0 || options.feather < 0 || options.scale < 1 ||
      options.size <= 2 * static_cast<std::int64_t>(options.context) + options.feather) {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format(
            "tiles of {} pixels leave nothing between a context of {} on each side and a feather of {}",
            options.size, options.context, options.feather),
        "choose a larger tile, or a smaller context");
  }
}

}  // namespace

std::vector<Tile> plan_tiles(int width, int height, const TileOptions& options) {
  check(options);
  if (width < 1 || height < 1) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("an image of {} x {} pixels has no tiles", width, height));
  }
  const int stride = options.size - 2 * options.context - options.feather;
  std::vector<Tile> tiles;
  for (const Span& row : plan_line(height, options.size, stride)) {
    for (const Span& column : plan_line(width, options.size, stride)) {
      tiles.push_back({column.start, row.start, column.length, row.length});
    }
  }
  return tiles;
}

Tensor run_tiled(const Tensor& input, const TileOptions& options,
                 const std::function<Tensor(const Tensor&)>& model) {
  check(options);
  constexpr std::int64_t kMaxSide = 1 << 24;
  if (input.type() != graph::DataType::kFloat32 || input.rank() != 4 || input.size() == 0 ||
      input.dims()[2] > kMaxSide || input.dims()[3] > kMaxSide) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("tiling needs float32 [N,C,H,W], got {}{}", numeric::to_string(input.type()),
                            graph::to_string(input.dims())));
  }
  const Tensor grown = options.fixed_size ? grow(input, options.size, options.size) : input;
  const auto height = static_cast<int>(grown.dims()[2]);
  const auto width = static_cast<int>(grown.dims()[3]);
  const std::vector<Tile> tiles = plan_tiles(width, height, options);

  const int scale = options.scale;
  std::int64_t planes = 0;
  std::int64_t channels = 0;
  const std::int64_t out_h = std::int64_t{height} * scale;
  const std::int64_t out_w = std::int64_t{width} * scale;
  std::vector<float> sum;
  std::vector<float> total(static_cast<std::size_t>(out_h * out_w), 0.0F);
  for (const Tile& tile : tiles) {
    const Tensor out = tiles.size() == 1 ? model(grown) : model(cut(grown, tile));
    const std::int64_t tile_h = std::int64_t{tile.height} * scale;
    const std::int64_t tile_w = std::int64_t{tile.width} * scale;
    const graph::Dims& dims = out.dims();
    if (out.type() != graph::DataType::kFloat32 || dims.size() != 4 || dims[0] != input.dims()[0] ||
        (channels != 0 && dims[1] != channels) || dims[2] != tile_h || dims[3] != tile_w) {
      throw Error(
          ErrorCode::kInvalidArgument,
          fmt::format("for a tile of {} x {} the model was expected to give float32 [{},C,{},{}], got {}{}",
                      tile.width, tile.height, input.dims()[0], tile_h, tile_w,
                      numeric::to_string(out.type()), graph::to_string(dims)),
          "check the scale under [tile] in the model's recipe");
    }
    if (channels == 0) {
      channels = dims[1];
      planes = dims[0] * channels;
      sum.assign(static_cast<std::size_t>(planes * out_h * out_w), 0.0F);
    }
    const std::vector<float> weight_x = weights({tile.x, tile.width}, width, options);
    const std::vector<float> weight_y = weights({tile.y, tile.height}, height, options);
    const std::span<const float> values = out.values<float>();
    for (std::int64_t y = 0; y < tile_h; ++y) {
      const float wy = weight_y[static_cast<std::size_t>(y)];
      if (wy == 0.0F) {
        continue;
      }
      const std::int64_t row = (std::int64_t{tile.y} * scale + y) * out_w + std::int64_t{tile.x} * scale;
      for (std::int64_t x = 0; x < tile_w; ++x) {
        const float w = wy * weight_x[static_cast<std::size_t>(x)];
        if (w == 0.0F) {
          continue;  // also keeps a NaN of the context out of the result
        }
        total[static_cast<std::size_t>(row + x)] += w;
        for (std::int64_t plane = 0; plane < planes; ++plane) {
          sum[static_cast<std::size_t>(plane * out_h * out_w + row + x)] +=
              w * values[static_cast<std::size_t>((plane * tile_h + y) * tile_w + x)];
        }
      }
    }
  }
  const std::int64_t kept_h = input.dims()[2] * scale;
  const std::int64_t kept_w = input.dims()[3] * scale;
  auto result = Tensor::allocate(graph::DataType::kFloat32, {input.dims()[0], channels, kept_h, kept_w});
  const std::span<float> joined = result.values<float>();
  for (std::int64_t plane = 0; plane < planes; ++plane) {
    for (std::int64_t y = 0; y < kept_h; ++y) {
      for (std::int64_t x = 0; x < kept_w; ++x) {
        const std::size_t at = static_cast<std::size_t>(y * out_w + x);
        joined[static_cast<std::size_t>((plane * kept_h + y) * kept_w + x)] =
            sum[static_cast<std::size_t>(plane * out_h * out_w) + at] / total[at];
      }
    }
  }
  return std::move(result.tensor);
}

}  // namespace tempera::image
