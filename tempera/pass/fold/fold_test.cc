#include "tempera/ops/access.h"
#include "tempera/pass/fold/constants.h"
#include "tempera/pass/fold/shapes.h"
#include "tempera/pass/testing.h"

namespace tempera::pass {
namespace {

using graph::Dims;
using testing::count;
using testing::expect_untouched;
using testing::only;
using testing::parse;
using testing::run;

Dims target(const graph::Model& model) {
  return ops::constant_ints(model.graph, model.graph.input(only(model, "Reshape"), 1)).value_or(Dims{-999});
}

// What exporters write for x.reshape(batch, channels, height * width).
constexpr std::string_view kFlatten = R"(
  g (float[N,4,6,5] x) => (float[A,B,C] y)
  <int64 zero = {0}, int64 one = {1}, int64 two = {2}, int64 three = {3}, int64[1] axis = {0}> {
    s = Shape(x)
    n = Gather(s, zero)  c = Gather(s, one)  h = Gather(s, two)  w = Gather(s, three)
    hw = Mul(h, w)
    n1 = Unsqueeze(n, axis)  c1 = Unsqueeze(c, axis)  hw1 = Unsqueeze(hw, axis)
    t = Concat<axis = 0>(n1, c1, hw1)
    y = Reshape(x, t)
  })";

TEST(FoldShapesTest, KeepsADynamicBatch) {
  graph::Model model = parse(kFlatten);
  run(fold_shapes, model);
  EXPECT_EQ(target(model), (Dims{0, 4, 30}));
  EXPECT_EQ(count(model, "Shape"), 0);
}

// PyTorch's newer exporter marks every Reshape: a zero in its target would be a size, not a copy.
TEST(FoldShapesTest, CopiesAlsoWhereZeroWasASize) {
  std::string text(kFlatten);
  text.replace(text.find("Reshape(x"), 9, "Reshape<allowzero = 1>(x");
  graph::Model model = parse(text);
  run(fold_shapes, model);
  EXPECT_EQ(target(model), (Dims{0, 4, 30}));
  EXPECT_FALSE(model.graph.has_attribute(only(model, "Reshape"), "allowzero"));
}

TEST(FoldShapesTest, KeepsDynamicHeightAndWidth) {
  graph::Model model = parse(R"(
    g (float[N,4,H,W] x) => (float[A,B,C] y) <int64 one = {1}, int64[1] axis = {0}, int64[1] rest = {-1}> {
      s = Shape(x)
      n = Shape<start = 0, end = 1>(x)
      c = Gather(s, one)
      c1 = Unsqueeze(c, axis)
      t = Concat<axis = 0>(n, c1, rest)
      y = Reshape(x, t)
    })");
  run(fold_shapes, model);
  EXPECT_EQ(target(model), (Dims{0, 4, -1}));
}

TEST(FoldShapesTest, TwoUnknownSizesStay) {
  graph::Model model = parse(R"(
    g (float[N,4,H,W] x) => (float[A,B] y) <int64 zero = {0}, int64 two = {2}, int64[1] axis = {0}> {
      s = Shape(x)
      n = Gather(s, two)  h = Gather(s, zero)
      n1 = Unsqueeze(n, axis)  h1 = Unsqueeze(h, axis)
      t = Concat<axis = 0>(n1, h1)
      y = Reshape(x, t)
    })");
  EXPECT_THAT(expect_untouched(fold_shapes, model), ::testing::HasSubstr("more than one element"));
}

// One computed shape read by two Reshapes of different inputs.
TEST(FoldShapesTest, OneConcatForTwoReshapes) {
  graph::Model model = parse(R"(
    g (float[2,12] x, float[3,8] z) => (float[A,B] y, float[C,D] v) <int64[1] six = {6}, int64 zero = {0}, int64[1] axis = {0}, int64 two = {2}> {
      s = Shape(x)
      n = Gather(s, zero)
      m = Mul(n, two)
      m1 = Unsqueeze(m, axis)
      t = Concat<axis = 0>(m1, six)
      y = Reshape(x, t)
      v = Reshape(z, t)
    })");
  run(fold_shapes, model);
  EXPECT_EQ(model.graph.node_count(), 2U);
  EXPECT_EQ(ops::dims_of(model.graph, *model.graph.find_value("v")), (Dims{4, 6}));
}

// torch.expand: Where(Equal(s, -1), Shape(x), s).
TEST(FoldShapesTest, ExpandIdiom) {
  graph::Model model = parse(R"(
    g (float[1,4,1,1] x) => (float[A,B,C,D] y)
    <int64[4] wanted = {-1, 4, 6, 6}, int64[4] minus = {-1, -1, -1, -1}, int64[1] four = {4}> {
      ones = ConstantOfShape<value = int64[1] {1}>(four)
      use = Equal(wanted, minus)
      t = Where(use, ones, wanted)
      y = Expand(x, t)
    })");
  run(fold_shapes, model);
  EXPECT_EQ(model.graph.node_count(), 1U);
  EXPECT_EQ(ops::dims_of(model.graph, model.graph.outputs()[0]), (Dims{1, 4, 6, 6}));
}

TEST(FoldShapesTest, AGraphOutputStaysComputed) {
  graph::Model model = parse("g (float[2,3] x) => (int64[2] s) { s = Shape(x) }");
  EXPECT_THAT(expect_untouched(fold_shapes, model), ::testing::HasSubstr("graph output"));
}

TEST(FoldShapesTest, DivisionByZeroStays) {
  graph::Model model = parse(R"(g (float[3] x) => (int64 b2) <int64 zero = {0}, int64 two = {2}> {
      b = Div(two, zero)
      b2 = Abs(b) })");
  expect_untouched(fold_shapes, model);
}

// Counts its calls; adds two floats, and knows nothing else.
class FakeEvaluator : public engine::Evaluator {
 public:
  std::optional<std::vector<graph::Tensor>> evaluate(const graph::Node& node, std::int64_t,
                                                     std::span<const graph::Tensor> inputs) const override {
    ++calls;
    if (node.op_type != "Add") {
      return std::nullopt;
    }
    std::vector<float> sum;
    for (std::size_t i = 0; i < inputs[0].values<float>().size(); ++i) {
      sum.push_back(inputs[0].values<float>()[i] + inputs[1].values<float>()[i]);
    }
    return std::vector{graph::Tensor::from<float>(inputs[0].dims(), std::span<const float>(sum))};
  }
  mutable int calls = 0;
};

TEST(FoldConstantsTest, ChainsFoldInOneRun) {
  const FakeEvaluator evaluator;
  PassContext context;
  context.evaluator = &evaluator;
  graph::Model model = parse(R"(g (float[2] x) => (float[2] y) <float[2] a = {1, 2}, float[2] b = {3, 4}> {
      c = Add(a, b)  d = Add(c, a)  y = Mul(x, d) })");
  EXPECT_EQ(run(fold_constants, model, context).rewrites.size(), 2U);
  EXPECT_EQ(model.graph.node_count(), 1U);
  const auto folded = model.graph.constant(model.graph.input(only(model, "Mul"), 1));
  EXPECT_EQ(to_doubles(*folded), (std::vector<double>{5, 8}));
}

TEST(FoldConstantsTest, LeavesWhatItMust) {
  const FakeEvaluator evaluator;
  PassContext context;
  context.evaluator = &evaluator;
  graph::Model output = parse("g (float[2] x) => (float[2] y, float[2] z) <float[2] a = {1, 2}> { y = Add(a, a)  z = Add(x, y) }");
  EXPECT_THAT(expect_untouched(fold_constants, output, context), ::testing::HasSubstr("graph output"));
  graph::Model random = parse("g (float[2] x) => (float[2] y) <float[2] a = {1, 2}> { r = RandomNormalLike(a)  y = Add(x, r) }");
  expect_untouched(fold_constants, random, context);
  graph::Model large = parse("g (float[2] x) => (float[300,300,2] y) <float[2] a = {1, 2}, int64[3] s = {300, 300, 2}> { r = Expand(a, s)  y = Add(x, r) }");
  EXPECT_THAT(expect_untouched(fold_constants, large, context), ::testing::HasSubstr("bytes"));
  EXPECT_EQ(evaluator.calls, 0);
  graph::Model unknown = parse("g (float[2] x) => (float[2] y) <float[2] a = {1, 2}> { r = Exp(a)  y = Add(x, r) }");
  EXPECT_THAT(expect_untouched(fold_constants, unknown, context), ::testing::HasSubstr("does not compute"));
}

}  // namespace
}  // namespace tempera::pass
