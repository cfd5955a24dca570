#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "tempera/base/error.h"
#include "tempera/onnx/opset.h"

namespace tempera::onnx {
namespace {

using graph::Attribute;
using graph::Body;
using graph::Function;
using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::ValueId;

using FunctionKey = std::tuple<std::string, std::string, std::string>;  // domain, name, overload
using Attributes = std::map<std::string, Attribute, std::less<>>;

FunctionKey key_of(const Function& function) { return {function.domain, function.name, function.overload}; }
FunctionKey key_of(const Node& node) { return {node.domain, node.op_type, node.overload}; }

// -- one call ------------------------------------------------------------------------------------------------------------

// Inside a body, nothing can be read under `missing` any more: its readers do without.
void leave_out(Graph& body, ValueId missing) {
  for (const graph::Use use : std::vector<graph::Use>(body.uses(missing))) {
    body.set_input(use.node, use.input, {});
  }
  for (const NodeId id : body.nodes()) {
    graph::for_each_body(body, id, [&](const std::string&, Graph& inner) {
      for (const graph::Capture capture : std::vector<graph::Capture>(inner.captures())) {
        if (capture.outer == missing) {
          leave_out(inner, capture.inner);
        }
      }
    });
  }
  if (body.is_output(missing)) {
    throw Error(ErrorCode::kBadModel, fmt::format("'{}' is returned by a body, but the caller left it out",
                                                  body.value(missing).name));
  }
  body.erase(missing);
}

class Call {
 public:
  Call(Graph& graph, NodeId id, const Function& function) : g_(graph), id_(id), function_(function) {
    const Node& call = g_.node(id_);
    prefix_ = call.name.empty() && !call.outputs.empty() && call.outputs[0].valid() ? g_.value(call.outputs[0]).name
                                                                                   : call.name;
    prefix_ += "/";
  }

  void expand() {
    const Graph& body = function_.body;
    for (std::size_t i = 0; i < body.inputs().size(); ++i) {
      values_[body.inputs()[i]] = g_.input(id_, i);
    }
    for (const ValueId id : body.values()) {
      if (const graph::Value& value = body.value(id); value.constant.has_value()) {
        values_[id] = g_.add_initializer(prefix_ + value.name, *value.constant);
        set_origin(values_[id]);
      }
    }
    for (const NodeId id : body.nodes()) {
      add(body.node(id));
    }
    hand_over_outputs();
  }

 private:
  void set_origin(ValueId id) { g_.set_origin(id, {g_.value(id).name, true}); }

  void add(const Node& source) {
    const Graph& body = function_.body;
    Node node = source;
    node.name = prefix_ + (source.name.empty() ? source.op_type : source.name);
    node.function_path = function_.name + "/" + (source.function_path.empty() ? source.name : source.function_path);
    for (ValueId& input : node.inputs) {
      input = input.valid() ? values_.at(input) : ValueId{};
    }
    for (ValueId& output : node.outputs) {
      if (output.valid()) {
        const graph::Value& inner = body.value(output);
        const ValueId made = g_.add_value(prefix_ + inner.name, inner.type);
        set_origin(made);
        made_.insert(made);
        values_[output] = made;
        output = made;
      }
    }
    bind(node.attributes);
    for (auto& [name, attribute] : node.attributes) {
      if (auto* one = std::get_if<Body>(&attribute)) {
        connect(one->graph());
      } else if (auto* many = std::get_if<std::vector<Body>>(&attribute)) {
        for (Body& inner : *many) {
          connect(inner.graph());
        }
      }
    }
    g_.add_node(std::move(node));
  }

  // References become what the caller gave, or the function's default, or nothing.
  void bind(Attributes& attributes) const {
    for (auto entry = attributes.begin(); entry != attributes.end();) {
      const auto* reference = std::get_if<graph::AttributeReference>(&entry->second);
      const Attribute* given = reference == nullptr ? nullptr : find(reference->name);
      if (reference != nullptr && given == nullptr) {
        entry = attributes.erase(entry);
        continue;
      }
      if (given != nullptr) {
        entry->second = Attribute(*given);
      }
      ++entry;
    }
  }

  [[nodiscard]] const Attribute* find(const std::string& name) const {
    const Node& call = g_.node(id_);
    if (const auto given = call.attributes.find(name); given != call.attributes.end()) {
      return &given->second;
    }
    const auto fallback = function_.defaults.find(name);
    return fallback == function_.defaults.end() ? nullptr : &fallback->second;
  }

  // A copied body reads values of this graph now, and its nodes refer to the caller's attributes, too.
  void connect(Graph& body) {
    graph::for_each_graph(body, [&](Graph& inner) {
      for (const NodeId id : inner.nodes()) {
        std::vector<std::pair<std::string, std::string>> references;
        for (const auto& [name, attribute] : inner.node(id).attributes) {
          if (const auto* reference = std::get_if<graph::AttributeReference>(&attribute)) {
            references.emplace_back(name, reference->name);
          }
        }
        for (const auto& [name, wanted] : references) {
          if (const Attribute* given = find(wanted)) {
            inner.set_attribute(id, name, *given);
          } else {
            inner.remove_attribute(id, name);
          }
        }
      }
    });
    std::vector<ValueId> missing;
    for (std::size_t i = 0; i < body.captures().size(); ++i) {
      const graph::Capture& capture = body.captures()[i];
      const ValueId outer = values_.at(capture.outer);
      if (outer.valid()) {
        body.set_capture(i, outer);
      } else {
        missing.push_back(capture.inner);
      }
    }
    for (const ValueId id : missing) {
      leave_out(body, id);
    }
  }

  void hand_over_outputs() {
    const std::vector<ValueId> outputs = g_.node(id_).outputs;
    std::vector<std::pair<ValueId, std::string>> names;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const ValueId wanted = outputs[i];
      if (!wanted.valid()) {
        continue;
      }
      if (i >= function_.body.outputs().size() || !values_.at(function_.body.outputs()[i]).valid()) {
        throw Error(ErrorCode::kBadModel, fmt::format("function '{}.{}' gives no output number {}", function_.domain,
                                                      function_.name, i))
            .in(g_.describe(id_));
      }
      const ValueId made = values_.at(function_.body.outputs()[i]);
      const graph::Value before = g_.value(wanted);
      const bool is_own = made_.erase(made) != 0;  // and not handed over before
      g_.replace_uses(wanted, made);
      if (is_own) {
        if (g_.value(made).type.kind == graph::ValueType::Kind::kUnknown) {
          g_.set_type(made, before.type);
        }
        if (before.origin.has_value()) {
          g_.set_origin(made, *before.origin);
        }
        if (g_.value(made).name != before.name) {
          names.emplace_back(made, before.name);
        }
      }
    }
    g_.erase(id_);
    for (const auto& [id, name] : names) {
      if (!g_.find_value(name).has_value()) {
        g_.rename(id, name);
      }
    }
  }

  Graph& g_;
  const NodeId id_;
  const Function& function_;
  std::string prefix_;
  std::map<ValueId, ValueId> values_;  // of the function's body, in the graph
  std::set<ValueId> made_;             // by the copied nodes
};

// -- all calls -----------------------------------------------------------------------------------------------------------

class Inliner {
 public:
  explicit Inliner(const graph::Model& model) : model_(model) {
    for (Function& function : model_.functions) {
      functions_.emplace(key_of(function), &function);
    }
  }

  graph::Model run() {
    adopt_opsets();
    for (Function& function : model_.functions) {
      prepare(function);
    }
    expand_all(model_.graph);
    drop_function_domains();
    model_.functions.clear();
    return std::move(model_);
  }

 private:
  // The model runs under one opset of each domain: where it names none, the newest that a function asks for.
  void adopt_opsets() {
    graph::Opsets adopted;
    for (const Function& function : model_.functions) {
      for (const auto& [domain, version] : function.opsets) {
        std::int64_t& newest = adopted[domain];
        newest = std::max(newest, version);
      }
    }
    model_.opsets.insert(adopted.begin(), adopted.end());
  }

  // Domains that only functions lived in are not imported any more: there is nothing left that they could name.
  void drop_function_domains() {
    std::set<std::string> used = {""};
    graph::for_each_graph(std::as_const(model_.graph), [&](const Graph& g) {
      for (const NodeId id : g.nodes()) {
        used.insert(g.node(id).domain);
      }
    });
    for (const Function& function : model_.functions) {
      if (used.count(function.domain) == 0) {
        model_.opsets.erase(function.domain);
      }
    }
  }

  // Makes a function's body free of calls, and written for the model's opset.
  void prepare(Function& function) {
    if (ready_.count(&function) != 0) {
      return;
    }
    if (!active_.insert(&function).second) {
      throw Error(ErrorCode::kBadModel,
                  fmt::format("function '{}.{}' calls itself", function.domain, function.name));
    }
    const auto opset = function.opsets.find("");
    if (opset != function.opsets.end() && opset->second != model_.opset()) {
      graph::Model alone;
      alone.ir_version = model_.ir_version;
      alone.opsets = function.opsets;
      alone.graph = std::move(function.body);
      function.body = convert_opset(alone, model_.opset()).graph;
    }
    expand_all(function.body);
    active_.erase(&function);
    ready_.insert(&function);
  }

  void expand_all(Graph& outermost) {
    graph::for_each_graph(outermost, [&](Graph& g) {
      for (const NodeId id : g.nodes()) {
        const auto found = functions_.find(key_of(g.node(id)));
        if (found != functions_.end()) {
          prepare(*found->second);
          Call(g, id, *found->second).expand();
        }
      }
    });
    outermost.sort();
  }

  graph::Model model_;
  std::map<FunctionKey, Function*> functions_;
  std::set<const Function*> active_;
  std::set<const Function*> ready_;
};

}  // namespace

graph::Model inline_functions(const graph::Model& model) { return Inliner(model).run(); }

}  // namespace tempera::onnx
