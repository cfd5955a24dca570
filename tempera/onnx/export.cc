#include "tempera/onnx/export.h"

#include <algorithm>
#include <set>
#include <type_traits>

#include <fmt/format.h>

#include "tempera/base/error.h"
#include "tempera/onnx/import.h"
#include "tempera/onnx/origins.h"
#include "tempera/onnx/tensor_proto.h"
#include "tempera/onnx/type_proto.h"

namespace tempera::onnx {
namespace {

using graph::Attribute;
using graph::DataType;
using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::Tensor;
using graph::Value;
using graph::ValueId;
using graph::ValueType;

// The names of one graph as they are written, inside those of the graphs around it.
struct Scope {
  const Graph& graph;
  const Scope* parent;
  std::vector<std::string>& names;  // by value index
  std::set<std::string, std::less<>> used;
  std::set<ValueId> captures;  // of `graph`, and its outputs: sets, as every value is looked up
  std::set<ValueId> outputs;

  [[nodiscard]] bool is_used(std::string_view name) const {
    return used.find(name) != used.end() || (parent != nullptr && parent->is_used(name));
  }
  [[nodiscard]] std::string unused_name(const std::string& stem) const {
    std::string name = stem;
    for (int i = 1; is_used(name) || (i > 1 && graph.find_value(name).has_value()); ++i) {
      name = fmt::format("{}_{}", stem, i);
    }
    return name;
  }
};

class Exporter {
 public:
  Exporter(const graph::Model& model, const ExportOptions& options) : model_(model), options_(options) {}

  Exported model() {
    pb::ModelProto& proto = result_.proto;
    TEMPERA_CHECK(proto.ParsePartialFromString(model_.unmodelled), "the kept fields of a model are damaged");
    ir_version_ = needed_ir_version(model_);
    proto.set_ir_version(ir_version_);
    set_if(model_.producer_name, [&](const std::string& s) { proto.set_producer_name(s); });
    set_if(model_.producer_version, [&](const std::string& s) { proto.set_producer_version(s); });
    set_if(model_.domain, [&](const std::string& s) { proto.set_domain(s); });
    if (model_.model_version != 0) {
      proto.set_model_version(model_.model_version);
    }
    set_if(model_.doc, [&](const std::string& s) { proto.set_doc_string(s); });
    opsets_to(model_.opsets, *proto.mutable_opset_import());
    metadata_to(model_.metadata, *proto.mutable_metadata_props());
    Scope main = scope_of(model_.graph, nullptr);
    graph_to(main, *proto.mutable_graph());
    for (const graph::Function& function : model_.functions) {
      function_to(function, *proto.add_functions());
    }
    return std::move(result_);
  }

 private:
  template <typename Set>
  static void set_if(const std::string& text, Set set) {
    if (!text.empty()) {
      set(text);
    }
  }

  static void opsets_to(const graph::Opsets& opsets, google::protobuf::RepeatedPtrField<pb::OperatorSetIdProto>& protos) {
    for (const auto& [domain, version] : opsets) {
      pb::OperatorSetIdProto& entry = *protos.Add();
      entry.set_domain(domain);
      entry.set_version(version);
    }
  }

  // -- names -------------------------------------------------------------------------------------------------------------

  // Decides the written name of every value of the graph.
  Scope scope_of(const Graph& graph, const Scope* parent) {
    Scope scope{graph, parent, result_.names[&graph], {}, {}, {graph.outputs().begin(), graph.outputs().end()}};
    const std::vector<ValueId> values = graph.values();
    if (!values.empty()) {
      scope.names.resize(values.back().index + 1);
    }
    for (const graph::Capture& capture : graph.captures()) {
      scope.captures.insert(capture.inner);
      scope.names[capture.inner.index] = name_of(*parent, capture.outer);
    }
    for (const ValueId id : values) {
      if (scope.captures.count(id) == 0) {
        std::string name = scope.unused_name(graph.value(id).name);
        scope.used.insert(name);
        scope.names[id.index] = std::move(name);
      }
    }
    return scope;
  }

  static const std::string& name_of(const Scope& scope, ValueId id) {
    static const std::string kLeftOut;
    return id.valid() ? scope.names.at(id.index) : kLeftOut;
  }

  // -- graphs ------------------------------------------------------------------------------------------------------------

  void graph_to(Scope& scope, pb::GraphProto& proto) {
    const Graph& g = scope.graph;
    keep_unmodelled(scope, proto);
    proto.set_name(g.name.empty() ? "graph" : g.name);  // the checker wants one
    set_if(g.doc, [&](const std::string& s) { proto.set_doc_string(s); });
    metadata_to(g.metadata, *proto.mutable_metadata_props());
    for (const ValueId id : g.inputs()) {
      info_to(scope, id, *proto.add_input());
    }
    initializers_to(scope, proto);
    for (const NodeId id : g.nodes()) {
      const Node& node = g.node(id);
      if (is_sparse_initializer(node)) {
        sparse_initializer_to(scope, node, *proto.add_sparse_initializer());
      } else {
        node_to(scope, node, *proto.add_node());
      }
    }
    for (const ValueId id : g.outputs()) {
      output_to(scope, id, proto);
    }
    for (const ValueId id : g.values()) {
      if (needs_info(scope, id)) {
        info_to(scope, id, *proto.add_value_info());
      }
    }
  }

  void keep_unmodelled(const Scope& scope, pb::GraphProto& proto) {
    TEMPERA_CHECK(proto.ParsePartialFromString(scope.graph.unmodelled), "the kept fields of a graph are damaged");
    // Declarations of names that did not exist when the file was read must not speak of new values.
    auto& infos = *proto.mutable_value_info();
    infos.erase(std::remove_if(infos.begin(), infos.end(),
                               [&](const pb::ValueInfoProto& info) { return scope.is_used(info.name()); }),
                infos.end());
  }

  static bool needs_info(const Scope& scope, ValueId id) {
    const Value& value = scope.graph.value(id);
    if (value.is_input || value.constant.has_value() || scope.outputs.count(id) != 0 || scope.captures.count(id) != 0) {
      return false;
    }
    if (value.producer.valid() && is_sparse_initializer(scope.graph.node(value.producer))) {
      return false;
    }
    return value.type.kind != ValueType::Kind::kUnknown || !value.doc.empty() || !value.metadata.empty() ||
           origin_note(value, name_of(scope, id)).has_value();
  }

  static void notes_to(const Scope& scope, ValueId id, google::protobuf::RepeatedPtrField<pb::StringStringEntryProto>& props) {
    const Value& value = scope.graph.value(id);
    metadata_to(value.metadata, props);
    if (const auto note = origin_note(value, name_of(scope, id))) {
      metadata_to({*note}, props);
    }
  }

  void info_to(const Scope& scope, ValueId id, pb::ValueInfoProto& proto) {
    const Value& value = scope.graph.value(id);
    proto.set_name(name_of(scope, id));
    if (value.type.kind != ValueType::Kind::kUnknown || !value.type.denotation.empty()) {
      type_to(value.type, *proto.mutable_type());
    }
    set_if(value.doc, [&](const std::string& s) { proto.set_doc_string(s); });
    notes_to(scope, id, *proto.mutable_metadata_props());
  }

  void initializers_to(const Scope& scope, pb::GraphProto& proto) {
    const Graph& g = scope.graph;
    const bool is_main = &g == &model_.graph;
    for (const ValueId id : g.values()) {
      const Value& value = g.value(id);
      if (!value.constant.has_value()) {
        continue;
      }
      if (is_main && becomes_input(*value.constant)) {
        if (!value.is_input) {
          info_to(scope, id, *proto.add_input());
        }
        result_.replaced.push_back(id);
        continue;
      }
      pb::TensorProto& tensor = *proto.add_initializer();
      tensor.set_name(name_of(scope, id));
      store(*value.constant, is_main ? Place::kMainInitializer : Place::kInner, tensor);
      if (value.is_input) {
        continue;
      }
      set_if(value.doc, [&](const std::string& s) { tensor.set_doc_string(s); });
      notes_to(scope, id, *tensor.mutable_metadata_props());
      if (ir_version_ < 4) {
        info_to(scope, id, *proto.add_input());
      }
    }
  }

  [[nodiscard]] bool becomes_input(const Tensor& tensor) const {
    return options_.inputs_from_bytes >= 0 && tensor.type() != DataType::kString &&
           static_cast<std::int64_t>(tensor.bytes().size()) >= options_.inputs_from_bytes;
  }

  void store(const Tensor& tensor, Place place, pb::TensorProto& proto) {
    if (options_.store && tensor.type() != DataType::kString) {
      tensor_header_to(tensor, proto);
      options_.store(tensor, place, proto);
    } else {
      tensor_to(tensor, proto);
    }
  }

  // The engines refuse a body that hands an outer value straight on: a node in between makes it the body's own.
  void output_to(Scope& scope, ValueId id, pb::GraphProto& proto) {
    pb::ValueInfoProto& info = *proto.add_output();
    info_to(scope, id, info);
    if (scope.captures.count(id) == 0) {
      return;
    }
    const std::string name = scope.unused_name(name_of(scope, id) + "_out");
    scope.used.insert(name);
    pb::NodeProto& identity = *proto.add_node();
    identity.set_op_type("Identity");
    identity.add_input(name_of(scope, id));
    identity.add_output(name);
    info.set_name(name);
  }

  static bool is_sparse_initializer(const Node& node) {
    return node.is("Constant") && std::any_of(node.metadata.begin(), node.metadata.end(), [](const auto& entry) {
             return entry.first == kSparseInitializerMark;
           });
  }

  void sparse_initializer_to(const Scope& scope, const Node& node, pb::SparseTensorProto& proto) {
    sparse_to(std::get<graph::SparseTensor>(node.attributes.at("sparse_value")), proto);
    proto.mutable_values()->set_name(name_of(scope, node.outputs.at(0)));
  }

  void sparse_to(const graph::SparseTensor& sparse, pb::SparseTensorProto& proto) {
    store(sparse.values, Place::kInner, *proto.mutable_values());
    store(sparse.indices, Place::kInner, *proto.mutable_indices());
    for (const std::int64_t dim : sparse.dims) {
      proto.add_dims(dim);
    }
  }

  // -- nodes -------------------------------------------------------------------------------------------------------------

  void node_to(const Scope& scope, const Node& node, pb::NodeProto& proto) {
    pb::NodeProto kept;
    TEMPERA_CHECK(kept.ParsePartialFromString(node.unmodelled), "the kept fields of a node are damaged");
    *proto.mutable_device_configurations() = kept.device_configurations();
    *proto.mutable_unknown_fields() = kept.unknown_fields();
    proto.set_op_type(node.op_type);
    set_if(node.domain, [&](const std::string& s) { proto.set_domain(s); });
    set_if(node.overload, [&](const std::string& s) { proto.set_overload(s); });
    set_if(node.name, [&](const std::string& s) { proto.set_name(s); });
    set_if(node.doc, [&](const std::string& s) { proto.set_doc_string(s); });
    metadata_to(node.metadata, *proto.mutable_metadata_props());
    for (const ValueId id : node.inputs) {
      proto.add_input(name_of(scope, id));
    }
    for (const ValueId id : node.outputs) {
      proto.add_output(name_of(scope, id));
    }
    for (const auto& [name, attribute] : node.attributes) {
      pb::AttributeProto& target = *proto.add_attribute();
      attribute_to(&scope, name, attribute, target);
      for (const pb::AttributeProto& notes : kept.attribute()) {
        if (notes.name() == name) {
          target.set_doc_string(notes.doc_string());
        }
      }
    }
  }

  void attribute_to(const Scope* scope, const std::string& name, const Attribute& attribute, pb::AttributeProto& proto) {
    proto.set_name(name);
    std::visit([&](const auto& content) { content_to(scope, content, proto); }, attribute);
  }

  using Kind = pb::AttributeProto;

  static void content_to(const Scope*, float content, pb::AttributeProto& proto) {
    proto.set_type(Kind::FLOAT);
    proto.set_f(content);
  }
  static void content_to(const Scope*, std::int64_t content, pb::AttributeProto& proto) {
    proto.set_type(Kind::INT);
    proto.set_i(content);
  }
  static void content_to(const Scope*, const std::string& content, pb::AttributeProto& proto) {
    proto.set_type(Kind::STRING);
    proto.set_s(content);
  }
  void content_to(const Scope*, const Tensor& content, pb::AttributeProto& proto) {
    proto.set_type(Kind::TENSOR);
    store(content, Place::kInner, *proto.mutable_t());
  }
  void content_to(const Scope* scope, const graph::Body& content, pb::AttributeProto& proto) {
    proto.set_type(Kind::GRAPH);
    body_to(scope, content, *proto.mutable_g());
  }
  void content_to(const Scope*, const graph::SparseTensor& content, pb::AttributeProto& proto) {
    proto.set_type(Kind::SPARSE_TENSOR);
    sparse_to(content, *proto.mutable_sparse_tensor());
  }
  static void content_to(const Scope*, const ValueType& content, pb::AttributeProto& proto) {
    proto.set_type(Kind::TYPE_PROTO);
    type_to(content, *proto.mutable_tp());
  }
  static void content_to(const Scope*, const std::vector<float>& content, pb::AttributeProto& proto) {
    proto.set_type(Kind::FLOATS);
    proto.mutable_floats()->Add(content.begin(), content.end());
  }
  static void content_to(const Scope*, const std::vector<std::int64_t>& content, pb::AttributeProto& proto) {
    proto.set_type(Kind::INTS);
    proto.mutable_ints()->Add(content.begin(), content.end());
  }
  static void content_to(const Scope*, const std::vector<std::string>& content, pb::AttributeProto& proto) {
    proto.set_type(Kind::STRINGS);
    for (const std::string& text : content) {
      proto.add_strings(text);
    }
  }
  void content_to(const Scope*, const std::vector<Tensor>& content, pb::AttributeProto& proto) {
    proto.set_type(Kind::TENSORS);
    for (const Tensor& tensor : content) {
      store(tensor, Place::kInner, *proto.add_tensors());
    }
  }
  void content_to(const Scope* scope, const std::vector<graph::Body>& content, pb::AttributeProto& proto) {
    proto.set_type(Kind::GRAPHS);
    for (const graph::Body& body : content) {
      body_to(scope, body, *proto.add_graphs());
    }
  }
  void content_to(const Scope*, const std::vector<graph::SparseTensor>& content, pb::AttributeProto& proto) {
    proto.set_type(Kind::SPARSE_TENSORS);
    for (const graph::SparseTensor& sparse : content) {
      sparse_to(sparse, *proto.add_sparse_tensors());
    }
  }
  static void content_to(const Scope*, const std::vector<ValueType>& content, pb::AttributeProto& proto) {
    proto.set_type(Kind::TYPE_PROTOS);
    for (const ValueType& type : content) {
      type_to(type, *proto.add_type_protos());
    }
  }
  static void content_to(const Scope*, const graph::AttributeReference& content, pb::AttributeProto& proto) {
    proto.set_ref_attr_name(content.name);
    proto.set_type(static_cast<Kind::AttributeType>(content.type));
  }

  void body_to(const Scope* outer, const graph::Body& body, pb::GraphProto& proto) {
    Scope scope = scope_of(body.graph(), outer);
    graph_to(scope, proto);
  }

  // -- functions -----------------------------------------------------------------------------------------------------------

  void function_to(const graph::Function& function, pb::FunctionProto& proto) {
    proto.set_name(function.name);
    proto.set_domain(function.domain);
    set_if(function.overload, [&](const std::string& s) { proto.set_overload(s); });
    set_if(function.doc, [&](const std::string& s) { proto.set_doc_string(s); });
    for (const std::string& name : function.attributes) {
      proto.add_attribute(name);
    }
    opsets_to(function.opsets, *proto.mutable_opset_import());
    metadata_to(function.metadata, *proto.mutable_metadata_props());
    const Graph& g = function.body;
    Scope scope = scope_of(g, nullptr);
    for (const ValueId id : g.inputs()) {
      proto.add_input(name_of(scope, id));
    }
    for (const ValueId id : g.outputs()) {
      proto.add_output(name_of(scope, id));
    }
    for (const auto& [name, attribute] : function.defaults) {
      attribute_to(nullptr, name, attribute, *proto.add_attribute_proto());
    }
    // A function has no initialisers: they become Constant nodes.
    for (const ValueId id : g.values()) {
      const Value& value = g.value(id);
      if (value.constant.has_value()) {
        pb::NodeProto& constant = *proto.add_node();
        constant.set_op_type("Constant");
        constant.add_output(name_of(scope, id));
        attribute_to(nullptr, "value", *value.constant, *constant.add_attribute());
      }
    }
    for (const NodeId id : g.nodes()) {
      node_to(scope, g.node(id), *proto.add_node());
    }
    function_types_to(scope, proto);
  }

  void function_types_to(const Scope& scope, pb::FunctionProto& proto) {
    const Graph& g = scope.graph;
    pb::GraphProto kept;
    keep_unmodelled(scope, kept);
    *proto.mutable_value_info() = kept.value_info();
    for (const ValueId id : g.values()) {
      const Value& value = g.value(id);
      if (!value.constant.has_value() &&
          (value.type.kind != ValueType::Kind::kUnknown || !value.doc.empty() || !value.metadata.empty())) {
        info_to(scope, id, *proto.add_value_info());
      }
    }
  }

  const graph::Model& model_;
  const ExportOptions& options_;
  Exported result_;
  std::int64_t ir_version_ = 0;
};

// Versions from the list at the head of onnx.proto.
std::int64_t ir_version_for(DataType type) {
  switch (type) {
    case DataType::kBfloat16: return 4;
    case DataType::kFloat8E4M3FN:
    case DataType::kFloat8E4M3FNUZ:
    case DataType::kFloat8E5M2:
    case DataType::kFloat8E5M2FNUZ: return 9;
    case DataType::kUint4:
    case DataType::kInt4: return 10;
    case DataType::kFloat4E2M1: return 11;
    case DataType::kFloat8E8M0: return 12;
    case DataType::kUint2:
    case DataType::kInt2: return 13;
    case DataType::kFloat6E2M3:
    case DataType::kFloat6E3M2: return 14;
    default: return 3;
  }
}

std::int64_t ir_version_for(const ValueType& type) {
  std::int64_t version = ir_version_for(type.element);
  if (type.kind == ValueType::Kind::kOptional || type.kind == ValueType::Kind::kSparseTensor) {
    version = std::max<std::int64_t>(version, 8);
  }
  return type.inner == nullptr ? version : std::max(version, ir_version_for(*type.inner));
}

std::int64_t ir_version_for(const Graph& main, bool is_function) {
  std::int64_t version = 3;
  graph::for_each_graph(main, [&](const Graph& g) {
    for (const ValueId id : g.values()) {
      const Value& value = g.value(id);
      version = std::max(version, ir_version_for(value.type));
      if (value.constant.has_value()) {
        version = std::max(version, ir_version_for(value.constant->type()));
        // Before version 4 initialisers are inputs, which a body's caller would have to give.
        if (&g != &main && !is_function) {
          version = std::max<std::int64_t>(version, 4);
        }
      }
    }
    for (const NodeId id : g.nodes()) {
      for (const auto& [name, attribute] : g.node(id).attributes) {
        if (const auto* tensor = std::get_if<Tensor>(&attribute)) {
          version = std::max(version, ir_version_for(tensor->type()));
        } else if (std::holds_alternative<graph::SparseTensor>(attribute)) {
          version = std::max<std::int64_t>(version, 6);
        } else if (const auto* type = std::get_if<ValueType>(&attribute)) {
          version = std::max(version, ir_version_for(*type));
        }
      }
    }
  });
  return version;
}

}  // namespace

std::int64_t needed_ir_version(const graph::Model& model) {
  std::int64_t version = std::max<std::int64_t>(model.ir_version, ir_version_for(model.graph, false));
  for (const graph::Function& function : model.functions) {
    version = std::max<std::int64_t>({version, 8, ir_version_for(function.body, true)});
  }
  return version;
}

Exported export_model(const graph::Model& model, const ExportOptions& options) {
  return Exporter(model, options).model();
}

}  // namespace tempera::onnx
