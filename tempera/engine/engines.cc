#include "tempera/engine/engines.h"

#include <algorithm>
#include <array>

#include "tempera/base/error.h"
#include "tempera/engine/openvino/openvino_engine.h"
#include "tempera/engine/torch/torch_engine.h"

namespace tempera::engine {
namespace {

constexpr std::array<EngineEntry, 2> kEngines{{
    {"openvino", "OpenVINO on this machine's CPU: the fast one, for deployment", make_openvino_engine},
    {"torch", "PyTorch's ATen, one operator after the other: the reference",
     []() -> std::unique_ptr<Engine> { return make_torch_engine(); }},
}};

}  // namespace

std::span<const EngineEntry> engines() { return kEngines; }

std::vector<std::string> engine_names() {
  std::vector<std::string> names;
  std::transform(kEngines.begin(), kEngines.end(), std::back_inserter(names),
                 [](const EngineEntry& entry) { return std::string(entry.name); });
  return names;
}

const EngineEntry& find_engine(std::string_view name) {
  const auto* found = std::find_if(kEngines.begin(), kEngines.end(),
                                   [name](const EngineEntry& entry) { return entry.name == name; });
  if (found == kEngines.end()) {
    throw Error(ErrorCode::kNotFound, unknown_name("engine", name, engine_names()));
  }
  return *found;
}

std::unique_ptr<Engine> make_engine(std::string_view name) { return find_engine(name).make(); }

}  // namespace tempera::engine
