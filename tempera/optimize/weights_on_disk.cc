#include "tempera/optimize/weights_on_disk.h"

#include <cstddef>
#include <map>
#include <optional>
#include <system_error>
#include <vector>

#include "tempera/base/error.h"
#include "tempera/base/file.h"

namespace tempera::optimize {
namespace {

constexpr std::size_t kLarge = std::size_t{64} << 10;  // bytes

bool belongs_on_disk(const std::optional<graph::Tensor>& tensor) {
  return tensor.has_value() && tensor->bytes().size() >= kLarge && !is_mapped(tensor->bytes().data());
}

}  // namespace

void move_weights_to_disk(graph::Model& model, const std::filesystem::path& folder) {
  std::optional<ScratchFile> file;
  std::map<const std::byte*, std::size_t> offsets;  // by where the bytes lay
  const auto for_each_large = [&](const auto& act) {
    graph::for_each_graph(model.graph, [&](graph::Graph& graph) {
      for (const graph::ValueId id : graph.values()) {
        if (belongs_on_disk(graph.value(id).constant)) {
          act(graph, id);
        }
      }
    });
  };
  for_each_large([&](const graph::Graph& graph, graph::ValueId id) {
    const graph::Tensor& tensor = *graph.value(id).constant;
    if (!file.has_value()) {
      std::error_code error;
      std::filesystem::create_directories(folder, error);  // where it fails, so does the file
      file.emplace(folder);
    }
    if (!offsets.contains(tensor.bytes().data())) {
      offsets[tensor.bytes().data()] = file->append(tensor.bytes());
    }
  });
  if (!file.has_value()) {
    return;
  }
  const MappedFile mapped = file->map();
  for_each_large([&](graph::Graph& graph, graph::ValueId id) {
    const graph::Tensor tensor = *graph.value(id).constant;
    graph.set_constant(id, graph::Tensor::view(tensor.type(), tensor.dims(),
                                               mapped.slice(offsets.at(tensor.bytes().data()), tensor.bytes().size())));
  });
}

}  // namespace tempera::optimize
