#include "tempera/graph/model.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "tempera/base/error.h"

namespace tempera::graph {
namespace {

[[noreturn]] void broken(const std::string& what) { throw Error(ErrorCode::kInternal, "broken graph: " + what); }

void verify_edges(const Graph& graph, NodeId id, const std::set<ValueId>& defined) {
  const Node& node = graph.node(id);
  for (std::uint32_t i = 0; i < node.inputs.size(); ++i) {
    const ValueId read = node.inputs[i];
    if (!read.valid()) {
      continue;
    }
    if (!graph.alive(read)) {
      broken(fmt::format("{} reads an erased value as input {}", graph.describe(id), i));
    }
    if (defined.count(read) == 0) {
      broken(fmt::format("{} reads '{}' before it is made", graph.describe(id), graph.value(read).name));
    }
    const std::vector<Use>& uses = graph.uses(read);
    if (std::count(uses.begin(), uses.end(), Use{id, i}) != 1) {
      broken(fmt::format("the use list of '{}' misses {}", graph.value(read).name, graph.describe(id)));
    }
  }
  for (std::uint32_t i = 0; i < node.outputs.size(); ++i) {
    const ValueId made = node.outputs[i];
    if (made.valid() && (!graph.alive(made) || graph.value(made).producer != id ||
                         graph.value(made).producer_output != i)) {
      broken(fmt::format("{} does not own its output {}", graph.describe(id), i));
    }
  }
}

void verify_graph(const Graph& graph) {
  std::set<ValueId> defined;
  std::set<std::string_view> names;
  for (const ValueId id : graph.values()) {
    const Value& value = graph.value(id);
    if (value.name.empty() || !names.insert(value.name).second) {
      broken(fmt::format("two values share the name '{}'", value.name));
    }
    for (const Use& use : graph.uses(id)) {
      if (!graph.alive(use.node) || graph.input(use.node, use.input) != id) {
        broken(fmt::format("the use list of '{}' names a node that does not read it", value.name));
      }
    }
    if (!value.producer.valid()) {
      if (!value.is_input && !value.constant.has_value() && !graph.is_capture(id) && !graph.is_unused(id)) {
        broken(fmt::format("value '{}' is read but nothing makes it", value.name));
      }
      defined.insert(id);
    } else if (!graph.alive(value.producer)) {
      broken(fmt::format("value '{}' was made by an erased node", value.name));
    }
  }
  for (const NodeId id : graph.nodes()) {
    verify_edges(graph, id, defined);
    for_each_body(graph.node(id), [&](const std::string& attribute, const Graph& body) {
      for (const Capture& capture : body.captures()) {
        if (!graph.alive(capture.outer) || defined.count(capture.outer) == 0) {
          broken(fmt::format("body '{}' of {} captures a value that is not made before it", attribute,
                             graph.describe(id)));
        }
      }
      verify_graph(body);
    });
    for (const ValueId made : graph.node(id).outputs) {
      if (made.valid()) {
        defined.insert(made);
      }
    }
  }
  for (const ValueId id : graph.outputs()) {
    if (!graph.alive(id) || defined.count(id) == 0) {
      broken("a graph output is not made by any node");
    }
  }
}

}  // namespace

std::int64_t Model::opset() const {
  const auto found = opsets.find("");
  if (found == opsets.end()) {
    throw Error(ErrorCode::kBadModel, "the model names no version of the standard operators (domain ai.onnx)");
  }
  return found->second;
}

void verify(const Graph& graph) { verify_graph(graph); }

WeightSize weight_size(const Graph& graph) {
  WeightSize total;
  std::set<const std::byte*> counted;
  const auto add = [&](const Tensor& tensor) {
    if (tensor.type() == DataType::kString || !counted.insert(tensor.bytes().data()).second) {
      return;
    }
    total.elements += tensor.size();
    total.bytes += static_cast<std::int64_t>(tensor.bytes().size());
  };
  for_each_graph(graph, [&](const Graph& inner) {
    for (const ValueId id : inner.values()) {
      const Value& value = inner.value(id);
      if (value.constant.has_value()) {
        add(*value.constant);
      } else if (const std::optional<Tensor> constant = inner.constant(id)) {
        add(*constant);
      }
    }
  });
  return total;
}

}  // namespace tempera::graph
