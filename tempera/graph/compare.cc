#include <algorithm>
#include <map>

#include "tempera/graph/graph.h"

namespace tempera::graph {
namespace {

bool same(const SparseTensor& a, const SparseTensor& b) {
  return a.values.same_bytes(b.values) && a.indices.same_bytes(b.indices) && a.dims == b.dims;
}
bool same(const Tensor& a, const Tensor& b) { return a.same_bytes(b); }
bool same(const Body& a, const Body& b) { return same_graph(a.graph(), b.graph()); }
bool same(const ValueType& a, const ValueType& b) { return same_type(a, b); }
bool same(const AttributeReference& a, const AttributeReference& b) { return a.name == b.name && a.type == b.type; }
bool same(float a, float b) { return a == b || (a != a && b != b); }
bool same(std::int64_t a, std::int64_t b) { return a == b; }
bool same(const std::string& a, const std::string& b) { return a == b; }
template <typename T>
bool same(const std::vector<T>& a, const std::vector<T>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const T& x, const T& y) { return same(x, y); });
}

// Walks both graphs in order, pairing their values.
class Pairing {
 public:
  Pairing(const Graph& a, const Graph& b, bool names) : a_(a), b_(b), names_(names) {}

  bool graphs() {
    if (a_.inputs().size() != b_.inputs().size() || a_.outputs().size() != b_.outputs().size() ||
        a_.node_count() != b_.node_count() || a_.captures().size() != b_.captures().size()) {
      return false;
    }
    for (std::size_t i = 0; i < a_.inputs().size(); ++i) {
      const ValueId x = a_.inputs()[i];
      const ValueId y = b_.inputs()[i];
      if (!pair(x, y) || a_.value(x).name != b_.value(y).name ||
          !same_type(a_.value(x).type, b_.value(y).type)) {
        return false;
      }
    }
    const std::vector<NodeId> left = a_.nodes();
    const std::vector<NodeId> right = b_.nodes();
    for (std::size_t i = 0; i < left.size(); ++i) {
      if (!nodes(a_.node(left[i]), b_.node(right[i]))) {
        return false;
      }
    }
    for (std::size_t i = 0; i < a_.outputs().size(); ++i) {
      if (!pair(a_.outputs()[i], b_.outputs()[i]) ||
          a_.value(a_.outputs()[i]).name != b_.value(b_.outputs()[i]).name) {
        return false;
      }
    }
    return true;
  }

 private:
  bool nodes(const Node& x, const Node& y) {
    if (x.op_type != y.op_type || x.domain != y.domain || x.overload != y.overload ||
        x.inputs.size() != y.inputs.size() || x.outputs.size() != y.outputs.size() ||
        x.attributes.size() != y.attributes.size() || (names_ && x.name != y.name)) {
      return false;
    }
    for (std::size_t i = 0; i < x.inputs.size(); ++i) {
      if (!pair(x.inputs[i], y.inputs[i])) {
        return false;
      }
    }
    const auto attributes_equal = [](const auto& p, const auto& q) {
      return p.first == q.first && same_attribute(p.second, q.second);
    };
    if (!std::equal(x.attributes.begin(), x.attributes.end(), y.attributes.begin(), attributes_equal)) {
      return false;
    }
    for (std::size_t i = 0; i < x.outputs.size(); ++i) {
      if (!pair(x.outputs[i], y.outputs[i])) {
        return false;
      }
    }
    return true;
  }

  // Both stand for the same value from here on; false when one was paired otherwise before.
  bool pair(ValueId x, ValueId y) {
    if (x.valid() != y.valid()) {
      return false;
    }
    if (!x.valid()) {
      return true;
    }
    const auto [known, fresh] = pairs_.emplace(x, y);
    if (!fresh) {
      return known->second == y;
    }
    const Value& u = a_.value(x);
    const Value& v = b_.value(y);
    if (names_ && u.name != v.name) {
      return false;
    }
    if (u.constant.has_value() != v.constant.has_value() || a_.is_capture(x) != b_.is_capture(y)) {
      return false;
    }
    if (a_.is_capture(x) && u.name != v.name) {
      return false;
    }
    return !u.constant.has_value() || u.constant->same_bytes(*v.constant);
  }

  const Graph& a_;
  const Graph& b_;
  const bool names_;
  std::map<ValueId, ValueId> pairs_;
};

}  // namespace

bool same_attribute(const Attribute& a, const Attribute& b) {
  return a.index() == b.index() && std::visit(
                                       [&](const auto& x) {
                                         using T = std::decay_t<decltype(x)>;
                                         return same(x, std::get<T>(b));
                                       },
                                       a);
}

bool same_graph(const Graph& a, const Graph& b, bool names) { return Pairing(a, b, names).graphs(); }

}  // namespace tempera::graph
