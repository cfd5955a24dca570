#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tempera/base/file.h"

namespace tempera::onnx {

/// The files beside a model that hold its large tensors, each mapped once.
class ExternalData {
 public:
  /// \param model the model's file, or empty
  /// \param folder  where external data lies; empty: there is none
  ExternalData(const std::filesystem::path& model, std::filesystem::path folder);

  /// Bytes of one tensor.
  ///
  /// \param entries ONNX's keys "location", "offset", "length"; others are ignored ("checksum" is not checked: it covers
  ///   the whole file, which would have to be read for it)
  /// \param expected_bytes  what type and dimensions ask for
  /// \throws Error{kBadModel} naming the file: path leaving the model's folder (absolute, "..", by a symbolic link), data
  ///   past the file's end, a length that is not expected_bytes; Error{kNotFound, kIo} when it cannot be opened
  [[nodiscard]] std::shared_ptr<const std::byte> get(const std::map<std::string, std::string>& entries,
                                                     std::size_t expected_bytes);

 private:
  const MappedFile& file(const std::string& location);

  std::filesystem::path folder_;
  std::vector<std::filesystem::path> roots_;  // canonical folders that data may lie in
  std::map<std::string, MappedFile> files_;
};

}  // namespace tempera::onnx
