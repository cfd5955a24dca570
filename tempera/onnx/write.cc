#include "tempera/onnx/write.h"

#include <deque>
#include <limits>
#include <optional>
#include <unordered_map>
#include <variant>

#include <fmt/format.h>

#include "tempera/base/error.h"
#include "tempera/onnx/export.h"
#include "tempera/onnx/output_file.h"
#include "tempera/onnx/proto.h"

namespace tempera::onnx {
namespace fs = std::filesystem;
namespace {

using graph::Tensor;

constexpr std::uint64_t kProtobufLimit = std::numeric_limits<std::int32_t>::max();
constexpr std::uint64_t kPage = 4096;

// Field numbers of onnx.proto, all of wire type 2 (length, then bytes).
constexpr char tag(int field) { return static_cast<char>(field << 3 | 2); }
constexpr char kModelGraph = tag(7);
constexpr char kGraphInitializer = tag(5);
constexpr char kTensorRawData = tag(9);

std::string varint(std::uint64_t number) {
  std::string out;
  for (; number >= 0x80; number >>= 7) {
    out += static_cast<char>(number | 0x80);
  }
  return out += static_cast<char>(number);
}

// A serialised model as a list of pieces, in which the weights of the main graph are views: writing a model needs no
// copy of its weights. Protobuf lets the fields of a message come in any order and in parts.
class Pieces {
 public:
  explicit Pieces(const graph::Model& model) {
    std::deque<const Tensor*> large;  // in the order of the main graph's initialisers that have no content
    ExportOptions options;
    options.store = [&](const Tensor& tensor, Place place, pb::TensorProto& proto) {
      if (place == Place::kMainInitializer && tensor.bytes().size() >= kPage) {
        large.push_back(&tensor);
      } else {
        proto.set_raw_data(std::string(as_text(tensor.bytes())));
      }
    };
    Exported exported = export_model(model, options);
    add(std::move(exported.proto), large);
  }

  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }

  template <typename Consume>
  void for_each(Consume consume) const {
    for (const auto& piece : pieces_) {
      if (const auto* text = std::get_if<std::string>(&piece)) {
        consume(std::as_bytes(std::span(*text)));
      } else {
        consume(std::get<std::span<const std::byte>>(piece));
      }
    }
  }

 private:
  void add(pb::ModelProto proto, std::deque<const Tensor*>& large) {
    google::protobuf::RepeatedPtrField<pb::TensorProto> initializers;
    initializers.Swap(proto.mutable_graph()->mutable_initializer());
    const std::string graph = proto.graph().SerializePartialAsString();
    proto.clear_graph();
    std::uint64_t graph_size = graph.size();
    std::vector<std::pair<std::string, std::span<const std::byte>>> tensors;
    for (const pb::TensorProto& initializer : initializers) {
      std::string head = initializer.SerializePartialAsString();
      std::span<const std::byte> content;
      if (!initializer.has_raw_data() && initializer.string_data_size() == 0 && !large.empty() &&
          initializer.data_type() != pb::TensorProto::STRING) {
        content = large.front()->bytes();
        large.pop_front();
        head += kTensorRawData + varint(content.size());
      }
      head = kGraphInitializer + varint(head.size() + content.size()) + head;
      graph_size += head.size() + content.size();
      tensors.emplace_back(std::move(head), content);
    }
    put(proto.SerializePartialAsString() + kModelGraph + varint(graph_size) + graph);
    for (auto& [head, content] : tensors) {
      put(std::move(head));
      if (!content.empty()) {
        put(content);
      }
    }
  }

  template <typename Piece>
  void put(Piece piece) {
    size_ += piece.size();
    pieces_.emplace_back(std::move(piece));
  }

  std::vector<std::variant<std::string, std::span<const std::byte>>> pieces_;
  std::uint64_t size_ = 0;
};

void write_inline(const Pieces& pieces, const fs::path& path) {
  std::vector<OutputFile> files;
  files.emplace_back(path);
  pieces.for_each([&](std::span<const std::byte> bytes) { files.front().write(bytes); });
  OutputFile::commit(std::move(files));
}

void set_external(pb::TensorProto& proto, const std::string& location, std::uint64_t offset, std::uint64_t length) {
  proto.set_data_location(pb::TensorProto::EXTERNAL);
  const auto put = [&](const char* key, const std::string& value) {
    pb::StringStringEntryProto& entry = *proto.add_external_data();
    entry.set_key(key);
    entry.set_value(value);
  };
  put("location", location);
  put("offset", std::to_string(offset));
  put("length", std::to_string(length));
}

void write_external(const graph::Model& model, const fs::path& path, std::int64_t threshold_bytes) {
  const std::string location = path.filename().string() + ".data";
  std::vector<OutputFile> files;  // the data first, so that the model never names data that is not there yet
  files.emplace_back(path.parent_path() / location);
  files.emplace_back(path);
  OutputFile& data = files.front();
  std::unordered_map<const std::byte*, std::pair<std::uint64_t, std::size_t>> written;  // shared tensors go in once
  ExportOptions options;
  options.store = [&](const Tensor& tensor, Place, pb::TensorProto& proto) {
    const std::span<const std::byte> bytes = tensor.bytes();
    if (static_cast<std::int64_t>(bytes.size()) < threshold_bytes || bytes.empty()) {
      proto.set_raw_data(std::string(as_text(bytes)));
      return;
    }
    const auto known = written.find(bytes.data());
    if (known != written.end() && known->second.second == bytes.size()) {
      set_external(proto, location, known->second.first, bytes.size());
      return;
    }
    data.seek((data.size() + kPage - 1) / kPage * kPage);
    written.insert_or_assign(bytes.data(), std::pair(data.size(), bytes.size()));
    set_external(proto, location, data.size(), bytes.size());
    data.write(bytes);
  };
  const Exported exported = export_model(model, options);
  if (exported.proto.ByteSizeLong() > kProtobufLimit) {
    throw Error(ErrorCode::kUnsupported, "the model without its weights is beyond the 2 GB that a protobuf file may have");
  }
  const std::string head = exported.proto.SerializePartialAsString();
  files.back().write(std::as_bytes(std::span(head)));
  OutputFile::commit(std::move(files));
}

}  // namespace

void write_model(const graph::Model& model, const fs::path& path, const WriteOptions& options) {
  const std::int64_t weights = graph::weight_size(model.graph).bytes;
  if (weights <= options.max_inline_bytes) {
    const Pieces pieces(model);
    if (pieces.size() <= static_cast<std::uint64_t>(options.max_inline_bytes) && pieces.size() <= kProtobufLimit) {
      write_inline(pieces, path);
      return;
    }
  }
  write_external(model, path, options.external_threshold_bytes);
}

std::string serialize(const graph::Model& model) {
  const Pieces pieces(model);
  if (pieces.size() > kProtobufLimit) {
    throw Error(ErrorCode::kUnsupported,
                fmt::format("the model takes {} bytes, a protobuf message at most {}", pieces.size(), kProtobufLimit),
                "write it to a file, with its weights in another one");
  }
  std::string out;
  out.reserve(pieces.size());
  pieces.for_each([&](std::span<const std::byte> bytes) { out += as_text(bytes); });
  return out;
}

Skeleton serialize_skeleton(const graph::Model& model, std::int64_t threshold_bytes) {
  ExportOptions options;
  options.inputs_from_bytes = threshold_bytes;
  const Exported exported = export_model(model, options);
  Skeleton skeleton;
  skeleton.bytes = exported.proto.SerializePartialAsString();
  for (const graph::ValueId id : exported.replaced) {
    skeleton.weights.emplace_back(model.graph.value(id).name, *model.graph.value(id).constant);
  }
  return skeleton;
}

}  // namespace tempera::onnx
