#include "tempera/data/dataset.h"

#include <algorithm>

#include <fmt/format.h>

#include "tempera/base/error.h"

namespace tempera::data {

std::vector<std::string> required_inputs(const graph::Graph& graph) {
  std::vector<std::string> names;
  for (const graph::ValueId id : graph.inputs()) {
    const graph::Value& value = graph.value(id);
    if (!value.constant) {
      names.push_back(value.name);
    }
  }
  return names;
}

std::vector<graph::Tensor> arrange_inputs(const Sample& sample, const graph::Graph& graph,
                                          const std::vector<std::string>& names) {
  const std::vector<std::string> held = required_inputs(graph);
  TEMPERA_CHECK(held.size() == sample.inputs.size(),
                fmt::format("sample '{}' does not fit the graph", sample.name));
  std::vector<graph::Tensor> inputs;
  inputs.reserve(names.size());
  for (const std::string& name : names) {
    const auto found = std::find(held.begin(), held.end(), name);
    TEMPERA_CHECK(found != held.end(),
                  fmt::format("the session wants an input '{}' that samples lack", name));
    inputs.push_back(sample.inputs[static_cast<std::size_t>(found - held.begin())]);
  }
  return inputs;
}

}  // namespace tempera::data
