#include "tempera/compress/quantize/refine.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tempera/compress/calibrate/test_support.h"
#include "tempera/compress/quantize/testing.h"
#include "tempera/engine/openvino/openvino_engine.h"

namespace tempera::compress {
namespace {

using graph::Model;
using testing::parse;

MemoryDataset samples_of(const Model& model, std::size_t count) {
  std::vector<std::vector<graph::Tensor>> inputs;
  for (std::size_t i = 0; i < count; ++i) {
    inputs.push_back(testing::random_inputs(model, 51 + 100 * i));
  }
  return MemoryDataset(std::move(inputs));
}

// Error of the first output on the last sample of a dataset whose first ones calibrate.
struct HeldOut {
  Model model;
  MemoryDataset data;

  [[nodiscard]] double operator()(const Model& quantized) const {
    const auto inputs = data.load(data.all().back()).inputs;
    return testing::relative_l2(testing::run(quantized, inputs)[0], testing::run(model, inputs)[0]);
  }
};

Refined refine(const HeldOut& held_out, const std::function<double(const Model&)>& loss,
               RangeMethod method = RangeMethod::kMinMax) {
  std::vector<std::size_t> samples = held_out.data.all();
  samples.pop_back();
  const auto engine = engine::make_openvino_engine();
  QuietHost quiet;
  RefineOptions settings;
  settings.calibrate.method = method;
  QuantizeOptions options;
  options.seven_bit_weights = true;
  return quantize_refined(held_out.model, testing::plan_all(held_out.model), options, held_out.data, samples,
                          *engine, settings, loss, quiet.host);
}

// The first convolution's channels differ a hundredfold, which equalising repairs.
HeldOut uneven() {
  Model model = parse(R"(g (float[1,3,8,8] x, float[6,3,3,3] w, float[4,6,3,3] v) => (float[1,4,4,4] y) {
      h = Conv(x, w)
      r = Relu(h)
      y = Conv(r, v) })",
                      21, {"w", "v"});
  graph::Graph& graph = model.graph;
  const graph::ValueId weight = *graph.find_value("w");
  std::vector<float> values(graph.constant(weight)->values<float>().begin(),
                            graph.constant(weight)->values<float>().end());
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] *= std::pow(2.5F, static_cast<float>(i / 27));
  }
  graph.set_constant(weight, graph::Tensor::from<float>({6, 3, 3, 3}, std::span<const float>(values)));
  MemoryDataset data = samples_of(model, 4);
  return {std::move(model), std::move(data)};
}

TEST(QuantizeRefined, KeepsWhatLowersTheLossAndNeverEndsAboveTheStart) {
  const HeldOut held_out = uneven();
  const Refined refined = refine(held_out, held_out);
  ASSERT_GE(refined.refinements.size(), 3U);
  EXPECT_EQ(refined.refinements[0].name, "none");
  EXPECT_EQ(refined.refinements[1].name, "bias correction");
  EXPECT_EQ(refined.refinements[2].name, "cross-layer equalisation");
  EXPECT_TRUE(refined.refinements[2].kept);
  double kept = refined.refinements[0].loss;
  for (const Refinement& refinement : refined.refinements) {
    if (refinement.kept) {
      EXPECT_LE(refinement.loss, kept) << refinement.name;
      kept = refinement.loss;
    }
  }
  EXPECT_DOUBLE_EQ(held_out(refined.quantized.model), kept)
      << "the model returned is the one that was measured";
}

TEST(QuantizeRefined, TriesRangesByOneMethodWhereEachTensorHadItsOwn) {
  const HeldOut held_out = uneven();
  // Each model has a lower loss than the one before, so that everything tried is kept.
  double loss = 10.0;
  const Refined refined = refine(held_out, [&](const Model&) { return loss -= 1.0; }, RangeMethod::kAuto);
  ASSERT_GE(refined.refinements.size(), 4U);
  EXPECT_EQ(refined.refinements[2].name, "minmax ranges");
  EXPECT_EQ(refined.refinements[3].name, "mse ranges");
  ASSERT_FALSE(refined.calibration.ranges.empty());
  for (const auto& [tensor, range] : refined.calibration.ranges) {
    EXPECT_EQ(range.method, RangeMethod::kMse) << tensor << ": the method kept last is used from then on";
  }
}

TEST(QuantizeRefined, TakesBackWhatDoesNotHelp) {
  const HeldOut held_out = uneven();
  int calls = 0;
  const Refined refined = refine(held_out, [&](const Model&) { return static_cast<double>(calls++); });
  for (std::size_t i = 0; i < refined.refinements.size(); ++i) {
    EXPECT_EQ(refined.refinements[i].kept, i == 0) << refined.refinements[i].name;
  }
  const Refined plain = refine(held_out, [](const Model&) { return 0.0; });
  EXPECT_TRUE(graph::same_graph(refined.quantized.model.graph, plain.quantized.model.graph));
}

}  // namespace
}  // namespace tempera::compress
