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

// The library's parser keeps each listed element of a 2- or 4-bit type as an entry of its own; the format packs them.
void pack_listed(pb::TensorProto& tensor) {
  if (!numeric::is_known(tensor.data_type())) {
    return;
  }
  const int bits = numeric::bits_of(static_cast<numeric::DataType>(tensor.data_type()));
  const int per_byte = bits == 2 || bits == 4 ? 8 / bits : 1;
  std::int64_t count = 1;
  for (const std::int64_t dim : tensor.dims()) {
    if (dim < 0 || __builtin_mul_overflow(count, dim, &count)) {
      return;  // reported by the reader
    }
  }
  if (per_byte == 1 || tensor.int32_data_size() != count) {
    return;
  }
  google::protobuf::RepeatedField<std::int32_t> packed;
  for (int i = 0; i < tensor.int32_data_size(); ++i) {
    if (i % per_byte == 0) {
      packed.Add(0);
    }
    const std::int32_t code = tensor.int32_data(i) & ((1 << bits) - 1);
    packed.Set(packed.size() - 1, packed.Get(packed.size() - 1) | code << (i % per_byte * bits));
  }
  tensor.mutable_int32_data()->Swap(&packed);
}

template <typename Nodes>
void pack_listed_in(Nodes& nodes);

void pack_listed_in(pb::GraphProto& graph) {
  for (pb::TensorProto& tensor : *graph.mutable_initializer()) {
    pack_listed(tensor);
  }
  pack_listed_in(*graph.mutable_node());
}

template <typename Nodes>
void pack_listed_in(Nodes& nodes) {
  for (pb::NodeProto& node : nodes) {
    for (pb::AttributeProto& attribute : *node.mutable_attribute()) {
      if (attribute.has_t()) {
        pack_listed(*attribute.mutable_t());
      }
      if (attribute.has_g()) {
        pack_listed_in(*attribute.mutable_g());
      }
    }
  }
}

}  // namespace

graph::Model parse_text(std::string_view text) {
  pb::ModelProto proto;
  const std::string source(text);
  const pb::Common::Status status = pb::OnnxParser::Parse(proto, source.c_str());
  if (!status.IsOK()) {
    throw Error(ErrorCode::kBadModel, fmt::format("the model text cannot be read: {}", status.ErrorMessage()));
  }
  pack_listed_in(*proto.mutable_graph());
  for (pb::FunctionProto& function : *proto.mutable_functions()) {
    pack_listed_in(*function.mutable_node());
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
