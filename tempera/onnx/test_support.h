#pragma once

/// What the tests of this room share.

#include <unistd.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tempera/base/error.h"
#include "tempera/graph/model.h"
#include "tempera/onnx/proto.h"
#include "tempera/onnx/read.h"

namespace tempera::onnx {

/// A folder of its own for a test, gone afterwards.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "tempera_onnx_XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] std::filesystem::path operator/(std::string_view name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

/// The Error that `action` throws; a failure of the test when it throws none.
inline Error error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& e) {
    return e;
  }
  ADD_FAILURE() << "no error was thrown";
  return Error(ErrorCode::kInternal, "none");
}

[[nodiscard]] inline std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

/// Reads a proto as if it came from a file without external data.
[[nodiscard]] inline graph::Model read_proto(const pb::ModelProto& proto) {
  return read_model(bytes_of(proto.SerializePartialAsString()));
}

inline void write_bytes(const std::filesystem::path& path, std::string_view content) {
  std::ofstream(path, std::ios::binary) << content;
}

/// The value of that name in the graph; a failure when there is none.
[[nodiscard]] inline const graph::Value& value_of(const graph::Graph& g, std::string_view name) {
  const std::optional<graph::ValueId> id = g.find_value(name);
  if (!id.has_value()) {
    throw std::runtime_error(fmt::format("the graph has no value '{}'", name));
  }
  return g.value(*id);
}

/// The first node of that operator.
[[nodiscard]] inline graph::NodeId node_of(const graph::Graph& g, std::string_view op_type) {
  for (const graph::NodeId id : g.nodes()) {
    if (g.node(id).op_type == op_type) {
      return id;
    }
  }
  throw std::runtime_error(fmt::format("the graph has no node {}", op_type));
}

}  // namespace tempera::onnx
