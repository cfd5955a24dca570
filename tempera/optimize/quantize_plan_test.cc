#include "tempera/optimize/quantize_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tempera/base/error.h"
#include "tempera/compress/quantize/testing.h"

namespace tempera::optimize {
namespace {

using compress::ActivationFormat;
using compress::WeightFormat;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Key;

// Products with 8, 4096 and 8192 weights: the first holds 0.07 % of them.
const graph::Model& model() {
  static const graph::Model made = compress::testing::parse(
      R"(g (float[1,1] x, float[1,8] a, float[8,512] b, float[512,16] c) => (float[1,16] z)
      { p = MatMul(x, a)  q = MatMul(p, b)  z = MatMul(q, c) })",
      21, {"a", "b", "c"});
  return made;
}

LayerPlan planned(const QuantizeModelOptions& options) {
  return plan_layers(model().graph, compress::find_layers(model().graph), options);
}

QuantizeModelOptions int8_weights() {
  QuantizeModelOptions options;
  options.format.weights = WeightFormat::kInt8;
  return options;
}

TEST(PlanLayers, TheSmallestLayersStayInFloat) {
  const LayerPlan plan = planned(int8_weights());
  EXPECT_THAT(plan.formats, ElementsAre(Key("q"), Key("z")));
  EXPECT_THAT(plan.reasons.at("p"), HasSubstr("0.5 % of the weights"));
}

TEST(PlanLayers, EveryLayerWhenAskedFor) {
  QuantizeModelOptions options = int8_weights();
  options.every_layer = true;
  EXPECT_THAT(planned(options).formats, ElementsAre(Key("p"), Key("q"), Key("z")));
}

TEST(PlanLayers, SmallLayersAreNotLeftOutOfHalfPrecisionAndOfActivations) {
  QuantizeModelOptions options = int8_weights();
  options.format.weights = WeightFormat::kFloat16;
  EXPECT_TRUE(planned(options).formats.contains("p"));
  options = int8_weights();
  options.format.activations = ActivationFormat::kInt8;
  EXPECT_TRUE(planned(options).formats.contains("p"));
}

TEST(PlanLayers, LayersToKeepAreKeptAndMustExist) {
  QuantizeModelOptions options = int8_weights();
  options.float_layers = {"q"};
  EXPECT_THAT(planned(options).formats, ElementsAre(Key("z")));
  options.float_layers = {"qq"};
  EXPECT_THROW((void)planned(options), Error);
}

}  // namespace
}  // namespace tempera::optimize
