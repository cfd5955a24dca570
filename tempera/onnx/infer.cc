#include "tempera/onnx/infer.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <unordered_map>

#include <fmt/format.h>
#include <onnx/shape_inference/implementation.h>

#include "tempera/base/error.h"
#include "tempera/onnx/arity.h"
#include "tempera/onnx/export.h"
#include "tempera/onnx/problems.h"
#include "tempera/onnx/tensor_proto.h"
#include "tempera/onnx/type_proto.h"

namespace tempera::onnx {
namespace {

constexpr std::int64_t kLongestShape = std::int64_t{1} << 20;  // elements of a vector that may be taken for a shape

using graph::Dim;
using graph::Graph;
using graph::Shape;
using graph::ValueId;
using graph::ValueType;

// Initialisers from this size on are shown to the inference by type only: none that holds a shape is larger.
constexpr std::int64_t kLargeBytes = 1024;
constexpr int kMaxTypeDepth = 64;

using Sizes = std::map<std::string, std::int64_t, std::less<>>;  // of symbolic dimensions

// -- fixing inputs -------------------------------------------------------------------------------------------------------

void bind_symbols(const std::string& input, const Shape& declared, const graph::Dims& given, Sizes& sizes) {
  const auto refuse = [&](const std::string& why) {
    throw Error(ErrorCode::kInvalidArgument, fmt::format("input '{}' is {}, which {} does not fit: {}", input,
                                                         graph::to_string(declared), graph::to_string(given), why));
  };
  if (declared.size() != given.size()) {
    refuse(fmt::format("it has {} dimensions", declared.size()));
  }
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (given[i] < 0) {
      refuse("dimensions cannot be negative");
    }
    if (declared[i].fixed() && declared[i].value != given[i]) {
      refuse(fmt::format("dimension {} is fixed to {}", i, declared[i].value));
    }
    if (!declared[i].symbol.empty() && sizes.emplace(declared[i].symbol, given[i]).first->second != given[i]) {
      refuse(fmt::format("'{}' is {} elsewhere", declared[i].symbol, sizes.at(declared[i].symbol)));
    }
  }
}

ValueType with_sizes(ValueType type, const Sizes& sizes) {
  if (type.shape.has_value()) {
    for (Dim& dim : *type.shape) {
      const auto size = dim.symbol.empty() ? sizes.end() : sizes.find(dim.symbol);
      if (size != sizes.end()) {
        dim.value = size->second;
        dim.symbol.clear();
      }
    }
  }
  if (type.inner != nullptr) {
    type.inner = std::make_shared<const ValueType>(with_sizes(*type.inner, sizes));
  }
  return type;
}

void fix_inputs(Graph& main, const std::map<std::string, graph::Dims>& input_shapes) {
  Sizes sizes;
  std::vector<std::pair<ValueId, ValueType>> fixed;
  for (const auto& [name, dims] : input_shapes) {
    const auto found = std::find_if(main.inputs().begin(), main.inputs().end(),
                                    [&, &wanted = name](ValueId id) { return main.value(id).name == wanted; });
    if (found == main.inputs().end()) {
      std::vector<std::string> known;
      for (const ValueId id : main.inputs()) {
        known.push_back(main.value(id).name);
      }
      throw Error(ErrorCode::kNotFound, unknown_name("input", name, known));
    }
    ValueType type = main.value(*found).type;
    if (!type.is_tensor()) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("input '{}' is {} and has no dimensions to fix", name, graph::to_string(type)));
    }
    if (type.shape.has_value()) {
      bind_symbols(name, *type.shape, dims, sizes);
    }
    type.shape = graph::shape_of(dims);
    fixed.emplace_back(*found, std::move(type));
  }
  for (auto& [id, type] : fixed) {
    main.set_type(id, std::move(type));
  }
  if (!sizes.empty()) {
    graph::for_each_graph(main, [&](Graph& g) {
      for (const ValueId id : g.values()) {
        g.set_type(id, with_sizes(g.value(id).type, sizes));
      }
    });
  }
}

// -- inference -------------------------------------------------------------------------------------------------------------

// The message without the library's own labels.
std::string cleaned(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    if (text.substr(at).starts_with("[ShapeInferenceError] ") || text.substr(at).starts_with("[TypeInferenceError] ")) {
      at = text.find("] ", at) + 2;
    } else if (text.substr(at).starts_with("Inference error(s): ")) {
      at += std::string_view("Inference error(s): ").size();
    } else {
      out += text[at++];
    }
  }
  while (!out.empty() && (out.back() == '\n' || out.back() == ' ')) {
    out.pop_back();
  }
  return out;
}

bool is_long_vector(const pb::ValueInfoProto& value) {
  const pb::TensorShapeProto& shape = value.type().tensor_type().shape();
  return shape.dim_size() == 1 && shape.dim(0).dim_value() > kLongestShape;
}

bool has_long_vector(const google::protobuf::RepeatedPtrField<pb::ValueInfoProto>& values) {
  return std::any_of(values.begin(), values.end(), is_long_vector);
}

// The library propagates the elements of vectors that may be shapes, and makes an entry for every element of any vector,
// however long a hostile file says that it is.
bool is_safe_to_propagate(const pb::ModelProto& proto) {
  pb::ModelProto typed = proto;
  try {
    const pb::ShapeInferenceOptions options(/*check_type=*/false, /*strict_mode=*/0, /*data_prop=*/false);
    pb::shape_inference::InferShapes(typed, pb::OpSchemaRegistry::Instance(), options);
  } catch (const std::exception&) {
    return true;  // the inference proper reports it, and comes no further
  }
  const pb::GraphProto& graph = typed.graph();
  return !has_long_vector(graph.input()) && !has_long_vector(graph.output()) && !has_long_vector(graph.value_info());
}

void run_inference(pb::ModelProto& proto, bool strict) {
  const pb::ShapeInferenceOptions options(/*check_type=*/true, /*strict_mode=*/strict ? 1 : 0,
                                          /*data_prop=*/is_safe_to_propagate(proto));
  std::unordered_map<std::string, pb::TensorShapeProto> data;
  pb::shape_inference::InferShapes(proto, pb::OpSchemaRegistry::Instance(), options, &data);
}

// Whether a line of an inference message is about a node inside the expansion of a function, as in
// "(op_type:MeanVarianceNormalization): (op_type:Constant): ...". The library trips over attributes that a caller leaves
// to their defaults there, so such a line says nothing about the model. Bodies are reported alike, but count.
bool is_inside_function(std::string_view line) {
  constexpr std::string_view kNode = "(op_type:";
  if (!line.starts_with(kNode) || line.find(kNode, kNode.size()) == std::string_view::npos) {
    return false;
  }
  const std::string_view op_type = line.substr(kNode.size(), line.find_first_of(",)") - kNode.size());
  return op_type != "If" && op_type != "Loop" && op_type != "Scan" && op_type != "SequenceMap";
}

bool is_only_inside_functions(std::string_view message) {
  while (!message.empty()) {
    const std::size_t end = std::min(message.find('\n'), message.size());
    if (end > 0 && !is_inside_function(message.substr(0, end))) {
      return false;
    }
    message.remove_prefix(std::min(end + 1, message.size()));
  }
  return true;
}

// Removes what the file declares of values whose types can be inferred: everything but the outputs of operators that
// the library does not know.
void drop_declared(pb::GraphProto& proto) {
  std::set<std::string_view> kept;
  for (pb::NodeProto& node : *proto.mutable_node()) {
    if (!node.domain().empty()) {
      kept.insert(node.output().begin(), node.output().end());
    }
    for (pb::AttributeProto& attribute : *node.mutable_attribute()) {
      if (attribute.has_g()) {
        drop_declared(*attribute.mutable_g());
      }
      for (pb::GraphProto& body : *attribute.mutable_graphs()) {
        drop_declared(body);
      }
    }
  }
  auto& infos = *proto.mutable_value_info();
  infos.erase(std::remove_if(infos.begin(), infos.end(),
                             [&](const pb::ValueInfoProto& info) { return kept.count(info.name()) == 0; }),
              infos.end());
  for (pb::ValueInfoProto& output : *proto.mutable_output()) {
    if (kept.count(output.name()) == 0) {
      output.clear_type();
    }
  }
}

pb::ModelProto infer(const pb::ModelProto& proto) {
  pb::ModelProto attempt = proto;
  try {
    run_inference(attempt, true);
    return attempt;
  } catch (const std::exception&) {
    // Types that an exporter wrote down are at times wrong, and no engine minds: what follows from the inputs counts.
    attempt = proto;
    drop_declared(*attempt.mutable_graph());
  }
  const pb::ModelProto undeclared = attempt;
  try {
    run_inference(attempt, true);
    return attempt;
  } catch (const std::exception& e) {
    const std::string message = cleaned(e.what());
    if (!is_only_inside_functions(message)) {
      throw Error(ErrorCode::kBadModel, fmt::format("types do not fit together: {}", message));
    }
  }
  try {
    attempt = undeclared;
    run_inference(attempt, false);
    return attempt;
  } catch (const std::exception& e) {
    throw Error(ErrorCode::kBadModel, fmt::format("types do not fit together: {}", cleaned(e.what())));
  }
}

// -- taking the result over --------------------------------------------------------------------------------------------------

// The inferred type, with what only the known one says of it.
ValueType merged(ValueType inferred, const ValueType& known) {
  if (inferred.kind != known.kind || inferred.element != known.element) {
    return inferred;
  }
  inferred.denotation = known.denotation;
  if (!inferred.shape.has_value()) {
    inferred.shape = known.shape;
  } else if (known.shape.has_value() && known.shape->size() == inferred.shape->size()) {
    for (std::size_t i = 0; i < known.shape->size(); ++i) {
      Dim& dim = (*inferred.shape)[i];
      dim.denotation = (*known.shape)[i].denotation;
      const bool is_better = !dim.fixed() && ((*known.shape)[i].fixed() || !(*known.shape)[i].symbol.empty());
      if (is_better) {
        dim = (*known.shape)[i];
      }
    }
  }
  return inferred;
}

class Taker {
 public:
  explicit Taker(const Exported& exported) : names_(exported.names) {}

  void take(Graph& g, const pb::GraphProto& proto, bool is_main) {
    std::unordered_map<std::string_view, const pb::TypeProto*> types;
    const auto note = [&](const google::protobuf::RepeatedPtrField<pb::ValueInfoProto>& infos) {
      for (const pb::ValueInfoProto& info : infos) {
        if (info.has_type() && info.type().value_case() != pb::TypeProto::VALUE_NOT_SET) {
          types.insert_or_assign(info.name(), &info.type());
        }
      }
    };
    note(proto.value_info());
    note(proto.output());
    if (!is_main) {
      note(proto.input());
    }
    const std::vector<std::string>& names = names_.at(&g);
    for (const ValueId id : g.values()) {
      const graph::Value& value = g.value(id);
      const auto found = types.find(names.at(id.index));
      if (value.constant.has_value() || (is_main && value.is_input) || found == types.end() || g.is_capture(id)) {
        continue;
      }
      g.set_type(id, merged(type_from(*found->second, kMaxTypeDepth), value.type));
    }
    take_bodies(g, proto);
  }

 private:
  void take_bodies(Graph& g, const pb::GraphProto& proto) {
    std::unordered_map<std::string_view, const pb::NodeProto*> makers;  // nodes with bodies, by their first output
    for (const pb::NodeProto& node : proto.node()) {
      const bool has_body = std::any_of(node.attribute().begin(), node.attribute().end(), [](const auto& attribute) {
        return attribute.has_g() || attribute.graphs_size() > 0;
      });
      const auto named = std::find_if(node.output().begin(), node.output().end(), [](const auto& n) { return !n.empty(); });
      if (has_body && named != node.output().end()) {
        makers.emplace(*named, &node);
      }
    }
    for (const graph::NodeId id : g.nodes()) {
      const auto& outputs = g.node(id).outputs;
      const auto first = std::find_if(outputs.begin(), outputs.end(), [](ValueId out) { return out.valid(); });
      if (first == outputs.end()) {
        continue;
      }
      const auto maker = makers.find(names_.at(&g).at(first->index));
      if (maker == makers.end()) {
        continue;
      }
      for (const pb::AttributeProto& attribute : maker->second->attribute()) {
        if (attribute.has_g()) {
          take_body(g, g.body(id, attribute.name()), attribute.g());
        }
        for (int i = 0; i < attribute.graphs_size(); ++i) {
          take_body(g, g.body(id, attribute.name(), static_cast<std::size_t>(i)), attribute.graphs(i));
        }
      }
    }
  }

  void take_body(const Graph& outer, Graph& body, const pb::GraphProto& proto) {
    for (const graph::Capture& capture : body.captures()) {
      body.set_type(capture.inner, outer.value(capture.outer).type);
    }
    take(body, proto, false);
  }

  const std::map<const Graph*, std::vector<std::string>>& names_;
};

// -- where the library is silent ---------------------------------------------------------------------------------------------

// Operators without an inference of their own whose output is like input 0. \return whether a type became known
bool fill_silent(Graph& main) {
  bool filled = false;
  graph::for_each_graph(main, [&](Graph& g) {
    for (const graph::NodeId id : g.nodes()) {
      const ValueId input = g.input(id, 0);
      const ValueId output = g.output(id, 0);
      if (g.node(id).is("GroupNormalization") && input.valid() && output.valid() &&
          g.value(input).type.shape.has_value() && !g.value(output).type.shape.has_value()) {
        g.set_type(output, g.value(input).type);
        filled = true;
      }
    }
  });
  return filled;
}

void infer_once(graph::Model& model, const ExportOptions& options) {
  Exported exported = export_model(model, options);
  pb::ModelProto inferred = infer(exported.proto);
  Taker(exported).take(model.graph, inferred.graph(), true);
}

}  // namespace

void infer_types(graph::Model& model, const std::map<std::string, graph::Dims>& input_shapes) {
  require_arity(model);
  fix_inputs(model.graph, input_shapes);
  ExportOptions options;
  options.inputs_from_bytes = kLargeBytes;
  options.store = [](const graph::Tensor& tensor, Place, pb::TensorProto& proto) {
    // Large constants of nodes and bodies stay without content, too; floats are never read by the inference.
    if (static_cast<std::int64_t>(tensor.bytes().size()) < kLargeBytes || !numeric::is_float(tensor.type())) {
      proto.set_raw_data(std::string(as_text(tensor.bytes())));
    }
  };
  do {
    infer_once(model, options);
  } while (fill_silent(model.graph));  // each round fills at least one of finitely many
}

}  // namespace tempera::onnx
