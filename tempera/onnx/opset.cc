#include "tempera/onnx/opset.h"

#include <algorithm>
#include <limits>
#include <set>

#include <fmt/format.h>
#include <onnx/defs/schema.h>

#include "tempera/base/error.h"
#include "tempera/onnx/infer.h"
#include "tempera/onnx/opset_steps.h"
#include "tempera/onnx/proto.h"

namespace tempera::onnx {
namespace {

using graph::Graph;
using graph::NodeId;
using graph::ValueId;

// Versions in which the standard operator changed, after `from` and up to `to`, ascending.
std::vector<std::int64_t> versions_between(const std::string& op_type, std::int64_t from, std::int64_t to) {
  std::vector<std::int64_t> versions;
  for (std::int64_t at = to; at > from;) {
    const pb::OpSchema* schema = pb::OpSchemaRegistry::Schema(op_type, static_cast<int>(at), "");
    if (schema == nullptr || schema->SinceVersion() <= from) {
      break;
    }
    versions.push_back(schema->SinceVersion());
    at = schema->SinceVersion() - 1;
  }
  std::reverse(versions.begin(), versions.end());
  return versions;
}

// Whether a node fits a schema: its attributes, the number of its inputs and outputs, and their types where known.
void require_fit(const Step& step, const pb::OpSchema& schema) {
  const graph::Node& node = step.node();
  for (const auto& [name, attribute] : node.attributes) {
    if (schema.attributes().count(name) == 0) {
      step.refuse(fmt::format("attribute '{}' did not exist", name));
    }
  }
  if (static_cast<int>(node.inputs.size()) > schema.max_input() ||
      static_cast<int>(node.outputs.size()) > schema.max_output()) {
    step.refuse("it took fewer inputs or gave fewer outputs");
  }
  const auto check = [&](const std::vector<ValueId>& values, const std::vector<pb::OpSchema::FormalParameter>& formals) {
    for (std::size_t i = 0; i < values.size() && !formals.empty(); ++i) {
      const graph::ValueType type = step.type(values[i]);
      if (!type.is_tensor() || type.element == graph::DataType::kUndefined) {
        continue;
      }
      const auto& allowed = formals[std::min(i, formals.size() - 1)].GetTypes();
      const std::string name = fmt::format("tensor({})", numeric::to_string(type.element));
      if (std::none_of(allowed.begin(), allowed.end(), [&](const auto* known) { return *known == name; })) {
        step.refuse(fmt::format("it did not take {}", numeric::to_string(type.element)));
      }
    }
  };
  check(node.inputs, schema.inputs());
  check(node.outputs, schema.outputs());
}

class Converter {
 public:
  Converter(std::int64_t from, std::int64_t to) : from_(from), to_(to) {}

  void convert(Graph& g, const Graph& typed) const {
    Step::Added pending;
    for (const NodeId id : g.nodes()) {
      pending.emplace_back(id, from_);
    }
    while (!pending.empty()) {
      const auto [id, version] = pending.back();
      pending.pop_back();
      if (!g.alive(id) || !g.node(id).domain.empty()) {
        convert_bodies(g, typed, id);
        continue;
      }
      if (to_ > version) {
        raise(g, typed, id, version, pending);
      } else {
        lower(g, typed, id, version, pending);
      }
      convert_bodies(g, typed, id);
    }
    g.sort();
  }

 private:
  void raise(Graph& g, const Graph& typed, NodeId id, std::int64_t version, Step::Added& pending) const {
    for (bool changed = true; changed;) {
      changed = false;
      const std::string op_type = g.node(id).op_type;
      for (const std::int64_t next : versions_between(op_type, version, to_)) {
        Step step(g, typed, id, next, pending);
        if (const StepFunction function = raise_step(op_type, next)) {
          function(step);
        }
        version = next;
        if (g.node(id).op_type != op_type) {
          changed = true;  // goes on as another operator
          break;
        }
      }
    }
  }

  void lower(Graph& g, const Graph& typed, NodeId id, std::int64_t version, Step::Added& pending) const {
    const std::string op_type = g.node(id).op_type;
    std::vector<std::int64_t> left = versions_between(op_type, to_, version);
    const pb::OpSchema* target = pb::OpSchemaRegistry::Schema(op_type, static_cast<int>(to_), "");
    if (target == nullptr && pb::OpSchemaRegistry::Schema(op_type, static_cast<int>(version), "") != nullptr) {
      Step(g, typed, id, to_, pending).refuse("the operator did not exist");
    }
    std::reverse(left.begin(), left.end());
    for (const std::int64_t next : left) {
      Step step(g, typed, id, next - 1, pending);
      if (const StepFunction function = lower_step(op_type, next)) {
        function(step);
      }
      if (g.node(id).op_type != op_type) {
        return;
      }
    }
    if (target != nullptr && !left.empty()) {
      require_fit(Step(g, typed, id, to_, pending), *target);
    }
  }

  void convert_bodies(Graph& g, const Graph& typed, NodeId id) const {
    if (!g.alive(id)) {
      return;
    }
    std::vector<const Graph*> typed_bodies;
    if (typed.alive(id)) {
      graph::for_each_body(typed.node(id), [&](const std::string&, const Graph& body) { typed_bodies.push_back(&body); });
    }
    std::size_t i = 0;
    graph::for_each_body(g, id, [&](const std::string&, Graph& body) {
      const Graph copy = i < typed_bodies.size() ? Graph() : body;
      convert(body, i < typed_bodies.size() ? *typed_bodies[i] : copy);
      ++i;
    });
  }

  std::int64_t from_;
  std::int64_t to_;
};

// A copy whose types are inferred where that is possible.
graph::Model with_types(const graph::Model& model) {
  graph::Model typed = model;
  try {
    infer_types(typed);
  } catch (const Error&) {
    return model;  // those steps that need an unknown type refuse by themselves
  }
  return typed;
}

}  // namespace

graph::Model convert_opset(const graph::Model& model, std::int64_t opset) {
  if (opset < 1 || opset > kNewestOpset) {
    throw Error(ErrorCode::kInvalidArgument, fmt::format("opset must be 1 to {}, got {}", kNewestOpset, opset));
  }
  graph::Model converted = model;
  if (model.opset() != opset) {
    const graph::Model typed = with_types(model);
    Converter(model.opset(), opset).convert(converted.graph, typed.graph);
    converted.opsets[""] = opset;
  }
  for (graph::Function& function : converted.functions) {
    const auto own = function.opsets.find("");
    if (own != function.opsets.end() && own->second != opset) {
      const Graph untyped = function.body;
      try {
        Converter(own->second, opset).convert(function.body, untyped);
      } catch (Error& e) {
        e.in(fmt::format("function '{}.{}'", function.domain, function.name));
        throw;
      }
      own->second = opset;
    }
  }
  if (opset >= 9) {
    // What became a constant must not become an input of the model, as it would in older files.
    converted.ir_version = std::max<std::int64_t>(converted.ir_version, 4);
  }
  return converted;
}

}  // namespace tempera::onnx
