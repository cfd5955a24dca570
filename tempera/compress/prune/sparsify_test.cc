#include "tempera/compress/prune/sparsify.h"

#include <array>

#include "tempera/pass/testing.h"
#include "tempera/pass/weights.h"

namespace tempera::compress {
namespace {

using pass::testing::parse;
using Pattern = SparsifyOptions::Pattern;

graph::Model two_products() {
  return parse(R"(
    g (float[1,4] x) => (float[1,2] y)
      <float[4,4] w = {1, -2, 3, -4, 5, 6, 7, 8, 0.5, 0, -0.25, 9, 9, 9, 9, 9}, float[4,2] v = {2, 2, 2, 2, 2, 2, 2, 2}> {
      a = MatMul(x, w)
      y = MatMul(a, v)
    })",
               17);
}

std::vector<float> weight(const graph::Model& model, std::string_view name) {
  const graph::Tensor tensor = model.graph.constant(model.graph.find_value(name).value()).value();
  return {tensor.values<float>().begin(), tensor.values<float>().end()};
}

TEST(SparsifyTest, GlobalTakesTheSmallestOfAllAndTiesInOrder) {
  SparsifyOptions options;
  options.sparsity = 7.0 / 24.0;  // 0, .25, .5, 1, and of the nine twos the first three
  const Sparsified sparse = sparsify(two_products(), options);
  EXPECT_EQ(sparse.zeros_before, 1);
  EXPECT_EQ(sparse.zeros_after, 7);
  EXPECT_EQ(sparse.weights, 24);
  EXPECT_THAT(weight(sparse.model, "w"),
              ::testing::ElementsAre(0, 0, 3, -4, 5, 6, 7, 8, 0, 0, 0, 9, 9, 9, 9, 9));
  EXPECT_THAT(weight(sparse.model, "v"), ::testing::ElementsAre(0, 0, 2, 2, 2, 2, 2, 2));
  EXPECT_EQ(sparse.layers[0].zeros_after, 5);
  EXPECT_EQ(sparse.layers[1].zeros_after, 2);
}

TEST(SparsifyTest, PerLayerIsExactInEachAndRoundsHalfUp) {
  SparsifyOptions options;
  options.pattern = Pattern::kPerLayer;
  options.sparsity = 0.3125;  // 5 of 16, 2.5 of 8
  const Sparsified sparse = sparsify(two_products(), options);
  EXPECT_EQ(sparse.layers[0].zeros_after, 5);
  EXPECT_EQ(sparse.layers[1].zeros_after, 3);
}

TEST(SparsifyTest, BothEndsOfTheRange) {
  SparsifyOptions options;
  options.sparsity = 0.0;
  EXPECT_EQ(sparsify(two_products(), options).zeros_after, 1);
  options.sparsity = 1.0;
  EXPECT_EQ(sparsify(two_products(), options).zeros_after, 24);
  options.sparsity = 1.0001;
  EXPECT_THROW((void)sparsify(two_products(), options), Error);
  options.sparsity = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THROW((void)sparsify(two_products(), options), Error);
}

TEST(SparsifyTest, TwoOfFourRunsAlongTheAxisThatIsSummedOver) {
  SparsifyOptions options;
  options.pattern = Pattern::kNOfM;
  const Sparsified sparse = sparsify(two_products(), options);
  // Columns of w: (1 5 .5 9), (-2 6 0 9), (3 7 -.25 9), (-4 8 9 9); in the last the two nines stay.
  EXPECT_THAT(weight(sparse.model, "w"),
              ::testing::ElementsAre(0, 0, 0, 0, 5, 6, 7, 0, 0, 0, 0, 9, 9, 9, 9, 9));
  EXPECT_EQ(sparse.zeros_after, 12);
}

TEST(SparsifyTest, ConvolutionsCountAlongInputChannelsAndRaggedOnesAreLeft) {
  const graph::Model model = parse(R"(
    g (float[1,3,4,4] x, float[8,3,1,1] w, float[6,8,3,3] v) => (float[1,6,2,2] y) {
      a = Conv(x, w)
      y = Conv(a, v)
    })",
                                   17, {"w", "v"});
  SparsifyOptions options;
  options.pattern = Pattern::kNOfM;
  options.n = 1;
  const Sparsified sparse = sparsify(model, options);
  EXPECT_EQ(sparse.layers[0].skipped, "sums over 3 numbers, no multiple of 4");
  EXPECT_EQ(sparse.layers[0].zeros_after, 0);
  EXPECT_EQ(sparse.layers[1].zeros_after, 6 * 8 * 9 * 3 / 4);
  const std::vector<float> v = weight(sparse.model, "v");  // [6,8,3,3]
  for (std::size_t out = 0; out < 6; ++out) {
    for (std::size_t place = 0; place < 9; ++place) {
      for (std::size_t block = 0; block < 2; ++block) {
        int kept = 0;
        for (std::size_t k = 0; k < 4; ++k) {
          kept += v[(out * 8 + 4 * block + k) * 9 + place] != 0.0F ? 1 : 0;
        }
        EXPECT_EQ(kept, 1);
      }
    }
  }
}

TEST(SparsifyTest, AWeightAndItsTransposedCopyGetTheSameZerosAndCountOnce) {
  graph::Model model = parse(R"(
    g (float[5,3] x, float[3,4] w, float[4,3] t) => (float[5,3] y) {
      a = MatMul(x, w)
      b = Tanh(a)
      y = MatMul(b, t)
    })",
                             17, {"w", "t"});
  const graph::Tensor w = model.graph.constant(model.graph.find_value("w").value()).value();
  model.graph.set_constant(model.graph.find_value("t").value(),
                           pass::transpose_tensor(w, std::array<std::int64_t, 2>{1, 0}));
  SparsifyOptions options;
  options.sparsity = 0.5;
  const Sparsified sparse = sparsify(model, options);
  EXPECT_EQ(sparse.weights, 12);
  EXPECT_EQ(sparse.zeros_after, 6);
  const std::vector<float> a = weight(sparse.model, "w");
  const std::vector<float> b = weight(sparse.model, "t");
  for (std::size_t i = 0; i < 3; ++i) {
    for (std::size_t j = 0; j < 4; ++j) {
      EXPECT_EQ(a[i * 4 + j], b[j * 3 + i]);
    }
  }
}

TEST(SparsifyTest, OneWeightInManyLayersIsPrunedOnce) {
  const graph::Model model = parse(R"(
    g (float[1,4] x, float[4,4] w) => (float[1,4] y) {
      a = MatMul(x, w)
      y = MatMul(a, w)
    })",
                                   17, {"w"});
  SparsifyOptions options;
  options.sparsity = 0.25;
  const Sparsified sparse = sparsify(model, options);
  EXPECT_EQ(sparse.weights, 16);
  EXPECT_EQ(sparse.zeros_after, 4);
}

TEST(SparsifyTest, NamesTheLayerOfANan) {
  graph::Model model = two_products();
  std::vector<float> numbers(16, std::numeric_limits<float>::quiet_NaN());
  model.graph.set_constant(model.graph.find_value("w").value(),
                           graph::Tensor::from<float>({4, 4}, std::span<const float>(numbers)));
  try {
    (void)sparsify(model, {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "a weight of layer 'a' is NaN and has no magnitude");
  }
}

TEST(SparsifyTest, IgnoredLayersStayAndUnknownNamesAreRefused) {
  SparsifyOptions options;
  options.sparsity = 0.5;
  options.ignore = {"a"};
  const Sparsified sparse = sparsify(two_products(), options);
  EXPECT_EQ(sparse.weights, 8);
  EXPECT_EQ(sparse.layers[0].zeros_after, 1);
  EXPECT_EQ(sparse.layers[1].zeros_after, 4);
  options.ignore = {"b"};
  EXPECT_THROW((void)sparsify(two_products(), options), Error);
}

}  // namespace
}  // namespace tempera::compress
