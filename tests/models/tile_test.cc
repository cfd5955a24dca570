// Super-resolution of a photo in tiles against the same in one piece, with the models and recipes of the
// repository.

#include "tempera/image/tile.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>

#include "tests/support/models.h"
#include <gtest/gtest.h>

#include "tempera/data/recipe.h"
#include "tempera/engine/openvino/openvino_engine.h"
#include "tempera/image/codec.h"
#include "tempera/image/tensor.h"
#include "tempera/onnx/read.h"

namespace tempera {
namespace {

using graph::Tensor;

class TiledModelTest : public testing::TestWithParam<const char*> {};

TEST_P(TiledModelTest, TilesShowNoSeam) {
  const std::filesystem::path file =
      tests::source_folder() / "models/esrgan" / (std::string(GetParam()) + ".onnx");
  const graph::Model model = onnx::read_model(file);
  const data::Recipe recipe = data::recipe_for(file, model.graph);
  ASSERT_TRUE(recipe.tile.has_value());
  const data::TileRecipe& tile = *recipe.tile;
  const image::Image photo = image::load(tests::source_folder() / "examples/photos/chelsea.png");
  const Tensor input = image::to_tensor(image::crop(photo, 100, 60, 230, 170), {});

  const auto engine = engine::make_openvino_engine();
  const auto whole_session = engine->compile(model, {});
  engine::CompileOptions fixed;
  fixed.input_shapes = recipe.deploy.shapes;
  const auto tile_session = engine->compile(model, fixed);
  const auto run = [](engine::Session& session, const Tensor& x) {
    return session.run(std::span(&x, 1)).at(0);
  };

  const Tensor whole = run(*whole_session, input);
  const image::TileOptions options{tile.size, tile.context, tile.feather, tile.scale, tile.fixed_size};
  const Tensor tiled =
      image::run_tiled(input, options, [&](const Tensor& part) { return run(*tile_session, part); });
  ASSERT_EQ(tiled.dims(), whole.dims());
  double worst = 0.0;
  for (std::size_t i = 0; i < whole.values<float>().size(); ++i) {
    worst =
        std::max(worst, static_cast<double>(std::abs(whole.values<float>()[i] - tiled.values<float>()[i])));
  }
  // 1e-4 of the range 0..1 is a fortieth of a step of an 8-bit picture: sums in another order, no seam.
  EXPECT_LT(worst, 1e-4);
}

INSTANTIATE_TEST_SUITE_P(Esrgan, TiledModelTest, testing::Values("esrgan_slim_x4", "esrgan_medium_x4"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace tempera
