#include "tempera/image/tile.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "tempera/base/error.h"
#include "tempera/base/random.h"

namespace tempera::image {
namespace {

using graph::Tensor;

Tensor random_image(std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) {
  auto out = Tensor::allocate(graph::DataType::kFloat32, {n, c, h, w});
  CounterRng(4).fill_uniform(out.values<float>());
  return std::move(out.tensor);
}

/// A model with receptive radius `radius`: the mean over a (2 radius + 1)^2 window with zeros outside, each
/// pixel then repeated `scale` times in both directions. Two output channels: the mean over channels and its
/// square.
Tensor blur_and_repeat(const Tensor& in, int radius, int scale) {
  const auto n = in.dims()[0];
  const auto c = in.dims()[1];
  const auto h = in.dims()[2];
  const auto w = in.dims()[3];
  auto out = Tensor::allocate(graph::DataType::kFloat32, {n, 2, h * scale, w * scale});
  const auto from = in.values<float>();
  auto to = out.values<float>();
  for (std::int64_t b = 0; b < n; ++b) {
    for (std::int64_t y = 0; y < h; ++y) {
      for (std::int64_t x = 0; x < w; ++x) {
        double sum = 0;
        for (std::int64_t k = 0; k < c; ++k) {
          for (std::int64_t yy = std::max<std::int64_t>(0, y - radius); yy <= std::min(h - 1, y + radius);
               ++yy) {
            for (std::int64_t xx = std::max<std::int64_t>(0, x - radius); xx <= std::min(w - 1, x + radius);
                 ++xx) {
              sum += from[static_cast<std::size_t>(((b * c + k) * h + yy) * w + xx)];
            }
          }
        }
        const auto value = static_cast<float>(sum / (c * (2 * radius + 1) * (2 * radius + 1)));
        for (std::int64_t i = 0; i < scale; ++i) {
          for (std::int64_t j = 0; j < scale; ++j) {
            const std::int64_t at = (y * scale + i) * w * scale + x * scale + j;
            to[static_cast<std::size_t>(b * 2 * h * w * scale * scale + at)] = value;
            to[static_cast<std::size_t>((b * 2 + 1) * h * w * scale * scale + at)] = value * value;
          }
        }
      }
    }
  }
  return std::move(out.tensor);
}

TEST(TileTest, TilesCoverEverythingAndKeepTheirSize) {
  const TileOptions options{.size = 64, .context = 8, .feather = 4};
  for (const int width : {1, 63, 64, 65, 108, 109, 500}) {
    std::vector<int> covered(static_cast<std::size_t>(width), 0);
    for (const Tile& tile : plan_tiles(width, 64, options)) {
      EXPECT_EQ(tile.width, std::min(width, 64));
      // What is kept of a tile: all but the context at inner sides.
      const int from = tile.x == 0 ? 0 : tile.x + options.context;
      const int to = tile.x + tile.width == width ? width : tile.x + tile.width - options.context;
      for (int x = from; x < to; ++x) {
        ++covered[static_cast<std::size_t>(x)];
      }
    }
    EXPECT_GE(*std::min_element(covered.begin(), covered.end()), 1) << width;
  }
  EXPECT_EQ(plan_tiles(64, 64, options).size(), 1U);
  EXPECT_EQ(plan_tiles(65, 64, options).size(), 2U);
}

TEST(TileTest, TiledEqualsWholeWhenTheContextHoldsTheReceptiveField) {
  const Tensor input = random_image(2, 3, 75, 131);
  const Tensor whole = blur_and_repeat(input, 5, 2);
  for (const int feather : {0, 1, 6}) {
    const TileOptions options{.size = 32, .context = 5, .feather = feather, .scale = 2};
    const Tensor tiled =
        run_tiled(input, options, [](const Tensor& tile) { return blur_and_repeat(tile, 5, 2); });
    ASSERT_EQ(tiled.dims(), whole.dims());
    for (std::size_t i = 0; i < whole.values<float>().size(); ++i) {
      ASSERT_NEAR(tiled.values<float>()[i], whole.values<float>()[i], 1e-6)
          << i;  // rounding of the weighted mean
    }
  }
}

TEST(TileTest, TooSmallAContextIsSeen) {
  const Tensor input = random_image(1, 3, 40, 70);
  const Tensor whole = blur_and_repeat(input, 5, 1);
  const TileOptions options{.size = 24, .context = 2, .feather = 0, .scale = 1};
  const Tensor tiled =
      run_tiled(input, options, [](const Tensor& tile) { return blur_and_repeat(tile, 5, 1); });
  float worst = 0;
  for (std::size_t i = 0; i < whole.values<float>().size(); ++i) {
    worst = std::max(worst, std::abs(tiled.values<float>()[i] - whole.values<float>()[i]));
  }
  EXPECT_GT(worst, 1e-3);
}

TEST(TileTest, FixedSizeModelsNeverSeeAnotherSize) {
  const TileOptions options{.size = 48, .context = 4, .feather = 2, .scale = 3, .fixed_size = true};
  for (const auto& [h, w] : {std::pair{10, 20}, std::pair{48, 48}, std::pair{30, 200}, std::pair{1, 1}}) {
    const Tensor out = run_tiled(random_image(1, 3, h, w), options, [](const Tensor& tile) {
      EXPECT_EQ(tile.dims(), (graph::Dims{1, 3, 48, 48}));
      return blur_and_repeat(tile, 2, 3);
    });
    EXPECT_EQ(out.dims(), (graph::Dims{1, 2, 3 * h, 3 * w}));
  }
}

TEST(TileTest, WrongScaleAndImpossibleOptionsAreErrors) {
  const Tensor input = random_image(1, 3, 20, 20);
  const auto model = [](const Tensor& tile) { return blur_and_repeat(tile, 1, 2); };
  EXPECT_THROW((void)run_tiled(input, {.size = 32, .context = 4, .feather = 2, .scale = 4}, model), Error);
  EXPECT_THROW((void)run_tiled(input, {.size = 10, .context = 4, .feather = 2, .scale = 2}, model), Error);
  EXPECT_THROW((void)run_tiled(Tensor::from<float>({3}, {1, 2, 3}), {}, model), Error);
}

}  // namespace
}  // namespace tempera::image
