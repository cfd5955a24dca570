// Pretrained models through the torch engine against the outputs that their original frameworks gave.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <iostream>
#include <string>

#include "tempera/data/npz.h"
#include "tempera/engine/torch/torch_engine.h"
#include "tempera/onnx/read.h"
#include "tests/support/models.h"

namespace tempera {
namespace {

struct Reference {
  std::string path;  ///< below the folder of the models, without suffix
  /// Largest allowed |actual - expected| over the largest |expected| of each output.
  double tolerance;
};

std::ostream& operator<<(std::ostream& stream, const Reference& reference) { return stream << reference.path; }

class TorchModels : public testing::TestWithParam<Reference> {};

TEST_P(TorchModels, GiveTheReferenceOutputs) {
  const auto model_file = tests::find_model(GetParam().path + ".onnx");
  if (!model_file) {
    GTEST_SKIP() << tests::no_model(GetParam().path + ".onnx");
  }
  const data::NpzFile reference(std::filesystem::path(*model_file).replace_extension(".npz"));
  const std::unique_ptr<engine::Session> session =
      engine::make_torch_engine()->compile(onnx::read_model(*model_file), engine::CompileOptions{});
  std::vector<graph::Tensor> inputs;
  for (const engine::Port& port : session->inputs()) {
    inputs.push_back(reference.read(port.name));
  }
  const std::vector<graph::Tensor> outputs = session->run(inputs);
  ASSERT_EQ(outputs.size(), session->outputs().size());
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const std::string& name = session->outputs()[i].name;
    const graph::Tensor expected = reference.read(name);
    ASSERT_EQ(outputs[i].dims(), expected.dims()) << name;
    const std::vector<double> a = graph::to_doubles(outputs[i]);
    const std::vector<double> e = graph::to_doubles(expected);
    double largest = 0.0;
    double difference = 0.0;
    for (std::size_t j = 0; j < a.size(); ++j) {
      ASSERT_TRUE(std::isfinite(a[j])) << name << "[" << j << "]";
      largest = std::max(largest, std::fabs(e[j]));
      difference = std::max(difference, std::fabs(a[j] - e[j]));
    }
    std::cout << GetParam().path << " " << name << ": largest difference " << difference << " of " << largest << "\n";
    EXPECT_LE(difference, GetParam().tolerance * largest) << name;
  }
}

// float32 throughout; the references come from float64 or another float32 engine. Measured: at most 3.7e-6.
INSTANTIATE_TEST_SUITE_P(
    Pretrained, TorchModels,
    testing::Values(Reference{"esrgan/esrgan_slim_x2", 1e-5}, Reference{"esrgan/esrgan_slim_x4", 1e-5},
                    Reference{"esrgan/esrgan_medium_x4", 1e-5}, Reference{"efficientnet_lite0/efficientnet_lite0", 1e-5},
                    Reference{"terrain_unet/terrain_consistency_unet", 1e-5}, Reference{"gnina/gnina_dense", 1e-5},
                    Reference{"gnina/gnina_crossdock_default2018", 1e-5}, Reference{"ani1x/ani1x_single", 1e-5},
                    Reference{"ani1x/ani1x_ensemble8", 1e-5}, Reference{"stlpips/stlpips_alex", 1e-5}),
    [](const testing::TestParamInfo<Reference>& info) {
      return info.param.path.substr(info.param.path.find('/') + 1);
    });

}  // namespace
}  // namespace tempera
