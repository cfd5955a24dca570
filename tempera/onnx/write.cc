#include "tempera/onnx/write.h"

#include <array>
#include <deque>
#include <limits>
#include <map>
#include <variant>

#include <fmt/format.h>

#include "tempera/base/error.h"
#include "tempera/base/file.h"
#include "tempera/onnx/export.h"
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
  AtomicFile file(path);
  pieces.for_each([&](std::span<const std::byte> bytes) { file.write(bytes); });
  file.commit();
}

// The file of weights beside a model.
class WeightFile {
 public:
  WeightFile(const fs::path& path, std::int64_t threshold_bytes)
      : location_(path.filename().string()), threshold_bytes_(threshold_bytes), file_(path) {}

  void store(const Tensor& tensor, pb::TensorProto& proto) {
    const std::span<const std::byte> bytes = tensor.bytes();
    if (bytes.empty() || static_cast<std::int64_t>(bytes.size()) < threshold_bytes_) {
      proto.set_raw_data(std::string(as_text(bytes)));
      return;
    }
    const auto [known, is_new] = offsets_.emplace(std::pair(bytes.data(), bytes.size()), 0);  // shared ones go in once
    if (is_new) {
      pad();
      known->second = size_;
      file_.write(bytes);
      size_ += bytes.size();
    }
    proto.set_data_location(pb::TensorProto::EXTERNAL);
    add_entry(proto, "location", location_);
    add_entry(proto, "offset", std::to_string(known->second));
    add_entry(proto, "length", std::to_string(bytes.size()));
  }

  AtomicFile& file() noexcept { return file_; }

 private:
  void pad() {
    static constexpr std::array<std::byte, kPage> kZeros{};
    const std::uint64_t gap = (kPage - size_ % kPage) % kPage;
    file_.write(std::span(kZeros).first(gap));
    size_ += gap;
  }

  static void add_entry(pb::TensorProto& proto, const char* key, const std::string& value) {
    pb::StringStringEntryProto& entry = *proto.add_external_data();
    entry.set_key(key);
    entry.set_value(value);
  }

  std::string location_;
  std::int64_t threshold_bytes_;
  AtomicFile file_;
  std::uint64_t size_ = 0;
  std::map<std::pair<const std::byte*, std::size_t>, std::uint64_t> offsets_;
};

void write_external(const graph::Model& model, const fs::path& path, std::int64_t threshold_bytes) {
  WeightFile weights(path.string() + ".data", threshold_bytes);
  ExportOptions options;
  options.store = [&](const Tensor& tensor, Place, pb::TensorProto& proto) { weights.store(tensor, proto); };
  const Exported exported = export_model(model, options);
  if (exported.proto.ByteSizeLong() > kProtobufLimit) {
    throw Error(ErrorCode::kUnsupported, "the model without its weights is beyond the 2 GB that a protobuf file may have");
  }
  AtomicFile file(path);
  file.write(exported.proto.SerializePartialAsString());
  // Both are on the disk before the first is renamed; the data first, so that no model names data that is not there.
  file.flush();
  weights.file().commit();
  file.commit();
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

Sha256Digest content_hash(const graph::Model& model) {
  constexpr std::int64_t kByItself = 16 << 10;  // below it a weight is hashed as part of the structure
  const Skeleton skeleton = serialize_skeleton(model, kByItself);
  Sha256 hash;
  const auto add = [&hash](std::string_view text) {
    hash.update(fmt::format("{}:", text.size()));
    hash.update(text);
  };
  add(skeleton.bytes);
  for (const auto& [name, weight] : skeleton.weights) {
    add(name);
    add(fmt::format("{}{}", numeric::to_string(weight.type()), graph::to_string(weight.dims())));
    hash.update(weight.bytes());
  }
  return hash.finish();
}

}  // namespace tempera::onnx
