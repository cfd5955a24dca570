#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tempera/engine/engine.h"

namespace tempera::engine {

/// One engine that can be asked for by name.
struct EngineEntry {
  std::string_view name;     ///< as in --engine
  std::string_view summary;  ///< one line for --list and docs
  std::unique_ptr<Engine> (*make)();
};

/// The engines there are, the default one first. Explicit, so that nothing is registered behind one's back.
///
/// The list is a module of its own, engine_list, above engine/openvino and engine/torch: those implement the interface in
/// engine.h, which therefore may not know them.
[[nodiscard]] std::span<const EngineEntry> engines();

[[nodiscard]] std::vector<std::string> engine_names();

/// \throws Error{kNotFound} with the nearest names
[[nodiscard]] const EngineEntry& find_engine(std::string_view name);

/// A fresh engine. \throws Error{kNotFound} as find_engine(), Error{kEngineUnavailable} when it cannot start here
[[nodiscard]] std::unique_ptr<Engine> make_engine(std::string_view name);

}  // namespace tempera::engine
