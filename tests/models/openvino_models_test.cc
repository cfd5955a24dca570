// The openvino engine on real models: outputs against reference vectors that the original frameworks computed.
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tempera/data/npz.h"
#include "tempera/engine/openvino/openvino_engine.h"
#include "tempera/graph/tensor_error.h"
#include "tempera/onnx/read.h"
#include "tests/support/models.h"

namespace tempera::engine {
namespace {

namespace fs = std::filesystem;

struct ModelCase {
  std::string stem;    ///< model STEM.onnx, vectors STEM.npz
  double relative_l2;  ///< bound of every output's error
};

void PrintTo(const ModelCase& model, std::ostream* os) { *os << model.stem; }

class OpenvinoModelTest : public testing::TestWithParam<ModelCase> {};

std::vector<graph::Tensor> inputs_of(const Session& session, const data::NpzFile& vectors) {
  std::vector<graph::Tensor> inputs;
  for (const Port& port : session.inputs()) {
    inputs.push_back(vectors.read(port.name));
  }
  return inputs;
}

TEST_P(OpenvinoModelTest, MatchesItsReferenceVectors) {
  const ModelCase& model_case = GetParam();
  const auto file = tests::find_model(model_case.stem + ".onnx");
  if (!file) {
    GTEST_SKIP() << tests::no_model(model_case.stem + ".onnx");
  }
  const data::NpzFile vectors(fs::path(*file).replace_extension(".npz"));
  const auto engine = make_openvino_engine();
  const auto session = engine->compile(onnx::read_model(*file), {});
  const std::vector<graph::Tensor> outputs = session->run(inputs_of(*session, vectors));
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const std::string& name = session->outputs()[i].name;
    if (!vectors.contains(name)) {
      continue;
    }
    const graph::TensorError error = graph::tensor_error(vectors.read(name), outputs[i]);
    std::cout << fmt::format("{} {}: relative L2 {:.2e}, SQNR {:.1f} dB, worst {:.2e}\n", model_case.stem, name,
                             error.relative_l2, error.sqnr_db, error.max_abs);
    EXPECT_LE(error.relative_l2, model_case.relative_l2) << name;
  }
}

// Bounds: sums of up to some thousand float32 products, over up to some hundred layers; a wrong layer gives 1e-2 and more.
INSTANTIATE_TEST_SUITE_P(
    All, OpenvinoModelTest,
    testing::Values(ModelCase{"esrgan/esrgan_slim_x4", 1e-5}, ModelCase{"esrgan/esrgan_medium_x4", 1e-5},
                    ModelCase{"esrgan/esrgan_slim_x2", 1e-5},
                    ModelCase{"efficientnet_lite0/efficientnet_lite0", 1e-5},
                    ModelCase{"terrain_unet/terrain_consistency_unet", 1e-4},
                    ModelCase{"gnina/gnina_dense", 1e-5}, ModelCase{"gnina/gnina_crossdock_default2018", 1e-5},
                    ModelCase{"stlpips/stlpips_alex", 1e-4}, ModelCase{"ani1x/ani1x_single", 1e-4},
                    ModelCase{"ani1x/ani1x_ensemble8", 1e-4}),
    [](const auto& info) { return fs::path(info.param.stem).filename().string(); });

}  // namespace
}  // namespace tempera::engine
