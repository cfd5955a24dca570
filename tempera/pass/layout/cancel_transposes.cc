#include "tempera/pass/layout/cancel_transposes.h"

#include <algorithm>

#include <fmt/format.h>

#include "tempera/ops/access.h"
#include "tempera/ops/operators.h"
#include "tempera/pass/origins.h"
#include "tempera/pass/rewrite.h"
#include "tempera/pass/weights.h"

namespace tempera::pass {
namespace {

using graph::Dims;
using graph::Graph;
using graph::NodeId;
using graph::Tensor;
using graph::ValueId;

constexpr int kLongestRow = 32;

// What one operand of a node between the Transposes becomes.
struct Operand {
  NodeId node;
  std::size_t input = 0;
  ValueId source;                  // read this instead
  std::optional<Tensor> constant;  // or this new constant
};

struct Row {
  std::vector<NodeId> nodes;
  std::vector<Operand> operands;
  NodeId last;  // the second Transpose
};

Dims inverse(const Dims& perm) {
  Dims result(perm.size());
  for (std::size_t i = 0; i < perm.size(); ++i) {
    result[static_cast<std::size_t>(perm[i])] = static_cast<std::int64_t>(i);
  }
  return result;
}

// A constant that broadcasts against the transposed value, turned so that it broadcasts against the value before.
std::optional<Tensor> turned_back(const Tensor& constant, const Dims& perm) {
  const std::size_t rank = perm.size();
  if (constant.dims().size() > rank || numeric::bits_of(constant.type()) < 8) {
    return std::nullopt;
  }
  Dims dims(rank - constant.dims().size(), 1);
  dims.insert(dims.end(), constant.dims().begin(), constant.dims().end());
  return transpose_tensor(constant.reshaped(std::move(dims)), inverse(perm));
}

// Whether the node works element by element on `value`, with what its other operands become.
bool match_between(const Graph& graph, NodeId id, ValueId value, const Dims& perm, Row& row) {
  const graph::Node& node = graph.node(id);
  const bool unary = ops::has_trait(node, ops::kUnary) && graph.input(id, 0) == value;
  const bool broadcast = ops::has_trait(node, ops::kBroadcast) && !node.is("PRelu") && ops::is_numpy_broadcast(graph, id);
  if ((!unary && !broadcast) || node.outputs.size() != 1) {
    return false;
  }
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const ValueId operand = node.inputs[i];
    if (!operand.valid() || operand == value) {
      continue;
    }
    if (const std::optional<Tensor> constant = graph.constant(operand)) {
      if (constant->size() == 1 && constant->dims().size() <= perm.size()) {
        continue;
      }
      std::optional<Tensor> turned = unary ? std::nullopt : turned_back(*constant, perm);
      if (!turned) {
        return false;
      }
      row.operands.push_back({id, i, {}, std::move(*turned)});
      continue;
    }
    const NodeId other = producer_of(graph, operand, "Transpose");
    if (unary || !other.valid() || ops::permutation_of(graph, other) != perm) {
      return false;
    }
    row.operands.push_back({id, i, graph.input(other, 0), std::nullopt});
  }
  return true;
}

// The row of element-wise nodes from the Transpose to the next one; nothing when it ends otherwise.
std::optional<Row> match_row(const Graph& graph, NodeId first, const Dims& perm) {
  Row row;
  ValueId value = graph.output(first);
  for (int step = 0; step < kLongestRow; ++step) {
    if (graph.is_pinned(value) || graph.uses(value).empty()) {
      return std::nullopt;
    }
    const NodeId next = graph.uses(value).front().node;
    const auto elsewhere = [&](const graph::Use& use) { return use.node != next; };
    if (std::any_of(graph.uses(value).begin(), graph.uses(value).end(), elsewhere)) {
      return std::nullopt;
    }
    if (graph.node(next).is("Transpose")) {
      row.last = next;
      return row.nodes.empty() ? std::nullopt : std::optional(std::move(row));
    }
    if (!match_between(graph, next, value, perm, row)) {
      return std::nullopt;
    }
    row.nodes.push_back(next);
    value = graph.output(next);
  }
  return std::nullopt;
}

// The type of a transposed value before it was transposed.
graph::ValueType turned_type(graph::ValueType type, const Dims& perm) {
  if (type.is_tensor() && type.shape && type.shape->size() == perm.size()) {
    graph::Shape shape(perm.size());
    for (std::size_t i = 0; i < perm.size(); ++i) {
      shape[static_cast<std::size_t>(perm[i])] = (*type.shape)[i];
    }
    type.shape = std::move(shape);
    return type;
  }
  return {};
}

}  // namespace

PassResult cancel_transposes(Graph& graph, const PassContext&) {
  PassResult result;
  for (const NodeId id : graph.nodes()) {
    if (!graph.alive(id) || !graph.node(id).is("Transpose")) {
      continue;
    }
    const auto perm = ops::permutation_of(graph, id);
    const auto row = perm ? match_row(graph, id, *perm) : std::nullopt;
    const auto outer = row ? ops::permutation_of(graph, row->last) : std::nullopt;
    // What comes in beside must have the full rank, or moving it would change what it broadcasts against.
    if (!outer || outer->size() != perm->size()) {
      continue;
    }
    note(result, graph, id, fmt::format("Transpose + {} element-wise + Transpose -> one Transpose", row->nodes.size()));
    const ValueId from = graph.output(id);
    for (const graph::Use use : std::vector<graph::Use>(graph.uses(from))) {
      graph.set_input(use.node, use.input, graph.input(id, 0));
    }
    for (const Operand& operand : row->operands) {
      const ValueId value = operand.constant
                                ? add_derived(graph, graph.input(operand.node, operand.input), *operand.constant)
                                : operand.source;
      graph.set_input(operand.node, operand.input, value);
    }
    for (const NodeId between : row->nodes) {
      graph.set_type(graph.output(between), turned_type(graph.value(graph.output(between)).type, *perm));
      if (auto origin = graph.value(graph.output(between)).origin) {
        origin->equal = false;  // the same numbers in another order
        graph.set_origin(graph.output(between), *origin);
      }
    }
    Dims both;
    for (const std::int64_t axis : *outer) {
      both.push_back((*perm)[static_cast<std::size_t>(axis)]);
    }
    graph.set_attribute(row->last, "perm", both);
  }
  return finish(graph, std::move(result));
}

}  // namespace tempera::pass
