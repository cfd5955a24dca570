#include "tempera/onnx/infer.h"

#include "tempera/onnx/test_support.h"
#include "tempera/onnx/text.h"

namespace tempera::onnx {
namespace {

using graph::Graph;

std::string type_of(const graph::Model& model, std::string_view name) {
  return graph::to_string(value_of(model.graph, name).type);
}

TEST(Inference, FollowsShapesThroughShapeArithmetic) {
  graph::Model model = parse_graph(R"(
    g (float[n,3,8,8] x) => (float[p,q,r] y) <int64[1] tail = {-1}, int64[2] at = {0, 1}> {
      s = Shape(x)
      head = Gather(s, at)
      shape = Concat <axis = 0> (head, tail)
      y = Reshape(x, shape)
    })");
  infer_types(model);
  EXPECT_EQ(type_of(model, "s"), "int64[4]");
  EXPECT_EQ(model.graph.value(model.graph.outputs()[0]).type.rank(), 3);
  EXPECT_EQ(value_of(model.graph, "y").type.shape->at(1).value, 3);
}

TEST(Inference, ReachesIntoBodies) {
  graph::Model model = parse_graph(R"(
    g (bool c, float[2,3] x) => (float[p,q] y) {
      y = If (c) <
        then_branch = t () => (a) { m = Transpose(x) a = MatMul(x, m) },
        else_branch = e () => (b) { n = Transpose(x) b = MatMul(x, n) }
      >
    })");
  infer_types(model);
  const Graph& body = std::get<graph::Body>(model.graph.node(node_of(model.graph, "If")).attributes.at("then_branch")).graph();
  EXPECT_EQ(graph::to_string(value_of(body, "m").type), "float[3,2]");
  EXPECT_EQ(graph::to_string(value_of(body, "x").type), "float[2,3]");
  EXPECT_EQ(type_of(model, "y"), "float[2,2]");
}

TEST(Inference, GoesOnBehindGroupNormalization) {
  graph::Model model = parse_graph(R"(
    g (float[1,4,6,6] x, float[4] s, float[4] o, float[2,4,3,3] w) => (float[a,b,c,d] y) {
      n = GroupNormalization <num_groups = 2> (x, s, o)
      m = GroupNormalization <num_groups = 4> (n, s, o)
      y = Conv(m, w)
    })");
  infer_types(model);
  EXPECT_EQ(type_of(model, "m"), "float[1,4,6,6]");
  EXPECT_EQ(type_of(model, "y"), "float[1,2,4,4]");
}

TEST(Inference, FixedInputsReplaceTheirSymbolsEverywhere) {
  graph::Model model = parse_graph("g (float[n,4] x, float[n,5] z) => (float[n,4] y) { y = Relu(x) }");
  infer_types(model, {{"x", {7, 4}}});
  EXPECT_EQ(type_of(model, "y"), "float[7,4]");
  EXPECT_EQ(type_of(model, "z"), "float[7,5]");
}

TEST(Inference, FixedInputsMustFit) {
  graph::Model model = parse_graph("g (float[n,4] x, float[n,n] z) => (float[n,4] y) { y = Relu(x) }");
  const auto refused = [&](const std::map<std::string, graph::Dims>& shapes) {
    graph::Model copy = model;
    return error_of([&] { infer_types(copy, shapes); }).code();
  };
  EXPECT_EQ(refused({{"w", {1}}}), ErrorCode::kNotFound);
  EXPECT_EQ(refused({{"x", {1, 5}}}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(refused({{"x", {1}}}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(refused({{"x", {-1, 4}}}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(refused({{"z", {1, 2}}}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(refused({{"x", {1, 4}}, {"z", {2, 2}}}), ErrorCode::kInvalidArgument);
}

TEST(Inference, AContradictionNamesItsNode) {
  graph::Model model = parse_graph("g (float[2] x, int64[3] z) => (float[2] y) { y = Add(x, z) }");
  const Error error = error_of([&] { infer_types(model); });
  EXPECT_EQ(error.code(), ErrorCode::kBadModel);
  EXPECT_NE(std::string(error.what()).find("Add"), std::string::npos);
}

// The library's inference of Loop reads its first two inputs whether or not they are there.
TEST(Inference, NodesWithTooFewInputsAreNamed) {
  graph::Model model = parse_graph(R"(
    g (int64 n, float[2] x) => (float[2] y) {
      y = Loop (n) < body = b (int64 i, bool c, float[2] v) => (c, w) { w = Relu(v) } >
    })");
  const Error error = error_of([&] { infer_types(model); });
  EXPECT_EQ(error.code(), ErrorCode::kBadModel);
  EXPECT_NE(std::string(error.what()).find("(Loop) has 1 inputs, its operator takes at least 2"), std::string::npos)
      << error.what();
}

TEST(Inference, NodesWithTooManyInputsAreNamedInBodiesToo) {
  graph::Model model = parse_graph(R"(
    g (bool c, float[2] x) => (float[2] y) {
      y = If (c) < then_branch = t () => (a) { a = Relu(x, x) }, else_branch = e () => (b) { b = Neg(x) } >
    })");
  const Error error = error_of([&] { infer_types(model); });
  EXPECT_EQ(error.code(), ErrorCode::kBadModel);
  EXPECT_NE(std::string(error.what()).find("(Relu) has 2 inputs, its operator takes 1"), std::string::npos) << error.what();
}

TEST(Inference, AWrongDeclarationGivesWay) {
  graph::Model model = parse_graph("g (float[2,3] x) => (float[3,2] y) <float[5] m> { m = Transpose(x) y = Identity(m) }");
  infer_types(model);
  EXPECT_EQ(type_of(model, "m"), "float[3,2]");
}

TEST(Inference, UnknownOperatorsKeepWhatIsDeclared) {
  graph::Model model = parse_text(R"(
    <ir_version: 8, opset_import: ["" : 17, "v" : 1]>
    g (float[2,3] x) => (float[a,b] y) <float[2,9] m> { m = v.Unheard(x) y = Relu(m) })");
  infer_types(model);
  EXPECT_EQ(type_of(model, "m"), "float[2,9]");
  EXPECT_EQ(type_of(model, "y"), "float[2,9]");
}

TEST(Inference, KeepsWhatIsDeclaredWhereTheLibraryFails) {
  // MeanVarianceNormalization without its attribute makes the library's expansion of it fail.
  graph::Model model = parse_graph("g (float[2,3,4,5] x) => (float[2,3,4,5] y) { y = MeanVarianceNormalization(x) }");
  infer_types(model);
  EXPECT_EQ(type_of(model, "y"), "float[2,3,4,5]");
}

TEST(Inference, DoesNotTouchLargeWeights) {
  // A view of an address that cannot be read: touching one byte would end the test.
  graph::Model model = parse_graph("g (float[2,1048576] x) => (float[p,q] y) { y = Neg(x) }");
  const std::shared_ptr<const std::byte> forbidden(reinterpret_cast<const std::byte*>(4096), [](const std::byte*) {});
  Graph& g = model.graph;
  const graph::ValueId w =
      g.add_initializer("w", graph::Tensor::view(graph::DataType::kFloat32, {1048576, 3}, forbidden));
  const graph::ValueId product = g.add_node("MatMul", {g.outputs()[0], w}, "product");
  g.add_output(product);
  infer_types(model);
  EXPECT_EQ(graph::to_string(g.value(product).type), "float[2,3]");
  check_model(model);
}

}  // namespace
}  // namespace tempera::onnx
