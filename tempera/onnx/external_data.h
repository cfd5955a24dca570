#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tempera::onnx {

/// A file mapped for reading. The mapping lives as long as any copy of bytes().
class MappedFile {
 public:
  MappedFile() = default;
  /// \throws Error{kNotFound} when it does not exist; Error{kIo} when it is no regular file or cannot be mapped
  explicit MappedFile(const std::filesystem::path& path);

  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return {data_.get(), size_}; }
  [[nodiscard]] const std::shared_ptr<const std::byte>& shared() const noexcept { return data_; }
  /// A part of the file, sharing the mapping. \pre offset <= size
  [[nodiscard]] std::shared_ptr<const std::byte> at(std::size_t offset) const { return {data_, data_.get() + offset}; }

 private:
  std::shared_ptr<const std::byte> data_;
  std::size_t size_ = 0;
};

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
