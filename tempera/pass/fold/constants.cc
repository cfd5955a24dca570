#include "tempera/pass/fold/constants.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "tempera/base/error.h"
#include "tempera/ops/access.h"
#include "tempera/ops/operators.h"
#include "tempera/pass/rewrite.h"

namespace tempera::pass {
namespace {

using graph::Graph;
using graph::NodeId;
using graph::Tensor;
using graph::ValueId;

constexpr std::int64_t kMostEnlarged = 64 << 10;
constexpr std::int64_t kMostGathered = 1 << 10;

std::int64_t bytes_of(const Tensor& tensor) {
  return tensor.type() == graph::DataType::kString ? tensor.size() : static_cast<std::int64_t>(tensor.bytes().size());
}

// The constant inputs in order (undefined where left out); nothing when one varies.
std::optional<std::vector<Tensor>> constant_inputs(const Graph& graph, const graph::Node& node) {
  std::vector<Tensor> inputs;
  for (const ValueId id : node.inputs) {
    if (!id.valid()) {
      inputs.emplace_back();
      continue;
    }
    std::optional<Tensor> constant = graph.constant(id);
    if (!constant) {
      return std::nullopt;
    }
    inputs.push_back(std::move(*constant));
  }
  return inputs;
}

bool may_fold(const Graph& graph, NodeId id) {
  const graph::Node& node = graph.node(id);
  bool bodies = false;
  graph::for_each_body(node, [&](const std::string&, const Graph&) { bodies = true; });
  return ops::is_pure(node) && !bodies && !node.is("Constant") && !node.is("DequantizeLinear") &&
         !ops::is_training(graph, id);
}

// Operators whose result may be far larger than all they read.
bool enlarges(const graph::Node& node) {
  static const std::set<std::string_view> kOperators = {"ConstantOfShape", "Expand", "EyeLike", "OneHot", "Pad",
                                                        "Range",           "Resize", "Tile",    "Upsample"};
  return node.domain.empty() && kOperators.count(node.op_type) != 0;
}

// The largest result worth storing: what it replaces, or max_fold_bytes; little when it only repeats elements. What is
// read from outputs' types is checked before the work is done.
std::int64_t most_bytes(const graph::Node& node, const std::vector<Tensor>& inputs, const PassContext& context) {
  std::int64_t replaced = 0;
  for (const Tensor& input : inputs) {
    replaced += input.defined() ? bytes_of(input) : 0;
  }
  if (node.is("Gather")) {
    return std::max(replaced, kMostGathered);
  }
  return std::max(replaced, enlarges(node) ? kMostEnlarged : context.max_fold_bytes);
}

std::string too_large(std::int64_t bytes, std::int64_t most) {
  return fmt::format("the result would take {} bytes, more than {}", bytes, most);
}

}  // namespace

PassResult fold_constants(Graph& graph, const PassContext& context) {
  PassResult result;
  if (context.evaluator == nullptr) {
    return result;
  }
  for (const NodeId id : graph.nodes()) {
    if (!graph.alive(id) || !may_fold(graph, id)) {
      continue;
    }
    const graph::Node node = graph.node(id);
    const std::optional<std::vector<Tensor>> inputs = constant_inputs(graph, node);
    if (!inputs) {
      continue;
    }
    if (std::any_of(node.outputs.begin(), node.outputs.end(),
                    [&](ValueId out) { return out.valid() && graph.is_output(out); })) {
      decline(result, graph, id, "the value is a graph output");
      continue;
    }
    const std::int64_t most = most_bytes(node, *inputs, context);
    std::int64_t expected = 0;
    bool unknown = false;
    for (const ValueId out : node.outputs) {
      const auto dims = ops::dims_of(graph, out);
      const auto type = ops::element_of(graph, out);
      unknown = unknown || (out.valid() && !dims);
      if (dims && numeric::bits_of(type) > 0) {
        expected += static_cast<std::int64_t>(numeric::bytes_of(type, graph::element_count(*dims)));
      }
    }
    if (unknown && enlarges(node)) {
      decline(result, graph, id, "the size of the result is not known");
      continue;
    }
    if (expected > most) {
      decline(result, graph, id, too_large(expected, most));
      continue;
    }
    const std::optional<std::vector<Tensor>> outputs = context.evaluator->evaluate(node, context.opset, *inputs);
    if (!outputs) {
      decline(result, graph, id, "the evaluator does not compute this operator");
      continue;
    }
    TEMPERA_CHECK(outputs->size() >= node.outputs.size(), "the evaluator gave too few outputs");
    std::int64_t total = 0;
    for (const Tensor& made : *outputs) {
      total += made.defined() ? bytes_of(made) : 0;
    }
    if (total > most) {
      decline(result, graph, id, too_large(total, most));
      continue;
    }
    note(result, graph, id, fmt::format("{} -> constant", node.op_type));
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i].valid() && !graph.is_unused(node.outputs[i])) {
        graph.replace_uses(node.outputs[i],
                           graph.add_initializer(graph.value(node.outputs[i]).name, (*outputs)[i]));
      }
    }
  }
  return finish(graph, std::move(result));
}

}  // namespace tempera::pass
