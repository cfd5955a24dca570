#include "tempera/compress/quantize/hessians.h"

#include <vector>

#include <gtest/gtest.h>

#include "tempera/compress/quantize/weight_view.h"
#include "tempera/engine/torch/torch_engine.h"
#include "tempera/pass/testing.h"

namespace tempera::compress {
namespace {

using pass::testing::parse;
using pass::testing::random_tensor;

// w H w^T over all positions is the sum of the squared outputs, as the reference interpreter computes them.
void expect_energy_of_outputs(const char* text) {
  SCOPED_TRACE(text);
  const graph::Model model = parse(text, 17, {"w"});
  const Layer layer = find_layers(model.graph).at(0);
  HessianCollector collector(model.graph, {layer}, 1 << 20, 1);
  ASSERT_EQ(collector.tensors(), std::vector<std::string>{"x"});
  const graph::Tensor x = random_tensor(graph::DataType::kFloat32,
                                        model.graph.value(model.graph.inputs()[0]).type.dims().value(), 7);
  collector.add("x", x);
  collector.add("unknown", x);
  const Hessians hessians = collector.take();
  const Hessian& hessian = hessians.at(layer.name);

  engine::CompileOptions exact;
  exact.exact = true;
  const auto session = engine::make_torch_engine()->compile(model, exact);
  const std::vector<graph::Tensor> outputs = session->run(std::vector<graph::Tensor>{x});
  double energy = 0.0;
  for (const float y : outputs.at(0).values<float>()) {
    energy += static_cast<double>(y) * y;
  }
  const graph::Tensor weight = *model.graph.constant(layer.weight);
  const WeightView view = view_of(layer, weight.dims());
  const std::vector<float> rows = to_rows(view, {weight.values<float>().begin(), weight.values<float>().end()});
  double form = 0.0;
  for (std::int64_t row = 0; row < view.rows; ++row) {
    const std::int64_t group = row / (view.rows / hessian.groups);
    const std::vector<double>& moments = hessian.block_of(group, 0);
    for (std::int64_t i = 0; i < view.columns; ++i) {
      for (std::int64_t j = 0; j <= i; ++j) {  // the lower triangle
        const double term = static_cast<double>(rows[static_cast<std::size_t>(row * view.columns + i)]) *
                            rows[static_cast<std::size_t>(row * view.columns + j)] *
                            moments[static_cast<std::size_t>(i * view.columns + j)];
        form += i == j ? term : 2 * term;
      }
    }
  }
  EXPECT_NEAR(form, energy, 1e-5 * energy);  // float32 sums of up to 48 products
}

TEST(Hessians, QuadraticFormIsTheEnergyOfTheOutputs) {
  expect_energy_of_outputs("g (float[5,12] x, float[12,3] w) => (float[5,3] y) { [n] y = MatMul(x, w) }");
  expect_energy_of_outputs("g (float[2,5,12] x, float[12,3] w) => (float[2,5,3] y) { [n] y = MatMul(x, w) }");
  expect_energy_of_outputs("g (float[5,12] x, float[3,12] w) => (float[5,3] y) { [n] y = Gemm <transB = 1> (x, w) }");
  expect_energy_of_outputs("g (float[2,4,7,6] x, float[3,4,3,3] w) => (float[2,3,5,4] y) { [n] y = Conv(x, w) }");
  expect_energy_of_outputs(
      "g (float[2,4,7,6] x, float[6,2,3,2] w) => (float[2,6,4,5] y) { [n] y = Conv <group = 2, pads = [1, 0, 2, 1], "
      "strides = [2, 1], dilations = [1, 2]> (x, w) }");
  expect_energy_of_outputs("g (float[1,4,9] x, float[4,1,3] w) => (float[1,4,9] y) { [n] y = Conv <group = 4, pads = [1, 1]> (x, w) }");
  expect_energy_of_outputs("g (float[1,2,4,4,4] x, float[2,2,3,3,3] w) => (float[1,2,2,2,2] y) { [n] y = Conv(x, w) }");
}

TEST(Hessians, TakesAtMostSoManyVectorsAndTheSameForASeed) {
  const graph::Model model = parse("g (float[1,2,8,8] x, float[3,2,3,3] w) => (float[1,3,6,6] y) { [n] y = Conv(x, w) }", 17, {"w"});
  const auto collect = [&](std::uint64_t seed) {
    HessianCollector collector(model.graph, find_layers(model.graph), 10, seed);
    collector.add("x", random_tensor(graph::DataType::kFloat32, {1, 2, 8, 8}, 7));
    return collector.take().at("n");
  };
  EXPECT_EQ(collect(1).samples, 10);
  EXPECT_EQ(collect(1).blocks, collect(1).blocks);
  EXPECT_NE(collect(1).blocks, collect(2).blocks);
}

TEST(Hessians, LeavesOutWhatItsColumnsAreNot) {
  const graph::Model model = parse(R"(g (float[1,4,5,5] x, float[4,3,2,2] w, float[2,4,3] v, float[2,1,4] z) =>
      (float[1,3,6,6] y, float[2,1,3] u) {
      [transposed] y = ConvTranspose(x, w)
      [batch] u = MatMul(z, v) })", 17, {"w", "v"});
  EXPECT_TRUE(HessianCollector(model.graph, find_layers(model.graph), 10, 1).tensors().empty());
}

}  // namespace
}  // namespace tempera::compress
