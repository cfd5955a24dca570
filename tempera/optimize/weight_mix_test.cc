#include "tempera/optimize/weight_mix.h"

#include <cmath>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tempera/base/host.h"
#include "tempera/base/log.h"
#include "tempera/base/progress.h"
#include "tempera/compress/quantize/testing.h"

namespace tempera::optimize {
namespace {

using compress::WeightFormat;
using ::testing::ElementsAre;

// Three layers told apart by the size of their weights: 64, 128 and 256.
const graph::Model& model() {
  static const graph::Model made = compress::testing::parse(
      R"(g (float[1,8] x, float[8,8] a, float[8,16] b, float[16,16] c) => (float[1,16] z)
      { p = MatMul(x, a)  q = MatMul(p, b)  z = MatMul(q, c) })",
      21, {"a", "b", "c"});
  return made;
}

// A loss by formula in place of an engine: each int4 weight adds its own as a square, each int8 weight a sixteenth of it.
double loss_of(const graph::Model& quantized, const std::map<std::int64_t, double>& alone) {
  double squares = 0.0;
  for (const graph::ValueId id : quantized.graph.values()) {
    const std::optional<graph::Tensor> constant = quantized.graph.constant(id);
    if (!constant || !alone.contains(constant->size()) || constant->rank() < 2) {
      continue;
    }
    const double share = constant->type() == numeric::DataType::kInt4   ? 1.0
                         : constant->type() == numeric::DataType::kInt8 ? 1.0 / 16
                                                                        : 0.0;
    squares += std::pow(share * alone.at(constant->size()), 2);
  }
  return std::sqrt(squares);
}

class WeightMixTest : public ::testing::Test {
 protected:
  WeightMix mixed(std::map<std::int64_t, double> alone, double limit) {
    WeightMixOptions options;
    options.narrow = {WeightFormat::kInt4, {compress::Granularity::Kind::kAxis, 0}, {}};
    options.wide = {WeightFormat::kInt8, {}, {}};
    options.rough_loss = [=](const graph::Model& quantized) { return loss_of(quantized, alone); };
    options.loss = [this, alone, limit](const graph::Model& quantized) {
      ++measured_;
      const double loss = loss_of(quantized, alone);
      return std::pair{loss, loss <= limit};
    };
    const auto log = make_null_logger();
    const auto progress = make_null_progress();
    return mix_weights(model(), compress::find_layers(model().graph), options, {*log, *progress, {}});
  }

  static std::vector<WeightFormat> formats(const WeightMix& mix) {
    std::vector<WeightFormat> found;
    for (const compress::Layer& layer : compress::find_layers(model().graph)) {
      const auto planned = mix.plan.find(layer.name);
      found.push_back(planned == mix.plan.end() ? WeightFormat::kFloat : planned->second.weights);
    }
    return found;
  }

  int measured_ = 0;
};

TEST_F(WeightMixTest, KeepsAllNarrowWhereTheBudgetAllows) {
  const WeightMix mix = mixed({{64, 0.02}, {128, 0.02}, {256, 0.02}}, 0.05);
  EXPECT_THAT(formats(mix), ElementsAre(WeightFormat::kInt4, WeightFormat::kInt4, WeightFormat::kInt4));
  EXPECT_TRUE(mix.within);
  EXPECT_EQ(mix.alone.size(), 3U);
}

TEST_F(WeightMixTest, WidensWhatGainsMostForAByte) {
  // Losses of 0.08 and 0.09: the smaller layer gains more a byte, and one of the two is enough for a limit of 0.095.
  const WeightMix mix = mixed({{64, 0.08}, {128, 0.001}, {256, 0.09}}, 0.095);
  EXPECT_THAT(formats(mix), ElementsAre(WeightFormat::kInt8, WeightFormat::kInt4, WeightFormat::kInt4));
  EXPECT_TRUE(mix.within);
  EXPECT_LE(mix.loss, 0.095);
  EXPECT_LE(measured_, 4) << "bisection, not one by one";
}

TEST_F(WeightMixTest, ASensitiveLayerGoesToFloatWhileOthersStayNarrow) {
  const WeightMix mix = mixed({{64, 1.6}, {128, 0.01}, {256, 0.02}}, 0.05);
  EXPECT_THAT(formats(mix), ElementsAre(WeightFormat::kFloat, WeightFormat::kInt4, WeightFormat::kInt4))
      << "int8 would still lose 0.1";
  EXPECT_TRUE(mix.within);
}

TEST_F(WeightMixTest, SaysWhenNothingHoldsTheBudget) {
  const WeightMix mix = mixed({{64, 0.1}, {128, 0.1}, {256, 0.1}}, -1.0);
  EXPECT_THAT(formats(mix), ElementsAre(WeightFormat::kFloat, WeightFormat::kFloat, WeightFormat::kFloat));
  EXPECT_FALSE(mix.within);
}

}  // namespace
}  // namespace tempera::optimize
