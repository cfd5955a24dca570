#pragma once

#include <map>
#include <string>

namespace tempera::cli {

/// Version of each component by name: tempera, openvino, torch, onnx.
[[nodiscard]] std::map<std::string, std::string> versions();

/// What --version prints.
[[nodiscard]] std::string version_text();

}  // namespace tempera::cli
