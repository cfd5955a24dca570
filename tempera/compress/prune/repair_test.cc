#include "tempera/compress/prune/repair.h"

#include "tempera/compress/prune/rows.h"
#include "tempera/compress/prune/test_support.h"

namespace tempera::compress {
namespace {

using testing::parse;

TEST(RepairTest, RidgeSolutionByHand) {
  // (A + I) X = B with A + I = [[4, 2], [2, 3]], X = [[1, 2], [-1, 0]].
  std::vector<double> a = {3, 2, 2, 2};
  std::vector<double> b = {2, 8, -1, 4};
  ASSERT_TRUE(solve_ridge(a, b, 2, 2, 1.0));
  EXPECT_THAT(b, ::testing::Pointwise(::testing::DoubleNear(1e-12), std::vector<double>{1, 2, -1, 0}));
  std::vector<double> singular = {1, 1, 1, 1};
  std::vector<double> any = {1, 1};
  EXPECT_FALSE(solve_ridge(singular, any, 2, 1, 0.0));
}

// A row times the columns of the weight is the output row: the definition of both.
void expect_rows_multiply(std::string_view text, const std::vector<std::string>& weights) {
  const graph::Model model = parse(text, 17, weights);
  const graph::NodeId node = model.graph.nodes().front();
  const graph::Tensor input = pass::testing::random_tensor(
      graph::DataType::kFloat32, model.graph.value(model.graph.inputs()[0]).type.dims().value(), 3);
  const graph::Tensor output = engine::make_torch_engine()->compile(model, {})->run(std::vector{input}).at(0);
  const RowForm form = row_form(model.graph, node, input.dims(), output.dims()).value();
  const std::vector<double> columns = weight_columns(model.graph, node);
  std::vector<float> x(static_cast<std::size_t>(form.inputs));
  std::vector<float> y(static_cast<std::size_t>(form.outputs));
  ASSERT_EQ(form.places * form.outputs, output.size());
  for (std::int64_t place = 0; place < form.places; ++place) {
    input_row(model.graph, node, input, output.dims(), place, x.data());
    output_row(model.graph, node, output, place, y.data());
    for (std::size_t o = 0; o < y.size(); ++o) {
      double sum = 0.0;
      for (std::size_t i = 0; i < x.size(); ++i) {
        sum += x[i] * columns[i * y.size() + o];
      }
      ASSERT_NEAR(sum, y[o], 1e-4) << "place " << place;  // float32 sums of some 20 products
    }
  }
  EXPECT_EQ(weight_from_columns(model.graph, node, columns),
            to_doubles(model.graph.constant(model.graph.input(node, 1)).value()));
}

TEST(RepairTest, RowsOfConvolutionsAndProducts) {
  expect_rows_multiply(R"(g (float[2,3,7,5] x, float[4,3,3,2] w) => (float[a,b,c,d] y) {
    y = Conv<strides = [2,1], dilations = [1,2], pads = [1,0,0,2]>(x, w) })",
                       {"w"});
  expect_rows_multiply(
      R"(g (float[2,3,4,4,4] x, float[4,3,1,2,2] w) => (float[a,b,c,d,e] y) { y = Conv(x, w) })", {"w"});
  expect_rows_multiply("g (float[5,6] x, float[4,6] w) => (float[5,4] y) { y = Gemm<transB = 1>(x, w) }",
                       {"w"});
  expect_rows_multiply("g (float[2,5,6] x, float[6,4] w) => (float[2,5,4] y) { y = MatMul(x, w) }", {"w"});
}

// Channels 4 to 7 are twice channels 0 to 3, plus a constant: without them the reader can do the same with
// other weights.
TEST(RepairTest, WhatOtherChannelsCarryIsMadeGoodExactly) {
  graph::Model model = parse(R"(
    g (float[1,2,6,6] x, float[8,2,1,1] w, float[8] b, float[3,8,3,3] v) => (float[1,3,4,4] y) {
      a = Conv(x, w, b)
      r = Relu(a)
      y = Conv(r, v)
    })",
                             17, {"w", "b", "v"});
  const graph::ValueId weight = model.graph.find_value("w").value();
  const graph::ValueId bias = model.graph.find_value("b").value();
  std::vector<double> w = to_doubles(model.graph.constant(weight).value());
  std::vector<double> b = to_doubles(model.graph.constant(bias).value());
  for (std::size_t channel = 0; channel < 4; ++channel) {
    w[(channel + 4) * 2] = 0.5 * w[channel * 2];
    w[(channel + 4) * 2 + 1] = 0.5 * w[channel * 2 + 1];
    b[channel + 4] = 0.5 * b[channel];
  }
  model.graph.set_constant(weight, pass::encode_weights(graph::DataType::kFloat32, {8, 2, 1, 1}, w).value());
  model.graph.set_constant(bias, pass::encode_weights(graph::DataType::kFloat32, {8}, b).value());
  // The reader weighs all alike, so that the halves are the least important.
  const std::vector<float> ones(3 * 8 * 9, 0.125F);
  model.graph.set_constant(model.graph.find_value("v").value(),
                           graph::Tensor::from<float>({3, 8, 3, 3}, std::span<const float>(ones)));

  ChannelOptions options;
  options.pruning_ratio = 0.5;
  ChannelPruned pruned = prune_channels(model, options);
  ASSERT_EQ(pruned.readers.size(), 1U);
  const NamedInputs inputs = [](std::size_t sample, const std::vector<std::string>&) {
    return std::vector{pass::testing::random_tensor(graph::DataType::kFloat32, {1, 2, 6, 6}, 50 + sample)};
  };
  RepairOptions fitting;
  fitting.ridge = 1e-9;
  const auto log = make_null_logger();
  const auto progress = make_null_progress();
  const Host host{*log, *progress, {}};
  const auto engine = engine::make_torch_engine();
  const auto evaluator = engine::make_torch_evaluator();
  const auto records =
      repair(model, pruned.model, pruned.readers, 24, inputs, *engine, *evaluator, fitting, host);
  ASSERT_EQ(records.size(), 1U);
  EXPECT_EQ(records[0].skipped, "");
  EXPECT_GT(records[0].error_before, 0.1);
  EXPECT_LT(records[0].error_after, 1e-3);
  onnx::check_model(pruned.model);
  // On inputs that were not fitted.
  const graph::Tensor x = pass::testing::random_tensor(graph::DataType::kFloat32, {1, 2, 6, 6}, 7);
  const std::vector<double> before = to_doubles(engine->compile(model, {})->run(std::vector{x}).at(0));
  const std::vector<double> after = to_doubles(engine->compile(pruned.model, {})->run(std::vector{x}).at(0));
  for (std::size_t i = 0; i < before.size(); ++i) {
    EXPECT_NEAR(before[i], after[i], 1e-3 * (1.0 + std::abs(before[i])));
  }
}

}  // namespace
}  // namespace tempera::compress
