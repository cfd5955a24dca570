// Graphs that have broken other optimisers, small: through the whole pipeline, against the interpreter on the graph as it
// was, in every precision of the engine.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tempera/base/random.h"
#include "tempera/engine/openvino/openvino_engine.h"
#include "tempera/engine/torch/torch_engine.h"
#include "tempera/graph/tensor_error.h"
#include "tempera/numeric/convert.h"
#include "tempera/onnx/infer.h"
#include "tempera/onnx/text.h"
#include "tempera/pass/runner.h"

namespace tempera {
namespace {

using engine::Precision;
using graph::DataType;
using graph::Dims;
using graph::Tensor;

constexpr float kInf = std::numeric_limits<float>::infinity();

struct Trouble {
  const char* name;
  const char* graph;
  std::vector<std::string> weights;                ///< inputs that become initialisers of random numbers
  std::function<void(graph::Graph&)> change = {};  ///< what the text cannot say
  double sigma = 1.0;                              ///< of the random inputs
  bool openvino = true;                            ///< OpenVINO can run it at all
};

void PrintTo(const Trouble& trouble, std::ostream* os) { *os << trouble.name; }

void set_mask(graph::Graph& graph, float blocked) {
  graph.set_constant(*graph.find_value("mask"), Tensor::from<float>({1, 4}, {0.0F, blocked, 0.0F, blocked}));
}

const std::vector<Trouble>& troubles() {
  static const std::vector<Trouble> kTroubles = {
      {"AnInitialiserIsAnOutputToo",
       "g (float[N,3] x) => (float[N,3] y, float[3] w) <float[3] w = {1.0, 2.0, 3.0}> { p = Mul(x, w) y = Neg(p) }",
       {}},
      {"WeightsNamedBAndB0",
       R"(g (float[1,4,6,6] x, float[4,4,1,1] b, float[4,4,1,1] b0, float[4,4,1,1] b_1) => (float[1,4,6,6] y)
          <float two = {2.0}> {
            p = Conv(x, b) q = Mul(p, two) r = Conv(q, b0) s = Mul(r, two) t = Conv(s, b_1) y = Mul(t, two) })",
       {"b", "b0", "b_1"}},
      {"BatchNormBeforeAConvolutionWithPadding",
       R"(g (float[1,4,6,6] x, float[4] s, float[4] b, float[4] m, float[4] w, float[5,4,3,3] k) => (float[1,5,6,6] y) {
            v = Mul(w, w) n = BatchNormalization(x, s, b, m, v) y = Conv<pads = [1,1,1,1]>(n, k) })",
       {"s", "b", "m", "w", "k"}},
      {"BatchNormBehindAGroupedConvTranspose",
       R"(g (float[1,4,5,5] x, float[4,3,2,2] k, float[6] s, float[6] b, float[6] m, float[6] w) => (float[1,6,10,10] y) {
            v = Mul(w, w) c = ConvTranspose<group = 2, strides = [2,2]>(x, k) y = BatchNormalization(c, s, b, m, v) })",
       {"k", "s", "b", "m", "w"}},
      {"BatchNormOnSharedWeights",
       R"(g (float[1,4,6,6] x, float[4,4,1,1] k, float[4] s, float[4] b, float[4] m, float[4] w) => (float[1,4,6,6] y) {
            v = Mul(w, w) c = Conv(x, k) n = BatchNormalization(c, s, b, m, v) y = Conv(n, k) })",
       {"k", "s", "b", "m", "w"}},
      {"GemmBiasOfOneElement",
       "g (float[3,4] x, float[4,5] w, float[1] c, float[5] s) => (float[3,5] y) { p = Gemm(x, w, c) y = Mul(p, s) }",
       {"w", "c", "s"}},
      {"GemmBiasOfOneRow",
       "g (float[3,4] x, float[4,5] w, float[1,5] c, float[5] s) => (float[3,5] y) { p = Gemm(x, w, c) y = Mul(p, s) }",
       {"w", "c", "s"}},
      {"OnePadForTwoConvolutions",
       R"(g (float[1,2,5,5] x, float[3,2,3,3] k, float[3,2,3,3] l) => (float[1,3,5,5] y)
          <int64[8] pads = {0,0,1,1,0,0,1,1}> { p = Pad(x, pads) a = Conv(p, k) b = Conv(p, l) y = Sub(a, b) })",
       {"k", "l"}},
      {"SlicesWithNegativeSteps",
       R"(g (float[1,9] x) => (float[1,2] y)
          <int64[1] a = {-2}, int64[1] z = {-10}, int64[1] s = {-3}, int64[1] one = {1}, int64[1] b = {0}, int64[1] e = {2},
           int64[1] step = {1}> { p = Slice(x, a, z, one, s) y = Slice(p, b, e, one, step) })",
       {}},
      {"OneShapeForTwoReshapes",
       R"(g (float[N,4,6] x) => (float[N,24] y, float[N,24] z) <int64[1] first = {0}, int64[1] rest = {-1}> {
            s = Shape(x) n = Gather<axis = 0>(s, first) t = Concat<axis = 0>(n, rest) y = Reshape(x, t)
            m = Neg(x) z = Reshape(m, t) })",
       {}},
      {"AMaskOfInfinity",
       "g (float[2,4] x) => (float[2,4] y) <float[1,4] mask = {0,0,0,0}> { s = Add(x, mask) y = Softmax(s) }",
       {},
       [](graph::Graph& graph) { set_mask(graph, -kInf); }},
      {"AMaskBeyondHalfPrecision",
       "g (float[2,4] x) => (float[2,4] y) <float[1,4] mask = {0,0,0,0}> { s = Add(x, mask) y = Softmax(s) }",
       {},
       [](graph::Graph& graph) { set_mask(graph, -1e12F); }},
      {"ResizeByScales",
       R"(g (float[1,2,5,7] x) => (float[1,2,11,10] y) <float[4] scales = {1.0, 1.0, 2.2857143, 1.4444444}> {
            y = Resize<mode = "linear", coordinate_transformation_mode = "half_pixel">(x, , scales) })",
       {}},
      {"ResizeByARegion",
       R"(g (float[1,2,6,6] x) => (float[1,2,4,4] y)
          <float[8] roi = {0.0, 0.0, 0.2, 0.1, 1.0, 1.0, 0.9, 0.8}, int64[4] sizes = {1, 2, 4, 4}> {
            y = Resize<mode = "linear", coordinate_transformation_mode = "tf_crop_and_resize">(x, roi, , sizes) })",
       {},
       {},
       1.0,
       false},
      {"ALayerNormWrittenOutOfLargeValues",
       R"(g (float[3,64] x, float[64] g1, float[64] b1) => (float[3,64] y) <int64[1] last = {-1}, float eps = {0.00001}> {
            m = ReduceMean(x, last) d = Sub(x, m) q = Mul(d, d) v = ReduceMean(q, last) w = Add(v, eps) s = Sqrt(w)
            n = Div(d, s) p = Mul(n, g1) y = Add(p, b1) })",
       {"g1", "b1"},
       {},
       300.0},
      {"DynamicBatchAndSize",
       R"(g (float[N,4,H,W] x, float[12,4,1,1] k) => (float[N,4,H,W] y) <int64[2] head = {0, 4}, int64[1] rest = {-1}> {
            c = Conv(x, k) q, r, v = Split<axis = 1, num_outputs = 3>(c) s = Shape(q) t = Concat<axis = 0>(head, rest)
            f = Reshape(q, t) a = Softmax(f) u = Reshape(a, s) b = Mul(u, r) y = Add(b, v) })",
       {"k"}},
  };
  return kTroubles;
}

Tensor random_tensor(const Dims& dims, double sigma, std::uint64_t seed) {
  const CounterRng rng(seed);
  std::vector<float> values(static_cast<std::size_t>(graph::element_count(dims)));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(sigma * rng.normal(i));
  }
  return Tensor::from<float>(dims, std::span<const float>(values));
}

graph::Model build(const Trouble& trouble) {
  graph::Model model = onnx::parse_graph(trouble.graph, 18);
  graph::Graph& graph = model.graph;
  for (std::size_t i = 0; i < trouble.weights.size(); ++i) {
    const graph::ValueId id = graph.find_value(trouble.weights[i]).value();
    const auto& inputs = graph.inputs();
    const Dims dims = graph.value(id).type.dims().value();
    graph.remove_input(static_cast<std::size_t>(std::find(inputs.begin(), inputs.end(), id) - inputs.begin()));
    graph.set_constant(id, random_tensor(dims, 1.0, 100 + i));
  }
  if (trouble.change) {
    trouble.change(graph);
  }
  onnx::infer_types(model);
  onnx::check_model(model);
  return model;
}

// Symbolic sizes become `size`, `size` + 1, .. in order.
std::vector<Tensor> inputs_of(const graph::Graph& graph, double sigma, std::int64_t size) {
  std::vector<Tensor> inputs;
  for (const graph::ValueId id : graph.inputs()) {
    Dims dims;
    for (const graph::Dim& dim : *graph.value(id).type.shape) {
      dims.push_back(dim.fixed() ? dim.value : size++);
    }
    inputs.push_back(random_tensor(dims, sigma, 7));
  }
  return inputs;
}

// Rounding of a few layers in the precision; a wrong rewrite gives errors near 1.
double tolerance_of(Precision precision) {
  switch (precision) {
    case Precision::kFloat32: return 1e-5;
    case Precision::kFloat16: return 1e-2;
    case Precision::kBfloat16: return 5e-2;
  }
  return 0.0;
}

class TroublemakerTest : public testing::TestWithParam<Trouble> {};

TEST_P(TroublemakerTest, StaysRightInEveryPrecision) {
  const graph::Model before = build(GetParam());
  graph::Model after = before;
  const auto evaluator = engine::make_torch_evaluator();
  pass::RunOptions options;
  options.context.evaluator = evaluator.get();
  options.context.target_engine = "openvino";
  pass::run_passes(after, options);
  onnx::check_model(after);
  const auto interpreter = engine::make_torch_engine();
  const auto openvino = engine::make_openvino_engine();
  EXPECT_EQ(openvino->unsupported(after).empty(), GetParam().openvino);
  for (const std::int64_t size : {2, 5}) {
    const std::vector<Tensor> inputs = inputs_of(before.graph, GetParam().sigma, size);
    const std::vector<Tensor> expected = interpreter->compile(before, {})->run(inputs);
    const auto expect_near = [&](const std::vector<Tensor>& outputs, double tolerance, const std::string& how) {
      ASSERT_EQ(outputs.size(), expected.size());
      for (std::size_t i = 0; i < outputs.size(); ++i) {
        const graph::TensorError error = graph::tensor_error(expected[i], outputs[i]);
        EXPECT_EQ(error.mismatch, "") << how;
        EXPECT_EQ(error.non_finite_a, 0) << "the fixture itself is not finite";
        EXPECT_LE(error.relative_l2, tolerance) << how << ", output " << i << "\n" << onnx::print_text(after);
      }
    };
    expect_near(interpreter->compile(after, {})->run(inputs), 1e-5, "interpreter");
    for (const Precision precision : openvino->attributes().precisions) {
      if (!GetParam().openvino) {
        continue;
      }
      engine::CompileOptions compile;
      compile.precision = precision;
      expect_near(openvino->compile(after, compile)->run(inputs), tolerance_of(precision),
                  fmt::format("openvino {}", engine::to_string(precision)));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, TroublemakerTest, testing::ValuesIn(troubles()),
                         [](const auto& trouble) { return std::string(trouble.param.name); });

TEST(TroublemakerShapeTest, DynamicSizesStayDynamic) {
  graph::Model model = build(troubles().back());
  const auto evaluator = engine::make_torch_evaluator();
  pass::RunOptions options;
  options.context.evaluator = evaluator.get();
  options.context.target_engine = "openvino";
  pass::run_passes(model, options);
  for (const auto& ids : {model.graph.inputs(), model.graph.outputs()}) {
    const graph::Shape& shape = model.graph.value(ids.at(0)).type.shape.value();
    EXPECT_EQ(shape.at(0).symbol, "N");
    EXPECT_EQ(shape.at(2).symbol, "H");
    EXPECT_EQ(shape.at(3).symbol, "W");
  }
}

}  // namespace
}  // namespace tempera
