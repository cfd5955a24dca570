#include "tempera/onnx/read.h"

#include <algorithm>
#include <limits>
#include <new>
#include <string_view>

#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>

#include "tempera/base/error.h"
#include "tempera/base/file.h"
#include "tempera/onnx/external_data.h"
#include "tempera/onnx/import.h"
#include "tempera/onnx/problems.h"
#include "tempera/onnx/proto.h"
#include "tempera/onnx/tensor_proto.h"

namespace tempera::onnx {
namespace fs = std::filesystem;
namespace {

// Messages nest three deep for one body (graph, node, attribute) and two for one type.
constexpr int kMessagesPerLevel = 3;

bool parse(google::protobuf::MessageLite& message, std::span<const std::byte> bytes, int max_depth) {
  google::protobuf::io::CodedInputStream stream(reinterpret_cast<const std::uint8_t*>(bytes.data()),
                                                static_cast<int>(bytes.size()));
  stream.SetRecursionLimit(kMessagesPerLevel * max_depth + 16);
  return message.ParsePartialFromCodedStream(&stream) && stream.ConsumedEntireMessage();
}

// What people hand over by mistake most often.
std::string hint_for(std::span<const std::byte> bytes) {
  const std::string_view head = as_text(bytes.first(std::min<std::size_t>(bytes.size(), 64)));
  if (head.starts_with("version https://git-lfs")) {
    return "this is a Git LFS pointer: fetch the model itself with `git lfs pull`";
  }
  if (head.starts_with("PK")) {
    return "this is a zip archive (a PyTorch checkpoint?): export the model to ONNX";
  }
  if (head.starts_with("<")) {
    return "this is a web page or XML, not a model: download the file itself";
  }
  return "check that the file is an ONNX model and was copied whole";
}

graph::Model read_bytes(std::span<const std::byte> bytes, ExternalData& external, const ReadOptions& options) {
  const std::size_t limit = std::min<std::size_t>(options.max_file_bytes, std::numeric_limits<int>::max());
  if (bytes.size() > limit) {
    throw Error(ErrorCode::kBadModel, fmt::format("the model takes {} bytes, the limit is {}", bytes.size(), limit),
                "keep the weights of large models in an external file");
  }
  pb::ModelProto proto;
  if (!parse(proto, bytes, options.max_depth)) {
    throw Error(ErrorCode::kBadModel,
                fmt::format("not a valid ONNX file: cut off, damaged, or nested deeper than {}", options.max_depth),
                hint_for(bytes));
  }
  if (!proto.has_ir_version() && !proto.has_graph()) {
    throw Error(ErrorCode::kBadModel, "not an ONNX model: neither an IR version nor a graph", hint_for(bytes));
  }
  return import_model(proto, external, options);
}

// Memory that runs out while a file is read is the file's doing, as far as the user can tell.
graph::Model read_guarded(std::span<const std::byte> bytes, ExternalData& external, const ReadOptions& options) {
  try {
    return read_bytes(bytes, external, options);
  } catch (const std::bad_alloc&) {
    throw Error(ErrorCode::kOutOfMemory, fmt::format("not enough memory to read a model of {} bytes", bytes.size()));
  }
}

}  // namespace

graph::Model read_model(const fs::path& path, const ReadOptions& options) {
  try {
    const MappedFile file = map_file(path);
    ExternalData external(path, path.has_parent_path() ? path.parent_path() : fs::path("."));
    graph::Model model = read_guarded(file.bytes(), external, options);
    model.source = path;
    return model;
  } catch (Error& e) {
    e.in(fmt::format("model '{}'", path.string()));
    throw;
  }
}

graph::Model read_model(std::span<const std::byte> bytes, const fs::path& folder, const ReadOptions& options) {
  ExternalData external({}, folder);
  return read_guarded(bytes, external, options);
}

graph::Tensor read_tensor(std::span<const std::byte> bytes) {
  pb::TensorProto proto;
  if (bytes.size() > std::numeric_limits<int>::max() || !parse(proto, bytes, 1)) {
    throw Error(ErrorCode::kBadModel, "not a valid ONNX tensor: cut off or damaged");
  }
  ExternalData none({}, {});
  return tensor_from(proto, none);
}

}  // namespace tempera::onnx
