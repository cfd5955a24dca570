/// Sizes of the weights of real models in every format, scales included, against float32.

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "tests/support/models.h"
#include <gtest/gtest.h>

#include "tempera/compress/quantize/layers.h"
#include "tempera/compress/quantize/quantize.h"
#include "tempera/onnx/infer.h"
#include "tempera/onnx/read.h"
#include "tempera/onnx/text.h"

namespace tempera {
namespace {

using compress::Granularity;
using compress::WeightFormat;

struct FormatCase {
  const char* name;
  compress::LayerFormat format;
  double largest_share;  ///< of the float32 bytes of the quantised weights
};

constexpr Granularity kBlocks32 = {Granularity::Kind::kBlock, 32};
constexpr Granularity kBlocks64 = {Granularity::Kind::kBlock, 64};

const std::vector<FormatCase> kFormats = {{"int8", {WeightFormat::kInt8}, 0.26},
                                          {"int4", {WeightFormat::kInt4}, 0.14},
                                          {"int4_blocks_of_64", {WeightFormat::kInt4, kBlocks64}, 0.14},
                                          {"int4_blocks_of_32", {WeightFormat::kInt4, kBlocks32}, 0.16},
                                          {"ternary", {WeightFormat::kTernary}, 0.08},
                                          {"ternary_blocks_of_64", {WeightFormat::kTernary, kBlocks64}, 0.08},
                                          {"binary", {WeightFormat::kBinary}, 0.045},
                                          {"binary_blocks_of_64", {WeightFormat::kBinary, kBlocks64}, 0.045},
                                          {"fp8", {WeightFormat::kFloat8E4M3FN}, 0.26},
                                          {"f16", {WeightFormat::kFloat16}, 0.5}};

class WeightSizes : public testing::TestWithParam<std::tuple<std::string, FormatCase>> {};

TEST_P(WeightSizes, StayWithinTheShareOfFloat32) {
  const auto& [name, one] = GetParam();
  graph::Model model = onnx::read_model(tests::source_folder() / "models" / (name + ".onnx"));
  onnx::infer_types(model);
  compress::QuantizationPlan plan;
  // A row that its blocks do not fill costs one more scale of two bytes, and bits up to the block's end.
  std::int64_t ragged = 0;
  for (const compress::Layer& layer : compress::find_layers(model.graph)) {
    if (layer.has_weight()) {
      plan.emplace(layer.name, one.format);
      const bool blocks = one.format.granularity.kind == compress::Granularity::Kind::kBlock;
      ragged += blocks ? (2 + one.format.granularity.block / 8) * model.graph.constant(layer.weight)->dims().at(static_cast<std::size_t>(layer.channel_axis)) : 0;
    }
  }
  compress::QuantizeOptions options;
  options.target = compress::Target::kPortable;
  const compress::Quantized quantized = compress::quantize(model, plan, nullptr, options);
  onnx::check_model(quantized.model);
  std::int64_t before = 0;
  std::int64_t after = 0;
  for (const compress::LayerRecord& layer : quantized.layers) {
    before += layer.bytes_before;
    after += layer.bytes_after;
  }
  ASSERT_GT(before, 0);
  EXPECT_LE(static_cast<double>(after), one.largest_share * static_cast<double>(before) + static_cast<double>(ragged));
  // What the records say is what the file holds: constants of unpacking (shapes, powers of two) are a few bytes a layer.
  const std::int64_t removed = graph::weight_size(model.graph).bytes - graph::weight_size(quantized.model.graph).bytes;
  EXPECT_NEAR(static_cast<double>(removed), static_cast<double>(before - after), 400.0 * static_cast<double>(plan.size()));
}

INSTANTIATE_TEST_SUITE_P(Models, WeightSizes,
                         testing::Combine(testing::Values("efficientnet_lite0/efficientnet_lite0", "esrgan/esrgan_medium_x4",
                                                          "gnina/gnina_dense", "ani1x/ani1x_single"),
                                          testing::ValuesIn(kFormats)),
                         [](const auto& info) {
                           const std::string& path = std::get<0>(info.param);
                           return path.substr(path.find('/') + 1) + "_" + std::get<1>(info.param).name;
                         });

}  // namespace
}  // namespace tempera
