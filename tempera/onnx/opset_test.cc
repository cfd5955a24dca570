#include "tempera/onnx/opset.h"

#include "tempera/onnx/test_support.h"
#include "tempera/onnx/text.h"
#include "tempera/onnx/write.h"

namespace tempera::onnx {
namespace {

using graph::Graph;
using graph::NodeId;

// Converts and lets the ONNX checker look at the result.
graph::Model converted(std::string_view text, std::int64_t from, std::int64_t to) {
  graph::Model model = convert_opset(parse_graph(text, from), to);
  graph::verify(model.graph);
  EXPECT_EQ(model.opset(), to);
  check_model(model);
  return model;
}

std::vector<std::int64_t> ints(const Graph& g, graph::ValueId id) { return graph::to_int64s(*g.constant(id)); }

std::vector<std::string> operators(const Graph& g) {
  std::vector<std::string> names;
  for (const NodeId id : g.nodes()) {
    names.push_back(g.node(id).op_type);
  }
  return names;
}

TEST(Raising, AxesBecomeAnInput) {
  const graph::Model model = converted("g (float[2,1,3] x) => (float[2,3] y) { y = Squeeze <axes = [1]> (x) }", 11, 28);
  const NodeId node = node_of(model.graph, "Squeeze");
  EXPECT_FALSE(model.graph.has_attribute(node, "axes"));
  EXPECT_EQ(ints(model.graph, model.graph.input(node, 1)), (std::vector<std::int64_t>{1}));
}

TEST(Raising, SliceTakesItsLimitsAsInputs) {
  const graph::Model model =
      converted("g (float[8,8] x) => (float[2,8] y) { y = Slice <starts = [1], ends = [3], axes = [0]> (x) }", 9, 28);
  const NodeId node = node_of(model.graph, "Slice");
  EXPECT_EQ(ints(model.graph, model.graph.input(node, 2)), (std::vector<std::int64_t>{3}));
  EXPECT_TRUE(model.graph.node(node).attributes.empty());
}

TEST(Raising, ClipAndPadTakeTheTypeOfTheirInput) {
  const graph::Model model = converted(R"(
    g (float16[2] x) => (float16[4] y) {
      c = Clip <max = 6.0> (x)
      y = Pad <pads = [1, 1], value = 2.0> (c)
    })", 10, 28);
  const Graph& g = model.graph;
  const NodeId clip = node_of(g, "Clip");
  EXPECT_FALSE(g.input(clip, 1).valid());
  EXPECT_EQ(g.constant(g.input(clip, 2))->type(), graph::DataType::kFloat16);
  EXPECT_EQ(graph::to_doubles(*g.constant(g.input(node_of(g, "Pad"), 2))), (std::vector<double>{2}));
}

// Before opset 13 the axes from `axis` on were normalised together.
TEST(Raising, SoftmaxOverSeveralAxesIsFlattened) {
  const Graph g = converted("g (float[2,3,4] x) => (float[2,3,4] y) { y = Softmax <axis = 1> (x) }", 11, 28).graph;
  EXPECT_EQ(operators(g), (std::vector<std::string>{"Flatten", "Softmax", "Shape", "Reshape"}));
  EXPECT_EQ(g.value(g.outputs()[0]).name, "y");
}

TEST(Raising, SoftmaxOverTheLastAxisStaysOneNode) {
  const Graph g = converted("g (float[2,3,4] x) => (float[2,3,4] y) { y = Softmax <axis = 2> (x) }", 11, 28).graph;
  EXPECT_EQ(operators(g), (std::vector<std::string>{"Softmax"}));
  const Graph h = converted("g (float[2,3,1,1] x) => (float[2,3,1,1] y) { y = Softmax(x) }", 11, 28).graph;
  EXPECT_EQ(operators(h), (std::vector<std::string>{"Softmax"}));
  EXPECT_EQ(h.attribute<std::int64_t>(node_of(h, "Softmax"), "axis", -1), 1);
}

TEST(Raising, UpsampleBecomesResizeThatRoundsAsItDid) {
  const graph::Model model = converted(R"(
    g (float[1,1,2,2] x) => (float[1,1,4,4] y) { y = Upsample <scales = [1.0, 1.0, 2.0, 2.0]> (x) })", 8, 28);
  const NodeId node = node_of(model.graph, "Resize");
  EXPECT_EQ(model.graph.attribute<std::string>(node, "coordinate_transformation_mode", ""), "asymmetric");
  EXPECT_EQ(model.graph.attribute<std::string>(node, "nearest_mode", ""), "floor");
  EXPECT_FALSE(model.graph.input(node, 1).valid());
  EXPECT_EQ(graph::to_doubles(*model.graph.constant(model.graph.input(node, 2))), (std::vector<double>{1, 1, 2, 2}));
}

TEST(Raising, BroadcastingAtAnAxisAlignsTheOperand) {
  const graph::Model model =
      converted("g (float[2,3,4,5] x, float[3] b) => (float[2,3,4,5] y) { y = Add <broadcast = 1, axis = 1> (x, b) }", 6, 28);
  const Graph& g = model.graph;
  EXPECT_EQ(operators(g), (std::vector<std::string>{"Unsqueeze", "Add"}));
  EXPECT_EQ(ints(g, g.input(node_of(g, "Unsqueeze"), 1)), (std::vector<std::int64_t>{1, 2}));
}

TEST(Raising, GroupScalesBecomeChannelScales) {
  const Graph g = converted(R"(
    g (float[1,4,2,2] x, float[2] s, float[2] b) => (float[1,4,2,2] y) {
      y = GroupNormalization <num_groups = 2, epsilon = 0.001> (x, s, b)
    })", 18, 28).graph;
  EXPECT_EQ(g.node(g.producer(g.input(node_of(g, "GroupNormalization"), 1))).op_type, "Reshape");
}

TEST(Raising, BodiesAndFunctionsAreRaisedToo) {
  const graph::Model model = convert_opset(parse_text(R"(
    <ir_version: 8, opset_import: ["" : 12, "local" : 1]>
    g (bool c, float[2,1] x) => (float[2] y) {
      y = If (c) <
        then_branch = t () => (float[2] p) { p = Squeeze <axes = [1]> (x) },
        else_branch = e () => (float[2] q) { q = local.f <dims = [1]> (x) }
      >
    }
    <domain: "local", opset_import: ["" : 12]>
    f <dims> (a) => (b) { b = Squeeze <axes: ints = @dims> (a) })"), 28);
  graph::verify(model.graph);
  check_model(model);
  const Graph& body = std::get<graph::Body>(model.graph.node(node_of(model.graph, "If")).attributes.at("then_branch")).graph();
  EXPECT_TRUE(body.input(node_of(body, "Squeeze"), 1).valid());
  const Graph& function = model.functions.at(0).body;
  const NodeId constant = node_of(function, "Constant");
  EXPECT_TRUE(std::holds_alternative<graph::AttributeReference>(function.node(constant).attributes.at("value_ints")));
  EXPECT_EQ(model.functions.at(0).opsets.at(""), 28);
}

TEST(Raising, WeightsAreShared) {
  const graph::Model model = parse_graph("g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Add(x, w) }", 13);
  const graph::Model raised = convert_opset(model, 28);
  EXPECT_EQ(value_of(model.graph, "w").constant->bytes().data(), value_of(raised.graph, "w").constant->bytes().data());
}

TEST(Raising, OtherDomainsStayAsTheyAre) {
  const graph::Model model = convert_opset(parse_text(R"(
    <ir_version: 8, opset_import: ["" : 11, "v" : 3]>
    g (float[2] x) => (float[2] y) { y = v.Squeeze <axes = [0]> (x) })"), 28);
  EXPECT_TRUE(model.graph.has_attribute(model.graph.nodes().at(0), "axes"));
  EXPECT_EQ(model.opsets.at("v"), 3);
}

TEST(Raising, WhatHasNoEquivalentIsNamed) {
  const Error error = error_of([] {
    (void)convert_opset(parse_graph("g (float[1,2,3] x) => (float[1,2,3] y) { y = BatchNormalization <spatial = 0> (x, x, x, x, x) }", 8), 28);
  });
  EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
  ASSERT_FALSE(error.context().empty());
  EXPECT_EQ(error.context()[0], "node 'y' (BatchNormalization)");
}

TEST(Lowering, AxesBecomeAnAttribute) {
  const graph::Model model =
      converted("g (float[2,1,3] x) => (float[2,3] y) <int64[1] a = {1}> { y = Squeeze(x, a) }", 28, 11);
  EXPECT_EQ(model.graph.attribute<std::vector<std::int64_t>>(node_of(model.graph, "Squeeze"), "axes", {}),
            (std::vector<std::int64_t>{1}));
}

TEST(Lowering, ThereAndBackIsTheSameGraph) {
  const graph::Model model = parse_graph(R"(
    g (float[2,8] x) => (float[1,2] y) <int64[1] starts = {1}, int64[1] ends = {5}, int64[1] axes = {1}, float lo = {0}> {
      s = Slice(x, starts, ends, axes)
      c = Clip(s, lo)
      r = ReduceMean <keepdims = 0> (c, axes)
      u = Softmax <axis = -1> (r)
      y = Unsqueeze(u, starts)
    })", 18);
  const graph::Model low = convert_opset(model, 9);
  graph::verify(low.graph);
  EXPECT_TRUE(low.graph.has_attribute(node_of(low.graph, "ReduceMean"), "axes"));
  const graph::Model back = convert_opset(low, 18);
  EXPECT_EQ(operators(model.graph), operators(back.graph));
  EXPECT_EQ(ints(back.graph, back.graph.input(node_of(back.graph, "Slice"), 2)), (std::vector<std::int64_t>{5}));
}

TEST(Lowering, IsRefusedByName) {
  const auto refused = [](std::string_view text, std::int64_t from, std::int64_t to) {
    const Error error = error_of([&] { (void)convert_opset(parse_graph(text, from), to); });
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    EXPECT_FALSE(error.context().empty());
    return std::string(error.what());
  };
  EXPECT_NE(refused("g (float[2] x) => (float[2] y) { y = Gelu(x) }", 20, 19).find("did not exist"), std::string::npos);
  EXPECT_NE(refused("g (float[2,3] x) => (float[2,3] y) { y = Softmax <axis = 0> (x) }", 13, 12).find("last"),
            std::string::npos);
  EXPECT_NE(refused("g (bfloat16[2] x) => (bfloat16[2] y) { y = Relu(x) }", 13, 12).find("bfloat16"), std::string::npos);
  EXPECT_NE(refused("g (float[2,1] x, int64[1] a) => (float[2] y) { y = Squeeze(x, a) }", 13, 12).find("computed"),
            std::string::npos);
}

TEST(Converting, AnUnknownOpsetIsRefused) {
  const graph::Model model = parse_graph("g (float x) => (float y) { y = Neg(x) }");
  EXPECT_EQ(error_of([&] { (void)convert_opset(model, 0); }).code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(error_of([&] { (void)convert_opset(model, kNewestOpset + 1); }).code(), ErrorCode::kInvalidArgument);
}

// -- functions -------------------------------------------------------------------------------------------------------------

TEST(Inlining, ReplacesCallsByTheirBodies) {
  const graph::Model model = parse_text(R"(
    <ir_version: 9, opset_import: ["" : 19, "local" : 1]>
    g (float[2] x) => (float[2] y, float[2] z) {
      [one] y = local.f <scale = 3.0> (x)
      [two] z = local.f (y)
    }
    <domain: "local", opset_import: ["" : 19, "local" : 1]>
    f <scale: float = 2.0> (a) => (b) {
      k = Constant <value_float: float = @scale> ()
      m = Mul(a, k)
      b = local.h(m)
    }
    <domain: "local", opset_import: ["" : 19]>
    h (a) => (b) { b = Neg(a) })");
  const graph::Model flat = inline_functions(model);
  graph::verify(flat.graph);
  check_model(flat);
  EXPECT_TRUE(flat.functions.empty());
  EXPECT_EQ(operators(flat.graph), (std::vector<std::string>{"Constant", "Mul", "Neg", "Constant", "Mul", "Neg"}));
  EXPECT_EQ(flat.graph.value(flat.graph.outputs()[0]).name, "y");
  EXPECT_EQ(value_of(flat.graph, "y").origin->tensor, "y");
  const NodeId neg = flat.graph.producer(*flat.graph.find_value("z"));
  EXPECT_TRUE(flat.graph.node(neg).function_path.starts_with("f/"));
  std::vector<float> scales;
  for (const NodeId id : flat.graph.nodes()) {
    if (flat.graph.node(id).is("Constant")) {
      scales.push_back(flat.graph.attribute<float>(id, "value_float", 0));
    }
  }
  EXPECT_EQ(scales, (std::vector<float>{3, 2}));
}

TEST(Inlining, BodiesOfAFunctionReadTheCallersValues) {
  const graph::Model model = parse_text(R"(
    <ir_version: 9, opset_import: ["" : 19, "local" : 1]>
    g (bool c, float[2] x) => (float[2] y) { y = local.pick <low = 1.5> (c, x) }
    <domain: "local", opset_import: ["" : 19]>
    pick <low> (cond, a, extra) => (b) {
      b = If (cond) <
        then_branch = t () => (p) { k = Constant <value_float: float = @low> () p = Clip(a, k, extra) },
        else_branch = e () => (q) { q = Identity(a) }
      >
    })");
  const graph::Model flat = inline_functions(model);
  graph::verify(flat.graph);
  check_model(flat);
  const Graph& body = std::get<graph::Body>(flat.graph.node(node_of(flat.graph, "If")).attributes.at("then_branch")).graph();
  EXPECT_EQ(body.attribute<float>(node_of(body, "Constant"), "value_float", 0), 1.5F);
  EXPECT_FALSE(body.input(node_of(body, "Clip"), 2).valid());  // the caller left it out
  EXPECT_EQ(body.captures().size(), 1U);
}

TEST(Inlining, AFunctionOfAnotherOpsetIsConverted) {
  const graph::Model model = parse_text(R"(
    <ir_version: 8, opset_import: ["" : 18, "local" : 1]>
    g (float[2,1] x) => (float[2] y) { y = local.f (x) }
    <domain: "local", opset_import: ["" : 11]>
    f (a) => (b) { b = Squeeze <axes = [1]> (a) })");
  const graph::Model flat = inline_functions(model);
  check_model(flat);
  EXPECT_TRUE(flat.graph.input(node_of(flat.graph, "Squeeze"), 1).valid());
}

TEST(Inlining, AnOutputThatIsAnInputGetsACopy) {
  const graph::Model model = parse_text(R"(
    <ir_version: 9, opset_import: ["" : 19, "local" : 1]>
    g (float[2] x) => (float[2] y, float[2] z) { y, z = local.both (x) }
    <domain: "local", opset_import: ["" : 19]>
    both (a) => (a, b) { b = Neg(a) })");
  const graph::Model flat = inline_functions(model);
  graph::verify(flat.graph);
  check_model(flat);
  EXPECT_EQ(flat.graph.value(flat.graph.outputs()[0]).name, "y");
}

TEST(Inlining, AFunctionThatCallsItselfIsRefused) {
  const graph::Model model = parse_text(R"(
    <ir_version: 9, opset_import: ["" : 19, "local" : 1]>
    g (float[2] x) => (float[2] y) { y = local.f (x) }
    <domain: "local", opset_import: ["" : 19, "local" : 1]>
    f (a) => (b) { b = local.f(a) })");
  EXPECT_EQ(error_of([&] { (void)inline_functions(model); }).code(), ErrorCode::kBadModel);
}

}  // namespace
}  // namespace tempera::onnx
