// Attention and recurrent layers.
#include <cmath>

#include "tempera/engine/torch/kernels/kernel_testing.h"

namespace tempera::engine::aten::testing {
namespace {

TEST(Attention, CacheGivesWhatTheWholeSequenceGives) {
  const at::Tensor q = counting({1, 2, 4, 3}).sin();
  const at::Tensor k = counting({1, 1, 4, 3}).cos();
  const at::Tensor v = counting({1, 1, 4, 2}).mul(0.7).sin();
  const Attributes causal{{"is_causal", std::int64_t{1}}};
  const at::Tensor all = run_tensor("Attention", {q, k, v}, causal);
  const at::Tensor none;
  const at::Tensor rest = run_tensor(
      "Attention", {q.slice(2, 3), k.slice(2, 3), v.slice(2, 3), none, k.slice(2, 0, 3), v.slice(2, 0, 3)},
      causal);
  EXPECT_TRUE(near(rest, all.slice(2, 3), 1e-6));
  EXPECT_TRUE(
      near(all.select(2, 0), v.select(2, 0).expand({1, 2, 2}), 1e-6));  // the first query sees one key
}

TEST(Attention, AQueryThatSeesNothingGivesZero) {
  const at::Tensor x = at::ones({1, 1, 2, 2});
  const at::Tensor mask = at::tensor({1, 0, 0, 0}, at::kInt).to(at::kBool).reshape({2, 2});
  EXPECT_TRUE(near(run_tensor("Attention", {x, x, x, mask}), floats({1, 1, 0, 0}, {1, 1, 2, 2})));
}

TEST(RotaryEmbedding, AQuarterTurn) {
  const at::Tensor x = floats({1, 2, 3, 4}, {1, 1, 1, 4});
  const at::Tensor cosine = at::zeros({1, 1, 2});
  const at::Tensor sine = at::ones({1, 1, 2});
  EXPECT_TRUE(near(run_tensor("RotaryEmbedding", {x, cosine, sine}), floats({-3, -4, 1, 2}, {1, 1, 1, 4})));
  EXPECT_TRUE(near(run_tensor("RotaryEmbedding", {x, cosine, sine}, {{"interleaved", std::int64_t{1}}}),
                   floats({-2, 1, -4, 3}, {1, 1, 1, 4})));
}

TEST(LinearAttention, TheDeltaRuleReplacesWhatAKeyHolds) {
  // One head of one feature, beta 1 and |k| = 1: each step stores v alone.
  const at::Tensor ones = at::ones({1, 3, 1});
  const at::Tensor v = floats({5, -2, 8}, {1, 3, 1});
  const Attributes attributes{{"q_num_heads", std::int64_t{1}},
                              {"kv_num_heads", std::int64_t{1}},
                              {"update_rule", std::string("delta")}};
  EXPECT_TRUE(near(run_tensor("LinearAttention", {ones, ones, v, {}, {}, ones}, attributes), v));
}

TEST(TensorScatter, CircularWraps) {
  const at::Tensor cache = at::zeros({1, 3, 1});
  const at::Tensor y = run_tensor("TensorScatter", {cache, floats({1, 2}, {1, 2, 1}), integers({2})},
                                  {{"mode", std::string("circular")}});
  EXPECT_TRUE(near(y, floats({2, 0, 1}, {1, 3, 1})));
  EXPECT_THROW((void)run_tensor("TensorScatter", {cache, floats({1, 2}, {1, 2, 1}), integers({2})}), Error);
}

at::Tensor gates(std::initializer_list<float> values) {
  return at::tensor(std::vector<float>(values)).reshape({1, -1, 1});
}

TEST(Lstm, OneStepByHandWithPeepholes) {
  const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  const at::Tensor weight = gates({0.1F, 0.2F, 0.3F, 0.4F});  // i, o, f, c
  const at::Tensor none;
  const std::vector<Value> inputs{value(at::full({1, 1, 1}, 2.0F)),
                                  value(weight),
                                  value(gates({0, 0, 0, 0})),
                                  Value(),
                                  Value(),
                                  Value(),
                                  value(at::full({1, 1, 1}, 0.5F)),
                                  value(floats({1, 2, 3}, {1, 3}))};
  const double i = sigmoid(0.2 + 1 * 0.5);
  const double f = sigmoid(0.6 + 3 * 0.5);
  const double c = f * 0.5 + i * std::tanh(0.8);
  const double h = sigmoid(0.4 + 2 * c) * std::tanh(c);
  const auto outputs = run("LSTM", inputs, {{"hidden_size", std::int64_t{1}}}, 3);
  EXPECT_TRUE(near(outputs[1].array()->data, at::full({1, 1, 1}, static_cast<float>(h)), 1e-6));
  EXPECT_TRUE(near(outputs[2].array()->data, at::full({1, 1, 1}, static_cast<float>(c)), 1e-6));
  const auto coupled = run("LSTM", inputs, {{"input_forget", std::int64_t{1}}}, 3);
  EXPECT_TRUE(near(coupled[2].array()->data,
                   at::full({1, 1, 1}, static_cast<float>((1 - i) * 0.5 + i * std::tanh(0.8))), 1e-6));
}

TEST(Rnn, SequencesOfTheirOwnLengthInBothDirections) {
  const at::Tensor x = floats({1, 10, 2, 20, 3, 30}, {3, 2, 1});  // [T, N, I]
  const at::Tensor one = at::ones({2, 1, 1});
  const std::vector<Value> inputs{value(x), value(one), value(one), Value(),
                                  value(at::tensor({3, 2}, at::kInt))};
  const Attributes attributes{{"direction", std::string("bidirectional")},
                              {"activations", std::vector<std::string>{"Affine", "Affine"}}};
  const auto outputs = run("RNN", inputs, attributes, 2);  // H_t = x_t + H: running sums
  EXPECT_TRUE(near(outputs[0].array()->data, floats({1, 10, 6, 30, 3, 30, 5, 20, 6, 0, 3, 0}, {3, 2, 2, 1})));
  EXPECT_TRUE(near(outputs[1].array()->data, floats({6, 30, 6, 30}, {2, 2, 1})));
}

TEST(Rnn, ClipBoundsWhatActivationsSee) {
  const at::Tensor x = at::full({1, 1, 1}, 5.0F);
  const at::Tensor one = at::ones({1, 1, 1});
  const Attributes attributes{{"clip", 2.0F}, {"activations", std::vector<std::string>{"LeakyRelu"}}};
  EXPECT_TRUE(near(run_tensor("RNN", {x, one, one}, attributes), at::full({1, 1, 1, 1}, 2.0F)));
  EXPECT_TRUE(near(run_tensor("RNN", {-x, one, one}, attributes), at::full({1, 1, 1, 1}, -0.02F), 1e-6));
}

TEST(Gru, ResetBeforeOrAfterTheLinearTerm) {
  const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  const at::Tensor recurrent = gates({0, 0.5F, 2});                // z, r, h
  const at::Tensor bias = floats({0, 0, 0, 0, 0, 0.25F}, {1, 6});  // Rb_h
  const at::Tensor state = at::full({1, 1, 1}, 3.0F);
  const std::vector<at::Tensor> inputs{at::zeros({1, 1, 1}), gates({0, 0, 0}), recurrent, bias, {}, state};
  const double r = sigmoid(1.5);
  const double before = 0.5 * std::tanh(r * 3 * 2 + 0.25) + 0.5 * 3;
  const double after = 0.5 * std::tanh(r * (3 * 2 + 0.25)) + 0.5 * 3;
  EXPECT_TRUE(near(run_tensor("GRU", inputs), at::full({1, 1, 1, 1}, static_cast<float>(before)), 1e-6));
  EXPECT_TRUE(near(run_tensor("GRU", inputs, {{"linear_before_reset", std::int64_t{1}}}),
                   at::full({1, 1, 1, 1}, static_cast<float>(after)), 1e-6));
}

}  // namespace
}  // namespace tempera::engine::aten::testing
