#include "tempera/onnx/import.h"

#include <algorithm>
#include <set>
#include <unordered_set>

#include <fmt/format.h>

#include "tempera/base/error.h"
#include "tempera/onnx/opset.h"
#include "tempera/onnx/origins.h"
#include "tempera/onnx/problems.h"
#include "tempera/onnx/tensor_proto.h"
#include "tempera/onnx/type_proto.h"

namespace tempera::onnx {
namespace {

using graph::Attribute;
using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::ValueId;
using graph::ValueType;

// "ai.onnx" and "" name the same domain.
std::string domain_from(const std::string& name) { return name == "ai.onnx" ? std::string() : name; }

std::string describe(const pb::NodeProto& node) {
  const std::string& label = node.name().empty() && node.output_size() > 0 ? node.output(0) : node.name();
  return fmt::format("node '{}' ({})", printable(label), printable(node.op_type()));
}

// A graph being filled, inside the one whose values it may read.
struct Scope {
  Graph& graph;
  Scope* parent;
  int depth;
};

class Importer {
 public:
  Importer(pb::ModelProto& proto, ExternalData& external, const ReadOptions& options)
      : proto_(proto), external_(external), options_(options) {}

  graph::Model model() {
    check_version();
    model_.ir_version = proto_.ir_version();
    model_.producer_name = proto_.producer_name();
    model_.producer_version = proto_.producer_version();
    model_.domain = proto_.domain();
    model_.model_version = proto_.model_version();
    model_.doc = proto_.doc_string();
    model_.opsets = opsets_from(proto_.opset_import());
    model_.metadata = metadata_from(proto_.metadata_props());
    model_.unmodelled = unmodelled_of_model();
    fill_main_graph();
    std::set<std::string> known;
    for (pb::FunctionProto& function : *proto_.mutable_functions()) {
      const std::string key = function.domain() + "\n" + function.name() + "\n" + function.overload();
      if (!known.insert(key).second) {
        problems_.add(fmt::format("function '{}.{}' is defined twice", printable(function.domain()),
                                  printable(function.name())));
      }
      model_.functions.push_back(function_from(function));
    }
    problems_.throw_if_any();
    sort_all();
    return std::move(model_);
  }

 private:
  // -- the model's head --------------------------------------------------------------------------------------------------

  void check_version() {
    const std::int64_t version = proto_.ir_version();
    if (version < 3 || version > kNewestIrVersion) {
      throw Error(ErrorCode::kUnsupported,
                  fmt::format("IR version {} is not supported, expected 3 to {}", version, kNewestIrVersion),
                  version > kNewestIrVersion ? "export the model for an older version of ONNX"
                                             : "export the model again with a newer exporter");
    }
    if (!proto_.has_graph()) {
      throw Error(ErrorCode::kBadModel, "the file holds no graph");
    }
  }

  graph::Opsets opsets_from(const google::protobuf::RepeatedPtrField<pb::OperatorSetIdProto>& imports) {
    graph::Opsets opsets;
    for (const pb::OperatorSetIdProto& entry : imports) {
      const std::string domain = domain_from(entry.domain());
      if (!opsets.emplace(domain, entry.version()).second && opsets[domain] != entry.version()) {
        problems_.add(fmt::format("two versions of domain '{}' are imported: {} and {}", printable(domain),
                                  opsets[domain], entry.version()));
      }
      if (entry.version() < 1) {
        problems_.add(fmt::format("opset {} of domain '{}' is not valid", entry.version(), printable(domain)));
      } else if (domain.empty() && entry.version() > kNewestOpset) {
        throw Error(ErrorCode::kUnsupported,
                    fmt::format("opset {} is not supported, the newest known is {}", entry.version(), kNewestOpset),
                    fmt::format("export the model with opset {} or lower", kNewestOpset));
      }
    }
    return opsets;
  }

  std::string unmodelled_of_model() {
    pb::ModelProto rest;
    *rest.mutable_training_info() = proto_.training_info();
    *rest.mutable_configuration() = proto_.configuration();
    *rest.mutable_unknown_fields() = proto_.unknown_fields();
    return rest.SerializePartialAsString();
  }

  void fill_main_graph() {
    Scope main{model_.graph, nullptr, 0};
    fill(main, *proto_.mutable_graph());
  }

  // -- graphs ------------------------------------------------------------------------------------------------------------

  void fill(Scope& scope, pb::GraphProto& proto) {
    Graph& g = scope.graph;
    g.name = proto.name();
    g.doc = proto.doc_string();
    g.metadata = metadata_from(proto.metadata_props());
    add_inputs(g, proto);
    add_initializers(g, proto);
    add_node_outputs(g, proto.node());
    add_types(g, proto);
    for (pb::SparseTensorProto& sparse : *proto.mutable_sparse_initializer()) {
      add_sparse_initializer(g, sparse);
    }
    add_nodes(scope, *proto.mutable_node());
    add_outputs(scope, proto.output());
    keep_unmodelled(g, proto);
  }

  // Whether a value of this name can be added; a problem otherwise.
  bool is_new(const Graph& g, const std::string& name, std::string_view kind) {
    if (name.empty()) {
      problems_.add(fmt::format("a {} has no name", kind));
      return false;
    }
    if (g.find_value(name).has_value()) {
      problems_.add(fmt::format("{} '{}' is defined twice", kind, printable(name)));
      return false;
    }
    return true;
  }

  void add_inputs(Graph& g, const pb::GraphProto& proto) {
    std::unordered_set<std::string_view> initializers;
    if (proto_.ir_version() < 4) {
      for (const pb::TensorProto& tensor : proto.initializer()) {
        initializers.insert(tensor.name());
      }
    }
    for (const pb::ValueInfoProto& input : proto.input()) {
      if (initializers.count(input.name()) == 0 && is_new(g, input.name(), "input")) {
        const ValueId id = g.add_input(input.name(), type_of(input));
        g.set_notes(id, input.doc_string(), metadata_from(input.metadata_props()));
      }
    }
  }

  ValueType type_of(const pb::ValueInfoProto& info) {
    try {
      return type_from(info.type(), options_.max_depth);
    } catch (const Error& e) {
      const Problems::Frame frame(problems_, fmt::format("the type of '{}'", printable(info.name())));
      problems_.add(e);
      return {};
    }
  }

  void add_initializers(Graph& g, pb::GraphProto& proto) {
    for (pb::TensorProto& source : *proto.mutable_initializer()) {
      try {
        const std::optional<ValueId> input = g.find_value(source.name());
        const bool is_default = input.has_value() && g.value(*input).is_input && !g.value(*input).constant.has_value();
        if (!is_default && !is_new(g, source.name(), "initializer")) {
          continue;
        }
        graph::Tensor tensor = tensor_from(source, external_);
        if (is_default) {
          set_default(g, *input, std::move(tensor));
        } else {
          const ValueId id = g.add_initializer(source.name(), std::move(tensor));
          g.set_notes(id, source.doc_string(), metadata_from(source.metadata_props()));
        }
      } catch (const Error& e) {
        add_tensor_problem(e, fmt::format("initializer '{}'", printable(source.name())));
        if (!source.name().empty() && !g.find_value(source.name()).has_value()) {
          g.add_initializer(source.name(), graph::Tensor());  // so that its readers are not reported too
        }
      }
    }
  }

  void set_default(Graph& g, ValueId input, graph::Tensor tensor) {
    const ValueType declared = g.value(input).type;
    if (declared.is_tensor() && declared.element != graph::DataType::kUndefined && declared.element != tensor.type()) {
      problems_.add(fmt::format("input '{}' is declared as {}, but its default is {}", printable(g.value(input).name),
                                numeric::to_string(declared.element), numeric::to_string(tensor.type())));
    }
    g.set_constant(input, std::move(tensor));
    if (declared.kind != ValueType::Kind::kUnknown) {
      g.set_type(input, declared);
    }
  }

  // A missing file stops the reading with its own code; the rest are problems of the model.
  void add_tensor_problem(const Error& error, const std::string& where) {
    if (error.code() != ErrorCode::kBadModel) {
      Error located = error;
      throw located.in(where);
    }
    const Problems::Frame frame(problems_, where);
    problems_.add(error);
  }

  void add_node_outputs(Graph& g, const google::protobuf::RepeatedPtrField<pb::NodeProto>& nodes) {
    outputs_.clear();
    for (const pb::NodeProto& node : nodes) {
      std::vector<ValueId>& outputs = outputs_.emplace_back();
      for (const std::string& name : node.output()) {
        if (name.empty()) {
          outputs.emplace_back();
        } else if (g.find_value(name).has_value()) {
          const Problems::Frame frame(problems_, describe(node));
          problems_.add(fmt::format("'{}' is made twice: another node, input or initializer has that name",
                                    printable(name)));
          outputs.emplace_back();
        } else {
          outputs.push_back(g.add_value(name));
        }
      }
    }
  }

  void add_types(Graph& g, const pb::GraphProto& proto) {
    for (const pb::ValueInfoProto& info : proto.value_info()) {
      if (const std::optional<ValueId> id = g.find_value(info.name())) {
        set_type(g, *id, info);
      }
    }
    if (proto_.ir_version() < 4) {
      for (const pb::ValueInfoProto& input : proto.input()) {
        const std::optional<ValueId> id = g.find_value(input.name());
        if (id.has_value() && !g.value(*id).is_input) {
          set_type(g, *id, input);
        }
      }
    }
    for (const pb::ValueInfoProto& output : proto.output()) {
      if (const std::optional<ValueId> id = g.find_value(output.name())) {
        set_type(g, *id, output);
      }
    }
  }

  void set_type(Graph& g, ValueId id, const pb::ValueInfoProto& info) {
    const graph::Value& value = g.value(id);
    ValueType type = type_of(info);
    if (value.constant.has_value() && !value.is_input) {
      if (value.constant->defined() && type.is_tensor() && type.element != graph::DataType::kUndefined &&
          type.element != value.constant->type()) {
        problems_.add(fmt::format("'{}' is declared as {}, but its initializer is {}", printable(value.name),
                                  numeric::to_string(type.element), numeric::to_string(value.constant->type())));
      }
      ValueType known = value.type;  // the tensor says more than any declaration
      known.denotation = type.denotation;
      g.set_type(id, std::move(known));
    } else if (!value.is_input && type.kind != ValueType::Kind::kUnknown) {
      g.set_type(id, std::move(type));
    }
    if (!info.doc_string().empty() || info.metadata_props_size() > 0) {
      g.set_notes(id, info.doc_string(), metadata_from(info.metadata_props()));
    }
  }

  void add_sparse_initializer(Graph& g, pb::SparseTensorProto& proto) {
    const std::string& name = proto.values().name();
    if (!is_new(g, name, "sparse initializer")) {
      return;
    }
    try {
      Node node;
      node.op_type = "Constant";
      graph::SparseTensor sparse = sparse_from(proto, external_);
      node.outputs = {g.add_value(name, ValueType::tensor(sparse.values.type(), graph::shape_of(sparse.dims)))};
      node.attributes.emplace("sparse_value", std::move(sparse));
      node.metadata.emplace_back(kSparseInitializerMark, "");
      g.add_node(std::move(node));
    } catch (const Error& e) {
      add_tensor_problem(e, fmt::format("sparse initializer '{}'", printable(name)));
    }
  }

  void add_nodes(Scope& scope, google::protobuf::RepeatedPtrField<pb::NodeProto>& nodes) {
    const std::vector<std::vector<ValueId>> outputs = std::move(outputs_);  // bodies fill the member anew
    for (int i = 0; i < nodes.size(); ++i) {
      pb::NodeProto& source = *nodes.Mutable(i);
      const Problems::Frame frame(problems_, describe(source));
      Node node = node_from(scope, source);
      node.outputs = outputs[static_cast<std::size_t>(i)];
      scope.graph.add_node(std::move(node));
    }
  }

  Node node_from(Scope& scope, pb::NodeProto& source) {
    Node node;
    node.op_type = source.op_type();
    node.domain = domain_from(source.domain());
    node.overload = source.overload();
    node.name = source.name();
    node.doc = source.doc_string();
    node.metadata = metadata_from(source.metadata_props());
    if (node.op_type.empty()) {
      problems_.add("the node names no operator");
    }
    for (const std::string& name : source.input()) {
      node.inputs.push_back(name.empty() ? ValueId{} : resolve_or_report(scope, name));
    }
    for (pb::AttributeProto& attribute : *source.mutable_attribute()) {
      const Problems::Frame frame(problems_, fmt::format("attribute '{}'", printable(attribute.name())));
      if (node.attributes.count(attribute.name()) != 0) {
        problems_.add("the attribute is given twice");
        continue;
      }
      try {
        node.attributes.emplace(attribute.name(), attribute_from(scope, attribute));
      } catch (const Error& e) {
        add_tensor_problem(e, fmt::format("attribute '{}'", printable(attribute.name())));
      }
    }
    node.unmodelled = unmodelled_of_node(source);
    return node;
  }

  static std::string unmodelled_of_node(const pb::NodeProto& source) {
    pb::NodeProto rest;
    *rest.mutable_device_configurations() = source.device_configurations();
    *rest.mutable_unknown_fields() = source.unknown_fields();
    for (const pb::AttributeProto& attribute : source.attribute()) {
      if (!attribute.doc_string().empty()) {
        pb::AttributeProto& kept = *rest.add_attribute();
        kept.set_name(attribute.name());
        kept.set_doc_string(attribute.doc_string());
      }
    }
    return rest.SerializePartialAsString();
  }

  void add_outputs(Scope& scope, const google::protobuf::RepeatedPtrField<pb::ValueInfoProto>& outputs) {
    for (const pb::ValueInfoProto& output : outputs) {
      const Problems::Frame frame(problems_, fmt::format("the outputs of graph '{}'", printable(scope.graph.name)));
      const ValueId id = resolve_or_report(scope, output.name());
      if (id.valid()) {
        scope.graph.add_output(id);
      }
    }
  }

  // The value of that name as the scope's graph sees it, captured level by level when it lies outside.
  ValueId resolve(Scope& scope, const std::string& name) {
    if (const std::optional<ValueId> local = scope.graph.find_value(name)) {
      return *local;
    }
    if (scope.parent == nullptr) {
      return {};
    }
    const ValueId outer = resolve(*scope.parent, name);
    if (!outer.valid()) {
      return {};
    }
    return scope.graph.add_capture(outer, name, scope.parent->graph.value(outer).type);
  }

  ValueId resolve_or_report(Scope& scope, const std::string& name) {
    const ValueId id = resolve(scope, name);
    if (!id.valid()) {
      problems_.add(fmt::format("'{}' is read, but nothing makes it: no node, input or initializer has that name",
                                printable(name)));
    }
    return id;
  }

  void keep_unmodelled(Graph& g, const pb::GraphProto& proto) {
    pb::GraphProto rest;
    *rest.mutable_quantization_annotation() = proto.quantization_annotation();
    *rest.mutable_unknown_fields() = proto.unknown_fields();
    for (const pb::ValueInfoProto& info : proto.value_info()) {
      if (!g.find_value(info.name()).has_value()) {
        *rest.add_value_info() = info;  // of values inside functions, or left behind by an exporter
      }
    }
    g.unmodelled = rest.SerializePartialAsString();
  }

  // -- attributes ----------------------------------------------------------------------------------------------------------

  Attribute attribute_from(Scope& scope, pb::AttributeProto& source) {
    if (source.name().empty()) {
      problems_.add("an attribute has no name");
    }
    if (!source.ref_attr_name().empty()) {
      if (!in_function_) {
        problems_.add("the attribute refers to one of a function, but the node lies in none");
      }
      return graph::AttributeReference{source.ref_attr_name(), static_cast<int>(source.type())};
    }
    switch (kind_of(source)) {
      case pb::AttributeProto::FLOAT: return source.f();
      case pb::AttributeProto::INT: return static_cast<std::int64_t>(source.i());
      case pb::AttributeProto::STRING: return source.s();
      case pb::AttributeProto::TENSOR: return tensor_from(*source.mutable_t(), external_);
      case pb::AttributeProto::GRAPH: return body_from(scope, *source.mutable_g());
      case pb::AttributeProto::SPARSE_TENSOR: return sparse_from(*source.mutable_sparse_tensor(), external_);
      case pb::AttributeProto::TYPE_PROTO: return type_from(source.tp(), options_.max_depth);
      case pb::AttributeProto::FLOATS: return std::vector<float>(source.floats().begin(), source.floats().end());
      case pb::AttributeProto::INTS: return std::vector<std::int64_t>(source.ints().begin(), source.ints().end());
      case pb::AttributeProto::STRINGS:
        return std::vector<std::string>(source.strings().begin(), source.strings().end());
      case pb::AttributeProto::TENSORS: {
        std::vector<graph::Tensor> tensors;
        for (pb::TensorProto& tensor : *source.mutable_tensors()) {
          tensors.push_back(tensor_from(tensor, external_));
        }
        return tensors;
      }
      case pb::AttributeProto::GRAPHS: {
        std::vector<graph::Body> bodies;
        for (pb::GraphProto& body : *source.mutable_graphs()) {
          bodies.push_back(body_from(scope, body));
        }
        return bodies;
      }
      case pb::AttributeProto::SPARSE_TENSORS: {
        std::vector<graph::SparseTensor> tensors;
        for (pb::SparseTensorProto& tensor : *source.mutable_sparse_tensors()) {
          tensors.push_back(sparse_from(tensor, external_));
        }
        return tensors;
      }
      case pb::AttributeProto::TYPE_PROTOS: {
        std::vector<ValueType> types;
        for (const pb::TypeProto& type : source.type_protos()) {
          types.push_back(type_from(type, options_.max_depth));
        }
        return types;
      }
      default: break;
    }
    throw Error(ErrorCode::kBadModel, fmt::format("attribute type {} is unknown", static_cast<int>(source.type())));
  }

  // The declared type, or for files without one the field that is filled.
  static pb::AttributeProto::AttributeType kind_of(const pb::AttributeProto& source) {
    using Proto = pb::AttributeProto;
    if (source.type() != Proto::UNDEFINED) {
      return source.type();
    }
    return source.has_f()                        ? Proto::FLOAT
           : source.has_i()                      ? Proto::INT
           : source.has_s()                      ? Proto::STRING
           : source.has_t()                      ? Proto::TENSOR
           : source.has_g()                      ? Proto::GRAPH
           : source.has_sparse_tensor()          ? Proto::SPARSE_TENSOR
           : source.has_tp()                     ? Proto::TYPE_PROTO
           : source.floats_size() > 0            ? Proto::FLOATS
           : source.ints_size() > 0              ? Proto::INTS
           : source.strings_size() > 0           ? Proto::STRINGS
           : source.tensors_size() > 0           ? Proto::TENSORS
           : source.graphs_size() > 0            ? Proto::GRAPHS
           : source.sparse_tensors_size() > 0    ? Proto::SPARSE_TENSORS
           : source.type_protos_size() > 0       ? Proto::TYPE_PROTOS
                                                 : Proto::UNDEFINED;
  }

  graph::Body body_from(Scope& scope, pb::GraphProto& source) {
    graph::Body body{Graph()};
    if (scope.depth >= options_.max_depth) {
      problems_.add(fmt::format("bodies nest deeper than {}", options_.max_depth));
      return body;
    }
    Scope inner{body.graph(), &scope, scope.depth + 1};
    fill(inner, source);
    return body;
  }

  // -- functions -------------------------------------------------------------------------------------------------------------

  graph::Function function_from(pb::FunctionProto& source) {
    const Problems::Frame frame(problems_, fmt::format("function '{}.{}'", printable(source.domain()),
                                                       printable(source.name())));
    graph::Function function;
    function.domain = domain_from(source.domain());
    function.name = source.name();
    function.overload = source.overload();
    function.doc = source.doc_string();
    function.attributes.assign(source.attribute().begin(), source.attribute().end());
    function.opsets = opsets_from(source.opset_import());
    function.metadata = metadata_from(source.metadata_props());
    in_function_ = true;
    Graph& g = function.body;
    g.name = source.name();
    for (const std::string& name : source.input()) {
      if (is_new(g, name, "input")) {
        g.add_input(name, {});
      }
    }
    add_node_outputs(g, source.node());
    Scope scope{g, nullptr, 0};
    pb::GraphProto rest;
    for (const pb::ValueInfoProto& info : source.value_info()) {
      const std::optional<ValueId> id = g.find_value(info.name());
      if (!id.has_value()) {
        *rest.add_value_info() = info;
      } else if (g.value(*id).is_input) {
        g.set_type(*id, type_of(info));
        g.set_notes(*id, info.doc_string(), metadata_from(info.metadata_props()));
      } else {
        set_type(g, *id, info);
      }
    }
    g.unmodelled = rest.SerializePartialAsString();
    add_nodes(scope, *source.mutable_node());
    for (const std::string& name : source.output()) {
      const ValueId id = resolve_or_report(scope, name);
      if (id.valid()) {
        g.add_output(id);
      }
    }
    for (pb::AttributeProto& attribute : *source.mutable_attribute_proto()) {
      const std::string where = fmt::format("attribute '{}'", printable(attribute.name()));
      try {
        function.defaults.emplace(attribute.name(), attribute_from(scope, attribute));
      } catch (const Error& e) {
        add_tensor_problem(e, where);
      }
    }
    in_function_ = false;
    return function;
  }

  // -- order and origins -------------------------------------------------------------------------------------------------------

  void sort_all() {
    model_.graph.sort();
    set_origins(model_.graph);
    for (graph::Function& function : model_.functions) {
      try {
        function.body.sort();
      } catch (Error& e) {
        e.in(fmt::format("function '{}.{}'", printable(function.domain), printable(function.name)));
        throw;
      }
    }
  }

  static void set_origins(Graph& main) {
    graph::for_each_graph(main, [](Graph& g) {
      for (const ValueId id : g.values()) {
        take_origin(g, id);
      }
    });
  }

  pb::ModelProto& proto_;
  ExternalData& external_;
  const ReadOptions& options_;
  Problems problems_;
  graph::Model model_;
  std::vector<std::vector<ValueId>> outputs_;  // of each node of the graph being filled
  bool in_function_ = false;
};

}  // namespace

graph::Model import_model(pb::ModelProto& proto, ExternalData& external, const ReadOptions& options) {
  return Importer(proto, external, options).model();
}

}  // namespace tempera::onnx
