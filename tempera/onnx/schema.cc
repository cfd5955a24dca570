#include "tempera/onnx/schema.h"

#include <string>

namespace tempera::onnx {

const ::onnx::OpSchema* schema_of(const graph::Node& node, const graph::Opsets& opsets) {
  const std::string domain = node.domain == "ai.onnx" ? std::string() : node.domain;
  auto opset = opsets.find(domain);
  if (opset == opsets.end() && domain.empty()) {
    opset = opsets.find("ai.onnx");
  }
  if (opset == opsets.end()) {
    return nullptr;
  }
  return ::onnx::OpSchemaRegistry::Schema(node.op_type, static_cast<int>(opset->second), domain);
}

}  // namespace tempera::onnx
