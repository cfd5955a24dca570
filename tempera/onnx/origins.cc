#include "tempera/onnx/origins.h"

#include <algorithm>

namespace tempera::onnx {
namespace {

bool is_note(const std::pair<std::string, std::string>& entry) {
  return entry.first == kOriginKey || entry.first == kDerivedKey;
}

}  // namespace

std::optional<std::pair<std::string, std::string>> origin_note(const graph::Value& value,
                                                               std::string_view written_name) {
  if (!value.origin.has_value() || (value.origin->equal && value.origin->tensor == written_name)) {
    return std::nullopt;
  }
  return std::pair(std::string(value.origin->equal ? kOriginKey : kDerivedKey), value.origin->tensor);
}

void take_origin(graph::Graph& graph, graph::ValueId id) {
  const graph::Value& value = graph.value(id);
  const auto note = std::find_if(value.metadata.begin(), value.metadata.end(), is_note);
  if (note == value.metadata.end()) {
    graph.set_origin(id, {value.name, true});
    return;
  }
  graph.set_origin(id, {note->second, note->first == kOriginKey});
  graph::Metadata others = value.metadata;
  std::erase_if(others, is_note);
  graph.set_notes(id, value.doc, std::move(others));
}

}  // namespace tempera::onnx
