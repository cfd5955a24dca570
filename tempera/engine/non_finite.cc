#include "tempera/engine/non_finite.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "tempera/base/error.h"
#include "tempera/engine/inner_tensors.h"
#include "tempera/graph/elements.h"
#include "tempera/numeric/data_type.h"

namespace tempera::engine {
namespace {

using graph::Graph;
using graph::NodeId;
using graph::Tensor;
using graph::ValueId;

constexpr std::int64_t kBatchBytes = std::int64_t{512} << 20;  // of tensors asked for at once

/// What is known of one tensor.
struct Facts {
  std::optional<NonFinite> nan;
  std::optional<NonFinite> infinity;
};

Facts facts_of(const Tensor& tensor) {
  Facts facts;
  if (!tensor.defined() || !numeric::is_float(tensor.type())) {
    return facts;
  }
  std::array<double, graph::kChunk> values{};
  for (std::int64_t begin = 0; begin < tensor.size() && !facts.nan; begin += graph::kChunk) {
    const auto count = static_cast<std::size_t>(std::min(graph::kChunk, tensor.size() - begin));
    const std::span<double> chunk = std::span(values).first(count);
    graph::decode_elements(tensor, begin, chunk);
    for (std::size_t i = 0; i < count; ++i) {
      std::optional<NonFinite>& place = std::isnan(chunk[i]) ? facts.nan : facts.infinity;
      if (!std::isfinite(chunk[i]) && !place) {
        place = NonFinite{graph::index_of(begin + static_cast<std::int64_t>(i), tensor.dims()), chunk[i]};
      }
    }
  }
  return facts;
}

bool may_be_non_finite(const graph::ValueType& type) {
  return type.kind == graph::ValueType::Kind::kUnknown ||
         (type.is_tensor() && (type.element == graph::DataType::kUndefined || numeric::is_float(type.element)));
}

class Tracer {
 public:
  Tracer(const Side& side, std::span<const Tensor> inputs) : side_(side), graph_(side.model->graph), inputs_(inputs) {}

  std::vector<NonFiniteSource> trace(ValueId output) {
    const std::vector<NodeId> nodes = ancestors(output);
    look(nodes);
    std::vector<NonFiniteSource> sources;
    const auto nan = first(nodes, &Facts::nan);
    if (!nan) {
      if (const auto infinity = first(nodes, &Facts::infinity)) {
        sources.push_back(describe(*infinity, &Facts::infinity));
      }
      return sources;
    }
    const bool of_infinities = std::any_of(graph_.node(graph_.producer(*nan)).inputs.begin(),
                                           graph_.node(graph_.producer(*nan)).inputs.end(),
                                           [&](ValueId in) { return made(in) && facts_[in].infinity; });
    if (of_infinities) {
      if (const auto infinity = first(ancestors(*nan), &Facts::infinity)) {
        sources.push_back(describe(*infinity, &Facts::infinity));
      }
    }
    sources.push_back(describe(*nan, &Facts::nan));
    return sources;
  }

 private:
  [[nodiscard]] bool made(ValueId id) const { return id.valid() && graph_.producer(id).valid(); }

  // Nodes that `value` depends on, its own included, in topological order.
  [[nodiscard]] std::vector<NodeId> ancestors(ValueId value) const {
    std::set<NodeId> wanted = {graph_.producer(value)};
    std::vector<NodeId> order = graph_.nodes();
    std::vector<NodeId> found;
    for (auto it = order.rbegin(); it != order.rend(); ++it) {
      if (wanted.count(*it) == 0) {
        continue;
      }
      found.push_back(*it);
      const auto want = [&](ValueId in) {
        if (made(in)) {
          wanted.insert(graph_.producer(in));
        }
      };
      std::for_each(graph_.node(*it).inputs.begin(), graph_.node(*it).inputs.end(), want);
      graph::for_each_body(graph_.node(*it), [&](const std::string&, const Graph& body) {
        for (const graph::Capture& capture : body.captures()) {
          want(capture.outer);
        }
      });
    }
    std::reverse(found.begin(), found.end());
    return found;
  }

  // Fills facts_ for what the nodes make, and for constants that they read.
  void look(const std::vector<NodeId>& nodes) {
    std::vector<ValueId> wanted;
    for (const NodeId id : nodes) {
      const graph::Node& node = graph_.node(id);
      for (const ValueId out : node.outputs) {
        if (out.valid() && may_be_non_finite(graph_.value(out).type)) {
          wanted.push_back(out);
        }
      }
      for (const ValueId in : node.inputs) {
        if (in.valid() && graph_.value(in).constant && facts_.count(in) == 0) {
          facts_[in] = facts_of(*graph_.value(in).constant);
        }
      }
    }
    for (std::size_t begin = 0; begin < wanted.size();) {
      std::size_t end = begin;
      std::int64_t bytes = 0;
      while (end < wanted.size() && (end == begin || bytes < kBatchBytes)) {
        bytes += bytes_estimate(graph_.value(wanted[end++]).type);
      }
      run(std::span(wanted).subspan(begin, end - begin));
      begin = end;
    }
  }

  void run(std::span<const ValueId> wanted) {
    graph::Model model = *side_.model;
    for (const ValueId id : wanted) {
      if (!model.graph.is_output(id)) {
        model.graph.add_output(id);
      }
    }
    const std::vector<ValueId> ids = model.graph.outputs();
    const std::vector<Tensor> values = side_.engine->compile(model, side_.options)->run(inputs_);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      facts_[ids[i]] = facts_of(values.at(i));
    }
  }

  // The first node output that has what no input of its node has.
  [[nodiscard]] std::optional<ValueId> first(const std::vector<NodeId>& nodes, std::optional<NonFinite> Facts::*kind) {
    for (const NodeId id : nodes) {
      const graph::Node& node = graph_.node(id);
      const auto has = [&](ValueId value) { return value.valid() && facts_[value].*kind; };
      if (std::any_of(node.inputs.begin(), node.inputs.end(), has)) {
        continue;
      }
      const auto out = std::find_if(node.outputs.begin(), node.outputs.end(), has);
      if (out != node.outputs.end()) {
        return *out;
      }
    }
    return std::nullopt;
  }

  [[nodiscard]] NonFiniteSource describe(ValueId id, std::optional<NonFinite> Facts::*kind) {
    const graph::Node& node = graph_.node(graph_.producer(id));
    const std::string& tensor = graph_.value(id).name;
    return {tensor, node.name.empty() ? tensor : node.name, node.op_type, *(facts_[id].*kind)};
  }

  const Side& side_;
  const Graph& graph_;
  std::span<const Tensor> inputs_;
  std::map<ValueId, Facts> facts_;
};

std::string text_of(const NonFiniteSource& source) {
  return fmt::format("element {} of '{}' is {} at node '{}' ({})", graph::to_string(source.element.index), source.tensor,
                     source.element.value, source.node, source.op_type);
}

}  // namespace

std::optional<NonFinite> find_non_finite(const Tensor& tensor) {
  Facts facts = facts_of(tensor);
  return facts.nan ? std::move(facts.nan) : std::move(facts.infinity);
}

std::vector<NonFiniteSource> trace_non_finite(const Side& side, std::span<const Tensor> inputs, const std::string& output) {
  const auto id = side.model->graph.find_value(output);
  if (!id || !side.model->graph.producer(*id).valid()) {
    return {};
  }
  return Tracer(side, inputs).trace(*id);
}

void require_finite_outputs(const Side& side, std::span<const Tensor> inputs, std::span<const Port> ports,
                            std::span<const Tensor> outputs) {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const std::optional<NonFinite> element = find_non_finite(outputs[i]);
    if (!element) {
      continue;
    }
    std::string origin;
    std::string hint = "check the range of the inputs (tempera compare MODEL --precisions f32,bf16 compares precisions)";
    try {
      const std::vector<NonFiniteSource> sources = trace_non_finite(side, inputs, ports[i].name);
      for (const NonFiniteSource& source : sources) {
        origin += (origin.empty() ? "; first, " : ", from which ") + text_of(source);
      }
      if (sources.empty()) {
        origin = "; with all inner tensors asked for, which keeps nodes from being fused, none makes it";
      }
    } catch (const Error& error) {  // what explains an error must not hide it
      origin = fmt::format("; the node could not be found: {}", error.what());
    }
    throw Error(ErrorCode::kEngineFailed,
                fmt::format("output '{}' is {} at element {}{}", ports[i].name, element->value,
                            graph::to_string(element->index), origin),
                hint);
  }
}

}  // namespace tempera::engine
