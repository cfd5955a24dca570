#pragma once

#include <compare>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tempera/graph/attribute.h"
#include "tempera/graph/tensor.h"
#include "tempera/graph/type.h"

namespace tempera::graph {

/// Names a node of one graph; survives changes of other nodes. Default: none.
struct NodeId {
  std::uint32_t index = std::numeric_limits<std::uint32_t>::max();
  [[nodiscard]] bool valid() const noexcept { return index != std::numeric_limits<std::uint32_t>::max(); }
  auto operator<=>(const NodeId&) const = default;
};

/// Names a value (an edge) of one graph. Default: none, which as a node's input means "left out".
struct ValueId {
  std::uint32_t index = std::numeric_limits<std::uint32_t>::max();
  [[nodiscard]] bool valid() const noexcept { return index != std::numeric_limits<std::uint32_t>::max(); }
  auto operator<=>(const ValueId&) const = default;
};

/// Which tensor of the original model a value stands for, so that old and new can be compared by name.
struct Origin {
  std::string tensor;  ///< name in the original model
  bool equal = true;   ///< holds the same numbers (up to rounding), not merely derived from it
};

/// ONNX's metadata_props: free text by key, kept through reading and writing.
using Metadata = std::vector<std::pair<std::string, std::string>>;

struct Value {
  std::string name;                ///< unique in its graph and not shadowing an outer one once written
  ValueType type;                  ///< as declared or inferred
  std::optional<Tensor> constant;  ///< an initialiser
  NodeId producer;                 ///< none for inputs, initialisers and captures
  std::uint32_t producer_output = 0;
  bool is_input = false;           ///< a graph input; with `constant` too, an input with a default
  std::optional<Origin> origin;    ///< set by the reader to the value itself; absent: made by a rewrite, no counterpart
  std::string doc;
  Metadata metadata;
};

/// One reader of a value: input number `input` of `node`.
struct Use {
  NodeId node;
  std::uint32_t input = 0;
  auto operator<=>(const Use&) const = default;
};

struct Node {
  std::string op_type;
  std::string domain;    ///< "" is ai.onnx
  std::string overload;  ///< of a local function
  std::string name;      ///< may be empty
  std::vector<ValueId> inputs;   ///< an invalid id is an input left out
  std::vector<ValueId> outputs;  ///< an invalid id is an output not asked for
  std::map<std::string, Attribute, std::less<>> attributes;
  std::string doc;
  Metadata metadata;
  std::string function_path;  ///< "function/node" it was inlined from, else empty
  std::string unmodelled;     ///< serialised NodeProto fields not modelled here, written back as they came

  [[nodiscard]] bool is(std::string_view type) const { return op_type == type && domain.empty(); }
};

/// A value of the enclosing graph seen inside a body under an id of the body's own.
struct Capture {
  ValueId outer;  ///< in the graph that holds the node with this body
  ValueId inner;  ///< in the body
};

/// A directed acyclic graph of operators: the model's main graph, a body of If/Loop/Scan, or a function's body.
///
/// The graph owns nodes and values; others hold ids. Use lists are kept up to date by the changing methods, which are
/// the only way to change an edge. Copying copies everything but the (immutable, shared) tensors. Const methods may be
/// called from several threads at once; nothing else is safe to share.
///
/// A body sees outer values only through captures(), one level at a time: a body inside a body captures from its parent.
class Graph {
 public:
  std::string name;
  std::string doc;
  Metadata metadata;
  /// Serialised GraphProto fields that this class does not model (quantisation annotations, sparse initialisers of
  /// unusual types); written back as they came.
  std::string unmodelled;

  // -- reading ---------------------------------------------------------------------------------------------------------

  [[nodiscard]] const Node& node(NodeId id) const;
  [[nodiscard]] const Value& value(ValueId id) const;
  [[nodiscard]] bool alive(NodeId id) const noexcept;
  [[nodiscard]] bool alive(ValueId id) const noexcept;

  /// Live nodes in order; topological after sort().
  [[nodiscard]] std::vector<NodeId> nodes() const;
  [[nodiscard]] std::size_t node_count() const noexcept { return node_count_; }
  /// Live values in order of creation.
  [[nodiscard]] std::vector<ValueId> values() const;
  [[nodiscard]] const std::vector<ValueId>& inputs() const noexcept { return inputs_; }
  [[nodiscard]] const std::vector<ValueId>& outputs() const noexcept { return outputs_; }
  [[nodiscard]] const std::vector<Capture>& captures() const noexcept { return captures_; }

  /// Node inputs that read the value, in no particular order; captures by bodies and graph outputs are not among them.
  [[nodiscard]] const std::vector<Use>& uses(ValueId id) const;
  [[nodiscard]] bool is_output(ValueId id) const;
  [[nodiscard]] bool is_captured_by_body(ValueId id) const;  ///< a body of one of this graph's nodes reads it
  [[nodiscard]] bool is_capture(ValueId id) const;           ///< it is itself seen from the enclosing graph
  /// Exactly one node input reads it, and neither a graph output nor a body does.
  [[nodiscard]] bool has_single_use(ValueId id) const;
  /// Nothing reads it.
  [[nodiscard]] bool is_unused(ValueId id) const;
  /// A graph output or captured by a body: it must keep existing with the same content.
  [[nodiscard]] bool is_pinned(ValueId id) const { return is_output(id) || is_captured_by_body(id); }

  /// The node's input or output number `i`, or an invalid id when it is left out or beyond the end.
  [[nodiscard]] ValueId input(NodeId id, std::size_t i) const;
  [[nodiscard]] ValueId output(NodeId id, std::size_t i = 0) const;
  /// The node that makes the value, or an invalid id.
  [[nodiscard]] NodeId producer(ValueId id) const;

  /// The value's content when it cannot vary: an initialiser that is no graph input, or the output of a Constant node
  /// with a tensor, number or list. Null when it varies.
  [[nodiscard]] std::optional<Tensor> constant(ValueId id) const;

  /// An attribute as T, or `fallback` when absent. \throws Error{kBadModel} when it holds another kind.
  template <typename T>
  [[nodiscard]] T attribute(NodeId id, std::string_view key, T fallback) const;
  [[nodiscard]] bool has_attribute(NodeId id, std::string_view name) const;

  [[nodiscard]] std::optional<ValueId> find_value(std::string_view name) const;  ///< linear in the number of values
  [[nodiscard]] std::optional<NodeId> find_node(std::string_view name) const;    ///< linear in the number of nodes

  /// "node 'conv1' (Conv)", or by its first output when it has no name: for messages.
  [[nodiscard]] std::string describe(NodeId id) const;

  // -- building and changing ---------------------------------------------------------------------------------------------

  /// A value with no producer yet. An empty name is given a fresh one; a taken name gets a suffix.
  ValueId add_value(std::string_view name, ValueType type = {});
  ValueId add_input(std::string_view name, ValueType type);
  ValueId add_initializer(std::string_view name, Tensor tensor);
  ValueId add_capture(ValueId outer, std::string_view name, ValueType type = {});
  void add_output(ValueId id);
  void set_output(std::size_t i, ValueId id);
  void remove_input(std::size_t i);

  /// Appends a node reading `inputs` whose `outputs` are fresh values of this graph without a producer.
  NodeId add_node(Node node);

  /// Appends a node with one fresh output and returns that output. Metadata and names derive from `name`.
  ValueId add_node(std::string_view op_type, std::vector<ValueId> inputs, std::string_view name,
                   std::map<std::string, Attribute, std::less<>> attributes = {}, std::string_view domain = {});

  void set_input(NodeId id, std::size_t i, ValueId value);
  void set_inputs(NodeId id, std::vector<ValueId> inputs);
  /// The node no longer makes its output number `i`, which nothing may read; left-out outputs at the end go.
  void remove_output(NodeId id, std::size_t i);
  /// A body's capture number `i` shows another value of the enclosing graph.
  void set_capture(std::size_t i, ValueId outer);
  void set_operator(NodeId id, std::string_view op_type, std::string_view domain = {});
  void set_attribute(NodeId id, std::string_view name, Attribute value);
  void remove_attribute(NodeId id, std::string_view name);
  void set_name(NodeId id, std::string_view name);
  void set_function_path(NodeId id, std::string path);
  void set_type(ValueId id, ValueType type);
  void set_constant(ValueId id, Tensor tensor);  ///< replaces an initialiser's content
  void set_origin(ValueId id, Origin origin);
  void set_notes(ValueId id, std::string doc, Metadata notes);
  void rename(ValueId id, std::string_view name);  ///< \throws Error{kInvalidArgument} when the name is taken

  /// A body to change in place. Captures changed through it are seen by this graph at once.
  Graph& body(NodeId id, std::string_view attribute, std::size_t i = 0);

  /// Every reader of `from` (nodes, graph outputs, bodies) reads `to` instead. When `from` was a graph output its name
  /// moves to `to`, so the graph's outputs keep their names; when `to` is an input, initialiser, capture or itself an
  /// output, an Identity node is put between. `to` takes over the origin of `from` when it has none of its own.
  void replace_uses(ValueId from, ValueId to);

  /// Removes a node and its output values. \throws Error{kInternal} when one of them is still read.
  void erase(NodeId id);
  /// Removes a value that nothing reads or makes.
  void erase(ValueId id);
  /// Removes nodes none of whose outputs are read, and unread initialisers and captures, also inside bodies.
  /// \return how many nodes went
  std::size_t remove_dead();

  /// Orders nodes so that each comes after those it reads (also through its bodies), keeping the present order where
  /// that allows. \throws Error{kBadModel} naming a node on a cycle.
  void sort();

  /// A name not yet taken in this graph or its bodies, from the given stem.
  [[nodiscard]] std::string fresh_name(std::string_view stem);

 private:
  struct NodeSlot {
    Node node;
    bool alive = false;
  };
  struct ValueSlot {
    Value value;
    std::vector<Use> uses;
    bool alive = false;
  };

  [[noreturn]] void throw_attribute_kind(NodeId id, std::string_view name) const;
  Node& mutable_node(NodeId id);
  void note_bodies(NodeId id);
  ValueSlot& slot(ValueId id);
  [[nodiscard]] const ValueSlot& slot(ValueId id) const;
  void add_use(ValueId id, Use use);
  void drop_use(ValueId id, Use use);
  std::string claim_name(std::string_view wanted);

  std::deque<NodeSlot> nodes_;
  std::deque<ValueSlot> values_;
  std::vector<NodeId> order_;       // may hold dead ids until the next sort
  std::vector<NodeId> body_nodes_;  // live nodes with at least one body
  std::size_t node_count_ = 0;
  std::vector<ValueId> inputs_;
  std::vector<ValueId> outputs_;
  std::vector<Capture> captures_;
  std::map<std::string, ValueId, std::less<>> names_;
  std::uint64_t next_name_ = 0;
};

/// Calls `visit` for each body held by the node's attributes, in order of attribute name.
void for_each_body(const Node& node, const std::function<void(const std::string& attribute, const Graph& body)>& visit);
void for_each_body(Graph& graph, NodeId id, const std::function<void(const std::string& attribute, Graph& body)>& visit);

/// Calls `visit` for the graph and every body inside it, outermost first.
void for_each_graph(const Graph& graph, const std::function<void(const Graph&)>& visit);
void for_each_graph(Graph& graph, const std::function<void(Graph&)>& visit);

/// Same structure: equal operators, attributes, constants, edges, input and output names; node and inner value names
/// are not compared unless `names`.
[[nodiscard]] bool same_graph(const Graph& a, const Graph& b, bool names = false);

template <typename T>
T Graph::attribute(NodeId id, std::string_view key, T fallback) const {
  const Node& owner = node(id);
  const auto found = owner.attributes.find(key);
  if (found == owner.attributes.end()) {
    return fallback;
  }
  if (const T* value = std::get_if<T>(&found->second)) {
    return *value;
  }
  throw_attribute_kind(id, key);
}

}  // namespace tempera::graph
