#include "tempera/cli/versions.h"

namespace tempera::cli {

std::map<std::string, std::string> versions() {
  return {{"tempera", TEMPERA_VERSION},
          {"openvino", TEMPERA_OPENVINO_VERSION},
          {"torch", TEMPERA_TORCH_VERSION},
          {"onnx", TEMPERA_ONNX_VERSION}};
}

std::string version_text() {
  std::string text = "tempera " TEMPERA_VERSION;
  text += "\nengines: openvino " TEMPERA_OPENVINO_VERSION ", torch " TEMPERA_TORCH_VERSION;
  text += "\nformats: onnx " TEMPERA_ONNX_VERSION " (opset 1 to 28)";
  return text;
}

}  // namespace tempera::cli
