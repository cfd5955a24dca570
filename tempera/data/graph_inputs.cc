#include "tempera/data/dataset.h"

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

}  // namespace tempera::data
