#include "tempera/onnx/write.h"

#include <algorithm>

#include "tempera/base/file.h"
#include "tempera/onnx/test_support.h"
#include "tempera/onnx/text.h"

namespace tempera::onnx {
namespace {
namespace fs = std::filesystem;

using graph::DataType;
using graph::Graph;
using graph::Tensor;
using graph::ValueId;

pb::ModelProto proto_of(const graph::Model& model) {
  pb::ModelProto proto;
  EXPECT_TRUE(proto.ParseFromString(serialize(model)));
  return proto;
}

void expect_round_trip(const graph::Model& model) {
  graph::verify(model.graph);
  const graph::Model again = read_model(bytes_of(serialize(model)));
  graph::verify(again.graph);
  EXPECT_TRUE(graph::same_graph(model.graph, again.graph, true));
  EXPECT_EQ(model.opsets, again.opsets);
  EXPECT_EQ(model.ir_version, again.ir_version);
  EXPECT_EQ(serialize(model), serialize(again));
}

TEST(RoundTrip, BodiesAndCaptures) {
  expect_round_trip(parse_text(R"(
    <ir_version: 10, opset_import: ["" : 21]>
    g (int64 n, bool c, float[2] x) => (float[2] y, float[k,2] ys) {
      s = Neg(x)
      y, ys = Loop (n, c, x) <
        body = b (int64 i, bool ci, float[2] v) => (bool co, float[2] w, float[2] o) {
          co = Identity(ci)
          w = Add(v, s)
          o = If (ci) <
            then_branch = t () => (float[2] p) { p = Mul(s, w) },
            else_branch = e () => (float[2] q) { q = Identity(x) }
          >
        }
      >
    })"));
}

TEST(RoundTrip, FunctionsWithAttributesAndDefaults) {
  expect_round_trip(parse_text(R"(
    <ir_version: 9, opset_import: ["" : 19, "local" : 1]>
    g (float[2] x) => (float[2] y) { y = local.f <scale = 3.0> (x) }
    <domain: "local", opset_import: ["" : 19]>
    f <scale> (a) => (b) {
      k = Constant <value_float: float = @scale> ()
      b = Mul(a, k)
    })"));
}

TEST(RoundTrip, SequencesOptionalsAndUnknownOperators) {
  expect_round_trip(parse_text(R"(
    <ir_version: 8, opset_import: ["" : 17, "some.vendor" : 3]>
    g (float[2] x, optional(float[2]) m) => (seq(float[2]) y, float[2] z) {
      y = SequenceConstruct(x, x)
      z = some.vendor.Unheard <a = 1, b = [1.5, 2.0], c = "t", d = ["u", "v"]> (x, , m)
    })"));
}

// A model in which every field that ONNX knows is set somewhere.
graph::Model model_with_everything() {
  pb::ModelProto proto = proto_of(parse_text(R"(
    <ir_version: 14, opset_import: ["" : 28]>
    g (float[batch,4] x) => (float[batch,4] y) <float[4] w = {1, 2, 3, 4}> {
      a = Add(x, w)
      y = Relu(a)
    })"));
  const auto note = [](auto* props, const char* key) {
    pb::StringStringEntryProto& entry = *props->Add();
    entry.set_key(key);
    entry.set_value("value");
  };
  proto.set_producer_name("p");
  proto.set_producer_version("1");
  proto.set_domain("d");
  proto.set_model_version(7);
  proto.set_doc_string("model doc");
  note(proto.mutable_metadata_props(), "model");
  proto.add_training_info()->mutable_algorithm()->set_name("training");
  proto.add_configuration()->set_name("two devices");
  pb::GraphProto& g = *proto.mutable_graph();
  g.set_doc_string("graph doc");
  note(g.mutable_metadata_props(), "graph");
  g.add_quantization_annotation()->set_tensor_name("a");
  pb::ValueInfoProto& stale = *g.add_value_info();
  stale.set_name("inside/a/function");
  pb::SparseTensorProto& sparse = *g.add_sparse_initializer();
  sparse.add_dims(8);
  sparse.mutable_values()->set_name("sparse");
  sparse.mutable_values()->add_dims(1);
  sparse.mutable_values()->set_data_type(pb::TensorProto::FLOAT);
  sparse.mutable_values()->add_float_data(5);
  sparse.mutable_indices()->add_dims(1);
  sparse.mutable_indices()->set_data_type(pb::TensorProto::INT64);
  sparse.mutable_indices()->add_int64_data(3);
  g.mutable_input(0)->set_doc_string("input doc");
  note(g.mutable_input(0)->mutable_metadata_props(), "input");
  g.mutable_input(0)->mutable_type()->set_denotation("TENSOR");
  g.mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim(0)->set_denotation("DATA_BATCH");
  g.mutable_initializer(0)->set_doc_string("weight doc");
  note(g.mutable_initializer(0)->mutable_metadata_props(), "weight");
  pb::NodeProto& node = *g.mutable_node(0);
  node.set_name("n");
  node.set_doc_string("node doc");
  note(node.mutable_metadata_props(), "node");
  node.add_device_configurations()->set_configuration_id("c");
  pb::NodeProto& custom = *g.add_node();
  custom.set_op_type("Custom");
  custom.set_domain("custom");
  custom.add_input("sparse");
  custom.add_output("z");
  pb::AttributeProto& attribute = *custom.add_attribute();
  attribute.set_name("strings");
  attribute.set_type(pb::AttributeProto::STRINGS);
  attribute.add_strings("s");
  attribute.set_doc_string("attribute doc");
  pb::AttributeProto& types = *custom.add_attribute();
  types.set_name("types");
  types.set_type(pb::AttributeProto::TYPE_PROTOS);
  types.add_type_protos()->mutable_opaque_type()->set_name("o");
  pb::OperatorSetIdProto& domain = *proto.add_opset_import();
  domain.set_domain("custom");
  domain.set_version(1);
  return read_proto(proto);
}

TEST(RoundTrip, EveryFieldOfTheFormat) {
  const graph::Model model = model_with_everything();
  expect_round_trip(model);
  const pb::ModelProto proto = proto_of(model);
  const pb::GraphProto& g = proto.graph();
  EXPECT_EQ(proto.training_info(0).algorithm().name(), "training");
  EXPECT_EQ(proto.configuration(0).name(), "two devices");
  EXPECT_EQ(g.quantization_annotation(0).tensor_name(), "a");
  EXPECT_EQ(g.sparse_initializer(0).values().name(), "sparse");
  EXPECT_EQ(g.node_size(), 3);
  EXPECT_TRUE(std::any_of(g.value_info().begin(), g.value_info().end(),
                          [](const auto& info) { return info.name() == "inside/a/function"; }));
  EXPECT_EQ(g.input(0).doc_string(), "input doc");
  EXPECT_EQ(g.input(0).type().denotation(), "TENSOR");
  EXPECT_EQ(g.input(0).type().tensor_type().shape().dim(0).denotation(), "DATA_BATCH");
  EXPECT_EQ(g.input(0).metadata_props(0).key(), "input");
  EXPECT_EQ(g.initializer(0).doc_string(), "weight doc");
  EXPECT_EQ(g.node(0).device_configurations(0).configuration_id(), "c");
  EXPECT_EQ(g.node(0).metadata_props(0).key(), "node");
  EXPECT_EQ(g.node(2).attribute(0).doc_string(), "attribute doc");
}

TEST(Writing, AStaleDeclarationDoesNotSpeakOfANewValue) {
  graph::Model model = model_with_everything();
  model.graph.add_initializer("inside/a/function", Tensor::scalar(1.0F));
  const pb::ModelProto proto = proto_of(model);
  EXPECT_TRUE(std::none_of(proto.graph().value_info().begin(), proto.graph().value_info().end(),
                           [](const auto& info) { return info.name() == "inside/a/function"; }));
}

TEST(Writing, NamesInsideBodiesThatHideOuterOnesAreChanged) {
  graph::Model model = parse_text(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (bool c, float[2] x) => (float[2] y) {
      y = If (c) <
        then_branch = t () => (float[2] p) { m = Neg(x) p = Abs(m) },
        else_branch = e () => (float[2] q) { q = Identity(x) }
      >
    })");
  Graph& g = model.graph;
  Graph& body = g.body(node_of(g, "If"), "then_branch");
  body.rename(*body.find_value("m"), "y");  // the name of the If's own output
  const graph::Model again = read_model(bytes_of(serialize(model)));
  check_model(again);
  const Graph& written = std::get<graph::Body>(again.graph.node(node_of(again.graph, "If")).attributes.at("then_branch")).graph();
  EXPECT_FALSE(written.find_value("y").has_value());
  EXPECT_TRUE(graph::same_graph(model.graph, again.graph));
}

TEST(Writing, ABodyThatReturnsAnOuterValueGetsACopy) {
  graph::Model model = parse_text(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (bool c, float[2] x) => (float[2] y) {
      y = If (c) <
        then_branch = t () => (float[2] p) { p = Neg(x) },
        else_branch = e () => (float[2] q) { q = Abs(x) }
      >
    })");
  Graph& body = model.graph.body(node_of(model.graph, "If"), "then_branch");
  body.set_output(0, body.captures().at(0).inner);
  body.remove_dead();
  const graph::Model again = read_model(bytes_of(serialize(model)));
  check_model(again);
  const Graph& written = std::get<graph::Body>(again.graph.node(node_of(again.graph, "If")).attributes.at("then_branch")).graph();
  EXPECT_EQ(written.node(written.nodes().at(0)).op_type, "Identity");
}

TEST(Writing, AnInitialiserOfAFunctionBecomesAConstant) {
  graph::Model model = parse_text(R"(
    <ir_version: 9, opset_import: ["" : 19, "local" : 1]>
    g (float[2] x) => (float[2] y) { y = local.f (x) }
    <domain: "local", opset_import: ["" : 19]> f (a) => (b) { b = Neg(a) })");
  Graph& body = model.functions[0].body;
  const ValueId w = body.add_initializer("w", Tensor::from<float>({2}, {1, 2}));
  const graph::NodeId neg = node_of(body, "Neg");
  body.set_operator(neg, "Add");
  body.set_input(neg, 1, w);
  const graph::Model again = read_model(bytes_of(serialize(model)));
  check_model(again);
  EXPECT_EQ(again.functions[0].body.node_count(), 2U);
}

TEST(Writing, TheIrVersionRisesOnlyForWhatNeedsIt) {
  const auto written_with = [](DataType type) {
    graph::Model model = parse_text("<ir_version: 4, opset_import: [\"\" : 9]> g (float x) => (float y) { y = Neg(x) }");
    model.graph.add_output(model.graph.add_initializer("w", Tensor::allocate(type, {4}).tensor));
    return proto_of(model).ir_version();
  };
  EXPECT_EQ(written_with(DataType::kFloat32), 4);
  EXPECT_EQ(written_with(DataType::kFloat8E4M3FN), 9);
  EXPECT_EQ(written_with(DataType::kInt4), 10);
  EXPECT_EQ(written_with(DataType::kFloat6E2M3), 14);
}

TEST(Writing, OriginsTravelWithTheFile) {
  graph::Model model = parse_text(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[2] x) => (float[2] y) <float[2] w = {1.0, 2.0}> { a = Neg(x) b = Abs(a) c = Exp(b) d = Mul(c, w) y = Relu(d) })");
  const pb::ModelProto untouched = proto_of(model);
  for (const pb::ValueInfoProto& info : untouched.graph().value_info()) {
    EXPECT_EQ(info.metadata_props_size(), 0) << info.name();  // every value is its own origin
  }
  Graph& g = model.graph;
  const auto id_of = [&g](const char* name) { return *g.find_value(name); };
  g.set_origin(id_of("a"), {"before", true});
  g.set_notes(id_of("b"), "", {{"other", "kept"}});
  g.set_origin(id_of("b"), {"quantised", false});
  g.set_origin(id_of("w"), {"weight", false});
  g.set_origin(id_of("y"), {"logits", true});
  g.rename(id_of("c"), "e");
  const graph::Model again = read_model(bytes_of(serialize(model)));
  const auto origin_of = [&again](const char* name) { return *value_of(again.graph, name).origin; };
  EXPECT_EQ(origin_of("a").tensor, "before");
  EXPECT_TRUE(origin_of("a").equal);
  EXPECT_EQ(origin_of("b").tensor, "quantised");
  EXPECT_FALSE(origin_of("b").equal);
  EXPECT_EQ(origin_of("w").tensor, "weight");
  EXPECT_FALSE(origin_of("w").equal);
  EXPECT_EQ(origin_of("y").tensor, "logits");
  EXPECT_EQ(origin_of("e").tensor, "c");
  EXPECT_EQ(origin_of("d").tensor, "d");
  EXPECT_EQ(value_of(again.graph, "b").metadata, (graph::Metadata{{"other", "kept"}}));
}

graph::Model model_with_weights() {
  graph::Model model = parse_text("<ir_version: 8, opset_import: [\"\" : 17]> g (float[2048] x) => (float[2048] y) { y = Neg(x) }");
  Graph& g = model.graph;
  Tensor::Writable weights = Tensor::allocate(DataType::kFloat32, {2048});
  for (std::size_t i = 0; i < 2048; ++i) {
    weights.values<float>()[i] = static_cast<float>(i);
  }
  const ValueId a = g.add_initializer("a", weights.tensor);
  const ValueId b = g.add_initializer("b", weights.tensor);  // the same bytes
  const ValueId c = g.add_initializer("c", Tensor::from<float>({1}, {3}));
  const ValueId sum = g.add_node("Sum", {g.outputs()[0], a, b, c}, "sum");
  g.set_type(sum, g.value(g.outputs()[0]).type);
  g.add_output(sum);
  return model;
}

TEST(Files, WeightsBeyondTheLimitGoToAFileOfTheirOwn) {
  const TemporaryFolder folder;
  const graph::Model model = model_with_weights();
  WriteOptions options;
  options.max_inline_bytes = 4096;
  write_model(model, folder / "m.onnx", options);
  EXPECT_EQ(fs::file_size(folder / "m.onnx.data"), 8192U);  // shared bytes once
  EXPECT_LT(fs::file_size(folder / "m.onnx"), 1000U);
  const graph::Model again = read_model(folder / "m.onnx");
  EXPECT_TRUE(graph::same_graph(model.graph, again.graph, true));
  // Without the data the model is refused, and by name.
  fs::remove(folder / "m.onnx.data");
  EXPECT_EQ(error_of([&] { (void)read_model(folder / "m.onnx"); }).code(), ErrorCode::kNotFound);
}

TEST(Files, InlineAndSerialisedAreTheSameBytes) {
  const TemporaryFolder folder;
  const graph::Model model = model_with_weights();
  write_model(model, folder / "m.onnx");
  EXPECT_EQ(read_text_file(folder / "m.onnx"), serialize(model));
}

TEST(Files, AModelMayReplaceTheFilesItIsMappedFrom) {
  const TemporaryFolder folder;
  WriteOptions options;
  options.max_inline_bytes = 4096;
  const graph::Model model = model_with_weights();
  write_model(model, folder / "m.onnx", options);
  const graph::Model mapped = read_model(folder / "m.onnx");
  write_model(mapped, folder / "m.onnx", options);
  EXPECT_TRUE(graph::same_graph(model.graph, read_model(folder / "m.onnx").graph, true));
}

TEST(Files, AFailureLeavesTheOldFileAndNothingElse) {
  const TemporaryFolder folder;
  fs::create_directory(folder / "m.onnx");  // cannot be replaced by a file
  EXPECT_EQ(error_of([&] { write_model(model_with_weights(), folder / "m.onnx"); }).code(), ErrorCode::kIo);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 1);
}

TEST(Skeletons, LargeWeightsBecomeInputsOfTheSameName) {
  const graph::Model model = model_with_weights();
  const Skeleton skeleton = serialize_skeleton(model, 4096);
  ASSERT_EQ(skeleton.weights.size(), 2U);
  EXPECT_EQ(skeleton.weights[0].first, "a");
  EXPECT_EQ(skeleton.weights[0].second.bytes().data(), value_of(model.graph, "a").constant->bytes().data());
  EXPECT_LT(skeleton.bytes.size(), 1000U);
  const graph::Model read = read_model(bytes_of(skeleton.bytes));
  check_model(read);
  EXPECT_EQ(read.graph.inputs().size(), 3U);
  EXPECT_EQ(graph::to_string(value_of(read.graph, "b").type), "float[2048]");
}

TEST(Text, PrintsAndParsesBack) {
  const graph::Model model = parse_text(R"(
    <ir_version: 10, opset_import: ["" : 21]>
    g (float[n,3] x) => (float[n,3] y) <float8e4m3fn[4] w = {56, 184, 0, 1}> {
      y = Selu <alpha = 1.5> (x)
    })");
  EXPECT_TRUE(graph::same_graph(model.graph, parse_text(print_text(model)).graph, true));
}

TEST(Text, NarrowIntegersAreListedOneByOne) {
  const graph::Model model = parse_graph(R"(
    g (float x) => (float y) <int4[3] w = {1, -8, 7}, uint2[5] v = {0, 1, 2, 3, 2}> { y = Neg(x) })", 25);
  EXPECT_EQ(graph::to_doubles(*value_of(model.graph, "w").constant), (std::vector<double>{1, -8, 7}));
  EXPECT_EQ(graph::to_doubles(*value_of(model.graph, "v").constant), (std::vector<double>{0, 1, 2, 3, 2}));
}

TEST(ContentHash, FollowsStructureAndWeights) {
  const auto made = [](const char* op, float weight) {
    graph::Model model = parse_graph(fmt::format("g (float[N,8192] x) => (float[N,8192] y) <float[1] w = {{0}}> {{ y = {}(x, w) }}", op));
    std::vector<float> values(8192, 1.0F);
    values.back() = weight;
    const graph::ValueId w = *model.graph.find_value("w");
    model.graph.set_constant(w, graph::Tensor::from<float>({8192}, std::span<const float>(values)));
    return content_hash(model);
  };
  EXPECT_EQ(made("Add", 1.0F), made("Add", 1.0F));
  EXPECT_NE(made("Add", 1.0F), made("Add", 2.0F));
  EXPECT_NE(made("Add", 1.0F), made("Mul", 1.0F));
}

TEST(Text, ErrorsSayWhere) {
  const Error error = error_of([] { (void)parse_graph("g (float x) => (float y) {\n  y = Neg(x\n}"); });
  EXPECT_EQ(error.code(), ErrorCode::kBadModel);
  EXPECT_NE(error.text().find("line"), std::string::npos) << error.text();
}

TEST(Text, TheCheckerRefusesWhatIsNoModel) {
  EXPECT_NO_THROW(check_model(parse_graph("g (float x) => (float y) { y = Neg(x) }")));
  EXPECT_EQ(error_of([] { check_model(parse_graph("g (float x) => (float y) { y = NoSuchOperator(x) }")); }).code(),
            ErrorCode::kBadModel);
}

}  // namespace
}  // namespace tempera::onnx
