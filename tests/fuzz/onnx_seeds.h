#pragma once

#include <string>
#include <utility>
#include <vector>

namespace tempera::fuzz {

/// Small serialised models that together use every part of the format: name and bytes.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> onnx_seeds();

}  // namespace tempera::fuzz
