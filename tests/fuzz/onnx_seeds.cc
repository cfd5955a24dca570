#include "onnx_seeds.h"

#include "tempera/onnx/proto.h"
#include "tempera/onnx/text.h"
#include "tempera/onnx/write.h"

namespace tempera::fuzz {
namespace {

namespace pb = ::onnx;

constexpr std::pair<const char*, const char*> kTexts[] = {
    {"plain", R"(
      <ir_version: 8, opset_import: ["" : 17]>
      g (float[n,3] x) => (float[n,2] y) <float[3,2] w = {1, 2, 3, 4, 5, 6}, float[2] b = {1, 2}> {
        m = MatMul(x, w)
        a = Add(m, b)
        y = Relu(a)
      })"},
    {"old", R"(
      <ir_version: 4, opset_import: ["" : 8]>
      g (float[1,2,4,4] x) => (float[1,4] y) <float[2] s = {1, 1}> {
        n = BatchNormalization(x, s, s, s, s)
        c = Clip <min = 0.0, max = 6.0> (n)
        p = Pad <pads = [0,0,1,1,0,0,1,1]> (c)
        u = Upsample <scales = [1.0, 1.0, 2.0, 2.0]> (p)
        r = ReduceMean <axes = [2, 3], keepdims = 0> (u)
        q = Slice <starts = [0], ends = [2], axes = [1]> (r)
        y = Softmax(q)
      })"},
    {"bodies", R"(
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
      })"},
    {"functions", R"(
      <ir_version: 10, opset_import: ["" : 21, "local" : 1]>
      g (float[2] x) => (float[2] y) { y = local.f <scale = 3.0> (x) }
      <domain: "local", opset_import: ["" : 19, "local" : 1]>
      f <scale: float = 2.0> (a) => (b) {
        k = Constant <value_float: float = @scale> ()
        m = local.h(a)
        b = Mul(m, k)
      }
      <domain: "local", opset_import: ["" : 19]>
      h (a) => (b) { b = Neg(a) })"},
    {"types", R"(
      <ir_version: 14, opset_import: ["" : 28, "v" : 1]>
      g (seq(float[2]) s, optional(float[2]) o, float16[4] h) => (seq(float[2]) t, float[4] y)
        <int4[3] a = {1, -8, 7}, uint2[5] b = {0, 1, 2, 3, 2}, float8e4m3fn[2] e = {56, 1}, float6e2m3[3] f = {8, 33, 31},
         bfloat16[1] bf = {16256}, bool[2] z = {0, 1}, string[2] st = {"p", "q"}, int64[2] l = {-1, 1}> {
        t = v.Unheard <i = 1, r = 1.5, u = "s", is = [1, 2], rs = [1.5], us = ["a"]> (s, , o)
        y = Cast <to = 1> (h)
      })"},
};

// The parts that the text form does not reach.
std::string with_everything() {
  pb::ModelProto proto;
  proto.ParseFromString(onnx::serialize(onnx::parse_text(kTexts[0].second)));
  const auto note = [](auto* props) {
    pb::StringStringEntryProto& entry = *props->Add();
    entry.set_key("k");
    entry.set_value("v");
  };
  proto.set_ir_version(11);
  proto.set_doc_string("doc");
  note(proto.mutable_metadata_props());
  proto.add_training_info()->mutable_algorithm()->set_name("training");
  pb::GraphProto& g = *proto.mutable_graph();
  g.add_quantization_annotation()->set_tensor_name("a");
  g.mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim(0)->set_denotation("BATCH");
  pb::TensorProto& typed = *g.add_initializer();
  typed.set_name("typed");
  typed.add_dims(3);
  typed.set_data_type(pb::TensorProto::INT32);
  for (const int value : {1, 2, -3}) {
    typed.add_int32_data(value);
  }
  pb::TensorProto& outside = *g.add_initializer();
  outside.set_name("outside");
  outside.add_dims(1);
  outside.set_data_type(pb::TensorProto::FLOAT);
  outside.set_data_location(pb::TensorProto::EXTERNAL);
  pb::StringStringEntryProto& location = *outside.add_external_data();
  location.set_key("location");
  location.set_value("w.bin");
  pb::SparseTensorProto& sparse = *g.add_sparse_initializer();
  sparse.add_dims(8);
  sparse.mutable_values()->set_name("sparse");
  sparse.mutable_values()->add_dims(1);
  sparse.mutable_values()->set_data_type(pb::TensorProto::FLOAT);
  sparse.mutable_values()->add_float_data(5);
  sparse.mutable_indices()->add_dims(1);
  sparse.mutable_indices()->set_data_type(pb::TensorProto::INT64);
  sparse.mutable_indices()->add_int64_data(3);
  pb::NodeProto& node = *g.mutable_node(0);
  note(node.mutable_metadata_props());
  node.add_device_configurations()->set_configuration_id("c");
  pb::AttributeProto& types = *node.add_attribute();
  types.set_name("types");
  types.set_type(pb::AttributeProto::TYPE_PROTOS);
  types.add_type_protos()->mutable_map_type()->set_key_type(pb::TensorProto::INT64);
  return proto.SerializeAsString();
}

}  // namespace

std::vector<std::pair<std::string, std::string>> onnx_seeds() {
  std::vector<std::pair<std::string, std::string>> seeds;
  for (const auto& [name, text] : kTexts) {
    seeds.emplace_back(name, onnx::serialize(onnx::parse_text(text)));
  }
  seeds.emplace_back("everything", with_everything());
  return seeds;
}

}  // namespace tempera::fuzz
