#include "tempera/onnx/read.h"

#include "tempera/onnx/test_support.h"
#include "tempera/onnx/text.h"
#include "tempera/onnx/write.h"

namespace tempera::onnx {
namespace {

using graph::Graph;
using graph::NodeId;
using graph::ValueId;
using ::testing::Test;

// The protos that the text form cannot say are built from a text model and then bent.
pb::ModelProto proto_of(std::string_view text) {
  pb::ModelProto proto;
  EXPECT_TRUE(proto.ParseFromString(serialize(parse_text(text))));
  return proto;
}

constexpr const char* kSmall = R"(
  <ir_version: 8, opset_import: ["" : 17]>
  g (float[n,3] x) => (float[n,3] y) <float[3] w = {1, 2, 3}> {
    a = Add(x, w)
    y = Relu(a)
  })";

TEST(Reading, AModelBecomesAGraph) {
  const graph::Model model = parse_text(kSmall);
  graph::verify(model.graph);
  EXPECT_EQ(model.ir_version, 8);
  EXPECT_EQ(model.opset(), 17);
  const Graph& g = model.graph;
  EXPECT_EQ(g.inputs().size(), 1U);
  EXPECT_EQ(graph::to_string(value_of(g, "x").type), "float[n,3]");
  EXPECT_EQ(value_of(g, "w").constant->values<float>()[2], 3);
  EXPECT_EQ(g.node(g.nodes().at(0)).op_type, "Add");
}

TEST(Reading, EveryValueStartsAsItsOwnOrigin) {
  const graph::Model model = parse_text(kSmall);
  for (const ValueId id : model.graph.values()) {
    const graph::Value& value = model.graph.value(id);
    ASSERT_TRUE(value.origin.has_value());
    EXPECT_EQ(value.origin->tensor, value.name);
    EXPECT_TRUE(value.origin->equal);
  }
}

constexpr const char* kNested = R"(
  <ir_version: 8, opset_import: ["" : 17]>
  g (bool c, float[2] x) => (float[2] y) {
    s = Neg(x)
    y = If (c) <
      then_branch = t () => (float[2] p) {
        p = If (c) <
          then_branch = tt () => (float[2] q) { q = Abs(s) },
          else_branch = te () => (float[2] r) { r = Add(s, x) }
        >
      },
      else_branch = e () => (float[2] u) { u = Identity(x) }
    >
  })";

TEST(Reading, ABodyInsideABodyCapturesFromItsParent) {
  const graph::Model model = parse_text(kNested);
  graph::verify(model.graph);
  const Graph& g = model.graph;
  const auto body_of = [](const Graph& outer, NodeId id, const char* name) -> const Graph& {
    return std::get<graph::Body>(outer.node(id).attributes.at(name)).graph();
  };
  const Graph& branch = body_of(g, node_of(g, "If"), "then_branch");
  std::map<std::string, std::string> captured;
  for (const graph::Capture& capture : branch.captures()) {
    captured[branch.value(capture.inner).name] = g.value(capture.outer).name;
  }
  EXPECT_EQ(captured, (std::map<std::string, std::string>{{"c", "c"}, {"s", "s"}, {"x", "x"}}));
  const Graph& inner = body_of(branch, node_of(branch, "If"), "else_branch");
  for (const graph::Capture& capture : inner.captures()) {
    EXPECT_TRUE(branch.is_capture(capture.outer));
  }
  EXPECT_TRUE(g.is_captured_by_body(*g.find_value("s")));
}

TEST(Reading, UnsortedNodesAreSorted) {
  pb::ModelProto proto = proto_of(kSmall);
  proto.mutable_graph()->mutable_node()->SwapElements(0, 1);
  const graph::Model model = read_proto(proto);
  graph::verify(model.graph);
  EXPECT_EQ(model.graph.node(model.graph.nodes().at(0)).op_type, "Add");
}

TEST(Reading, InitialisersListedAsInputsAreNone) {
  pb::ModelProto proto = proto_of(kSmall);
  proto.set_ir_version(3);
  pb::ValueInfoProto& input = *proto.mutable_graph()->add_input();
  input = proto.graph().input(0);
  input.set_name("w");
  input.mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim()->DeleteSubrange(0, 1);
  const graph::Model model = read_proto(proto);
  EXPECT_EQ(model.graph.inputs().size(), 1U);
  EXPECT_TRUE(model.graph.constant(*model.graph.find_value("w")).has_value());
  pb::ModelProto again;
  ASSERT_TRUE(again.ParseFromString(serialize(model)));
  EXPECT_EQ(again.ir_version(), 3);
  ASSERT_EQ(again.graph().input_size(), 2);
  EXPECT_EQ(again.graph().input(1).name(), "w");
}

TEST(Reading, FromVersionFourOnSuchAnInputHasADefault) {
  pb::ModelProto proto = proto_of(kSmall);
  pb::ValueInfoProto& input = *proto.mutable_graph()->add_input();
  input.set_name("w");
  input.mutable_type()->mutable_tensor_type()->set_elem_type(pb::TensorProto::FLOAT);
  const graph::Model model = read_proto(proto);
  EXPECT_EQ(model.graph.inputs().size(), 2U);
  EXPECT_FALSE(model.graph.constant(*model.graph.find_value("w")).has_value());
  EXPECT_TRUE(value_of(model.graph, "w").constant.has_value());
}

TEST(Reading, AnInitialiserMayBeAnOutputToo) {
  pb::ModelProto proto = proto_of(kSmall);
  proto.mutable_graph()->add_output()->set_name("w");
  const graph::Model model = read_proto(proto);
  graph::verify(model.graph);
  EXPECT_TRUE(model.graph.is_output(*model.graph.find_value("w")));
}

TEST(Reading, TheTwoNamesOfTheStandardDomainAreOne) {
  pb::ModelProto proto = proto_of(kSmall);
  proto.mutable_opset_import(0)->set_domain("ai.onnx");
  proto.mutable_graph()->mutable_node(0)->set_domain("ai.onnx");
  const graph::Model model = read_proto(proto);
  EXPECT_EQ(model.opset(), 17);
  EXPECT_TRUE(model.graph.node(model.graph.nodes().at(0)).is("Add"));
}

TEST(Reading, NamesThatDifferByASuffixStayApart) {
  const graph::Model model = parse_text(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[2] b, float[2] b0) => (float[2] b_1) { b_1 = Sub(b, b0) })");
  EXPECT_EQ(model.graph.inputs().size(), 2U);
  EXPECT_EQ(model.graph.value(model.graph.outputs()[0]).name, "b_1");
}

// -- bad files -------------------------------------------------------------------------------------------------------------

Error refusal(const pb::ModelProto& proto) {
  const Error error = error_of([&] { (void)read_proto(proto); });
  EXPECT_EQ(error.code(), ErrorCode::kBadModel) << error.text();
  return error;
}

TEST(BadModels, AnUndefinedNameIsReportedWithItsNode) {
  pb::ModelProto proto = proto_of(kSmall);
  proto.mutable_graph()->mutable_node(0)->set_name("first");
  proto.mutable_graph()->mutable_node(0)->set_input(1, "nowhere");
  const Error error = refusal(proto);
  EXPECT_NE(std::string(error.what()).find("'nowhere' is read, but nothing makes it"), std::string::npos);
  ASSERT_FALSE(error.context().empty());
  EXPECT_EQ(error.context()[0], "node 'first' (Add)");
}

TEST(BadModels, ACycleIsReported) {
  pb::ModelProto proto = proto_of(kSmall);
  proto.mutable_graph()->mutable_node(0)->set_input(0, "y");
  EXPECT_NE(std::string(refusal(proto).what()).find("cycle"), std::string::npos);
}

TEST(BadModels, ACycleThroughABodyIsReported) {
  pb::ModelProto proto = proto_of(kNested);
  proto.mutable_graph()->mutable_node(0)->set_input(0, "y");
  EXPECT_NE(std::string(refusal(proto).what()).find("cycle"), std::string::npos);
}

TEST(BadModels, AValueHasOneSource) {
  pb::ModelProto twice = proto_of(kSmall);
  twice.mutable_graph()->mutable_node(0)->set_output(0, "y");
  EXPECT_NE(std::string(refusal(twice).what()).find("made twice"), std::string::npos);
  pb::ModelProto input = proto_of(kSmall);
  input.mutable_graph()->mutable_node(0)->set_output(0, "x");
  refusal(input);
  pb::ModelProto weight = proto_of(kSmall);
  *weight.mutable_graph()->add_initializer() = weight.graph().initializer(0);
  refusal(weight);
}

TEST(BadModels, AllProblemsAreReportedTogetherUpToALimit) {
  pb::ModelProto proto = proto_of(kSmall);
  for (int i = 0; i < 30; ++i) {
    pb::NodeProto& node = *proto.mutable_graph()->add_node();
    node.set_op_type("Neg");
    node.add_input(fmt::format("missing{}", i));
    node.add_output(fmt::format("out{}", i));
  }
  const std::string message = refusal(proto).what();
  EXPECT_TRUE(message.starts_with("30 problems:"));
  EXPECT_NE(message.find("missing19"), std::string::npos);
  EXPECT_EQ(message.find("missing20"), std::string::npos);
  EXPECT_NE(message.find("and 10 more"), std::string::npos);
}

TEST(BadModels, WrongDeclaredTypesOfWeightsAreReported) {
  pb::ModelProto proto = proto_of(kSmall);
  pb::ValueInfoProto& info = *proto.mutable_graph()->add_value_info();
  info.set_name("w");
  info.mutable_type()->mutable_tensor_type()->set_elem_type(pb::TensorProto::INT64);
  EXPECT_NE(std::string(refusal(proto).what()).find("declared as int64"), std::string::npos);
}

TEST(BadModels, BodiesMayNotNestWithoutEnd) {
  pb::ModelProto proto = proto_of(kSmall);
  const auto nested = [&](int depth) {
    pb::ModelProto deep = proto;
    pb::GraphProto* at = deep.mutable_graph();
    for (int i = 0; i < depth; ++i) {
      pb::NodeProto& node = *at->add_node();
      node.set_op_type("Custom");
      node.set_domain("x");
      pb::AttributeProto& attribute = *node.add_attribute();
      attribute.set_name("body");
      attribute.set_type(pb::AttributeProto::GRAPH);
      at = attribute.mutable_g();
      at->set_name("g");
    }
    return deep;
  };
  EXPECT_NO_THROW((void)read_proto(nested(64)));
  refusal(nested(65));
  refusal(nested(500));
}

TEST(BadModels, AttributesOfUnknownKindOrGivenTwiceAreReported) {
  pb::ModelProto unknown = proto_of(kSmall);
  unknown.mutable_graph()->mutable_node(0)->add_attribute()->set_name("a");
  refusal(unknown);
  pb::ModelProto twice = proto_of(kSmall);
  for (int i = 0; i < 2; ++i) {
    pb::AttributeProto& attribute = *twice.mutable_graph()->mutable_node(0)->add_attribute();
    attribute.set_name("a");
    attribute.set_type(pb::AttributeProto::INT);
  }
  refusal(twice);
  pb::ModelProto reference = proto_of(kSmall);
  pb::AttributeProto& attribute = *reference.mutable_graph()->mutable_node(0)->add_attribute();
  attribute.set_name("a");
  attribute.set_ref_attr_name("b");
  refusal(reference);
}

TEST(BadModels, VersionsBeyondTheKnownAreUnsupported) {
  pb::ModelProto ir = proto_of(kSmall);
  ir.set_ir_version(99);
  EXPECT_EQ(error_of([&] { (void)read_proto(ir); }).code(), ErrorCode::kUnsupported);
  pb::ModelProto opset = proto_of(kSmall);
  opset.mutable_opset_import(0)->set_version(1000);
  EXPECT_EQ(error_of([&] { (void)read_proto(opset); }).code(), ErrorCode::kUnsupported);
}

TEST(BadModels, FilesThatAreSomethingElseSaySo) {
  const TemporaryFolder folder;
  const auto hint = [&](std::string_view content) {
    write_bytes(folder / "m.onnx", content);
    const Error error = error_of([&] { (void)read_model(folder / "m.onnx"); });
    EXPECT_EQ(error.code(), ErrorCode::kBadModel);
    EXPECT_NE(error.text().find("m.onnx"), std::string::npos);
    return error.hint();
  };
  EXPECT_NE(hint("version https://git-lfs.github.com/spec/v1\noid sha256:0\n").find("git lfs pull"), std::string::npos);
  EXPECT_NE(hint("PK\3\4").find("zip"), std::string::npos);
  EXPECT_NE(hint("<!DOCTYPE html>").find("web page"), std::string::npos);
  EXPECT_FALSE(hint("").empty());
  EXPECT_FALSE(hint("hello").empty());
}

TEST(BadModels, AMissingFileIsNotFoundAndAFolderIsNoFile) {
  const TemporaryFolder folder;
  EXPECT_EQ(error_of([&] { (void)read_model(folder / "none.onnx"); }).code(), ErrorCode::kNotFound);
  EXPECT_EQ(error_of([&] { (void)read_model(folder.path()); }).code(), ErrorCode::kIo);
}

TEST(BadModels, AFileBeyondTheLimitIsRefused) {
  ReadOptions options;
  options.max_file_bytes = 10;
  const std::string bytes = serialize(parse_text(kSmall));
  EXPECT_EQ(error_of([&] { (void)read_model(bytes_of(bytes), {}, options); }).code(), ErrorCode::kBadModel);
}

TEST(BadModels, MessagesHoldNoControlCharacters) {
  pb::ModelProto proto = proto_of(kSmall);
  proto.mutable_graph()->mutable_node(0)->set_input(1, "a\x1b[31m\n");
  EXPECT_EQ(refusal(proto).text().find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace tempera::onnx
