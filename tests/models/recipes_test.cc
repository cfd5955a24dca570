// The models of the repository with their recipes: each fits its graph, and makes of the example data what
// the model's own framework was fed with.

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/models.h"
#include <gtest/gtest.h>

#include "tempera/data/dataset.h"
#include "tempera/data/npz.h"
#include "tempera/data/split.h"
#include "tempera/onnx/read.h"
#include "tempera/quality/metrics.h"

namespace tempera {
namespace {

namespace fs = std::filesystem;

struct Loaded {
  graph::Model model;
  data::Recipe recipe;
};

Loaded load(const std::string& file) {
  const fs::path path = tests::source_folder() / "models" / file;
  Loaded loaded;
  loaded.model = onnx::read_model(path);
  loaded.recipe = data::recipe_for(path, loaded.model.graph, quality::metric_names());
  return loaded;
}

struct ModelCase {
  std::string model;
  std::string data;  ///< below the source folder
};

void PrintTo(const ModelCase& model, std::ostream* os) { *os << model.model; }

class RecipeModelTest : public testing::TestWithParam<ModelCase> {};

TEST_P(RecipeModelTest, RecipeFitsTheModelAndItsDataSuffice) {
  const Loaded loaded = load(GetParam().model);
  EXPECT_FALSE(loaded.recipe.path.empty());
  EXPECT_TRUE(loaded.recipe.guesses.empty()) << loaded.recipe.guesses.front();
  const auto dataset =
      data::open_dataset({tests::source_folder() / GetParam().data}, loaded.recipe, loaded.model.graph);
  EXPECT_TRUE(data::split_three(*dataset).sufficient);
  EXPECT_GE(dataset->samples().size(), 6U);
  const data::Sample sample = dataset->load(dataset->samples().size() - 1);
  const std::vector<std::string> names = data::required_inputs(loaded.model.graph);
  ASSERT_EQ(sample.inputs.size(), names.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    EXPECT_EQ(sample.inputs[i].dims(), loaded.recipe.deploy.shapes.at(names[i])) << names[i];
  }
  for (const data::OutputRecipe& output : loaded.recipe.outputs) {
    EXPECT_EQ(sample.expected.contains(output.name), !output.expected.empty()) << output.name;
    EXPECT_NE(quality::make_metric(output), nullptr);
    if (!output.labels.empty()) {
      EXPECT_TRUE(fs::exists(loaded.recipe.path.parent_path() / output.labels));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, RecipeModelTest,
    testing::Values(ModelCase{"esrgan/esrgan_slim_x4.onnx", "examples/photos"},
                    ModelCase{"esrgan/esrgan_medium_x4.onnx", "examples/photos"},
                    ModelCase{"efficientnet_lite0/efficientnet_lite0.onnx", "examples/photos"},
                    ModelCase{"gnina/gnina_dense.onnx", "examples/docking"},
                    ModelCase{"ani1x/ani1x_single.onnx", "models/ani1x/ani_alanine_md500K.npz"}));

// The reference inputs were made by Pillow: short side 256 bicubic, middle 224, (p - 127) / 128. Coffee's 600
// x 400 shrinks to 384 x 256 whichever way its long side is rounded; reference row 1 is that photo.
TEST(RecipeModelTest, EfficientNetIsFedAsItsOwnPipelineFeedsItToTheBit) {
  const Loaded loaded = load("efficientnet_lite0/efficientnet_lite0.onnx");
  const graph::Tensor reference =
      data::NpzFile(tests::source_folder() / "models/efficientnet_lite0/efficientnet_lite0.npz")
          .read("image");
  data::DatasetOptions options;
  options.whole_files = true;
  const auto dataset = data::open_dataset({tests::source_folder() / "examples/photos/coffee.png"},
                                          loaded.recipe, loaded.model.graph, options);
  const graph::Tensor image = dataset->load(0).inputs[0];
  const auto ours = image.values<float>();
  const auto theirs = reference.values<float>().subspan(ours.size(), ours.size());
  EXPECT_TRUE(std::equal(ours.begin(), ours.end(), theirs.begin()));
}

}  // namespace
}  // namespace tempera
