#include "tempera/onnx/schema_function.h"

#include <onnx/inliner/inliner.h>

#include <string>
#include <utility>
#include <vector>

#include "tempera/base/error.h"
#include "tempera/onnx/opset.h"
#include "tempera/onnx/read.h"
#include "tempera/onnx/schema.h"
#include "tempera/onnx/write.h"

namespace tempera::onnx {
namespace {

graph::Opsets with_ai_onnx(graph::Opsets opsets) {
  if (!opsets.contains("") && !opsets.contains("ai.onnx")) {
    opsets[""] = kNewestOpset;
  }
  return opsets;
}

bool is_function(const ::onnx::OpSchema* schema) {
  return schema != nullptr && (schema->HasFunction() || schema->HasContextDependentFunction());
}

/// A model of this one node: graph inputs of the given types, named by position.
graph::Model model_of(const graph::Node& node, graph::Opsets opsets, std::span<const graph::ValueType> inputs) {
  graph::Model model;
  model.ir_version = 10;
  model.opsets = std::move(opsets);
  graph::Graph& graph = model.graph;
  graph.name = node.op_type;
  graph::Node call;
  call.op_type = node.op_type;
  call.domain = node.domain;
  call.name = node.name;
  call.attributes = node.attributes;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const bool given = i < inputs.size() && inputs[i].kind != graph::ValueType::Kind::kUnknown;
    // Left-out inputs keep their place among the graph's inputs, unread.
    const graph::ValueId port = graph.add_input("input" + std::to_string(i),
                                                given ? inputs[i] : graph::ValueType::tensor(graph::DataType::kFloat32));
    call.inputs.push_back(given ? port : graph::ValueId());
  }
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    call.outputs.push_back(graph.add_value("output" + std::to_string(i)));
  }
  const std::vector<graph::ValueId> outputs = call.outputs;
  graph.add_node(std::move(call));
  for (const graph::ValueId output : outputs) {
    graph.add_output(output);
  }
  return model;
}

/// Writes the schema's defaults into the node: the inliner binds only attributes that are there.
void fill_defaults(::onnx::NodeProto& node, const ::onnx::OpSchema& schema) {
  for (const auto& [name, attribute] : schema.attributes()) {
    if (!attribute.default_value.has_type()) {
      continue;
    }
    bool given = false;
    for (const ::onnx::AttributeProto& present : node.attribute()) {
      given = given || present.name() == name;
    }
    if (!given) {
      *node.add_attribute() = attribute.default_value;
    }
  }
}

}  // namespace

bool has_schema_function(const graph::Node& node, const graph::Opsets& opsets) {
  return is_function(schema_of(node, with_ai_onnx(opsets)));
}

std::optional<graph::Function> schema_function(const graph::Node& node, const graph::Opsets& opsets,
                                               std::span<const graph::ValueType> inputs) {
  const graph::Opsets all = with_ai_onnx(opsets);
  const ::onnx::OpSchema* schema = schema_of(node, all);
  if (!is_function(schema)) {
    return std::nullopt;
  }
  ::onnx::ModelProto proto;
  const std::string bytes = serialize(model_of(node, all, inputs));
  TEMPERA_CHECK(proto.ParseFromString(bytes), "our own bytes can be parsed");
  fill_defaults(*proto.mutable_graph()->mutable_node(0), *schema);
  const std::string domain = proto.graph().node(0).domain();
  const auto selected = ::onnx::inliner::FunctionIdSet::Create({{domain, node.op_type}});
  ::onnx::inliner::InlineSelectedFunctions(proto, *selected, ::onnx::OpSchemaRegistry::Instance());
  if (proto.graph().node_size() == 1 && proto.graph().node(0).op_type() == node.op_type) {
    return std::nullopt;  // the schema gives no body for these types
  }
  const std::string inlined = proto.SerializeAsString();
  graph::Model body = read_model(std::as_bytes(std::span(inlined)));
  graph::Function function;
  function.domain = node.domain;
  function.name = node.op_type;
  function.opsets = std::move(body.opsets);
  function.body = std::move(body.graph);
  return function;
}

}  // namespace tempera::onnx
