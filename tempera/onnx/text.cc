#include "tempera/onnx/text.h"

#include <fmt/format.h>
#include <onnx/checker.h>
#include <onnx/defs/parser.h>
#include <onnx/defs/printer.h>

#include "tempera/base/error.h"
#include "tempera/onnx/export.h"
#include "tempera/onnx/import.h"
#include "tempera/onnx/problems.h"

namespace tempera::onnx {
namespace {

// The size above which a weight's content is left away where only its type matters.
constexpr std::int64_t kLargeBytes = 1024;

std::int64_t ir_version_of_opset(std::int64_t opset) {
  // The version table of ONNX's releases (docs/Versioning.md), for text that states no IR version of its own.
  return opset >= 28   ? 14
         : opset >= 25 ? 13
         : opset >= 24 ? 12
         : opset >= 23 ? 11
         : opset >= 21 ? 10
         : opset >= 19 ? 9
                       : 8;
}

}  // namespace

graph::Model parse_text(std::string_view text) {
  pb::ModelProto proto;
  const std::string source(text);
  const pb::Common::Status status = pb::OnnxParser::Parse(proto, source.c_str());
  if (!status.IsOK()) {
    throw Error(ErrorCode::kBadModel, fmt::format("the model text cannot be read: {}", status.ErrorMessage()));
  }
  ExternalData none({}, {});
  return import_model(proto, none, {});
}

graph::Model parse_graph(std::string_view text, std::int64_t opset) {
  return parse_text(fmt::format("<ir_version: {}, opset_import: [\"\" : {}]>\n{}", ir_version_of_opset(opset), opset,
                                text));
}

std::string print_text(const graph::Model& model) { return pb::ProtoToString(export_model(model).proto); }

void check_model(const graph::Model& model) {
  ExportOptions options;
  options.inputs_from_bytes = kLargeBytes;
  const Exported exported = export_model(model, options);
  try {
    pb::checker::check_model(exported.proto, /*full_check=*/true);
  } catch (const std::exception& e) {
    throw Error(ErrorCode::kBadModel, fmt::format("the ONNX checker refuses the model: {}", e.what()));
  }
}

}  // namespace tempera::onnx
