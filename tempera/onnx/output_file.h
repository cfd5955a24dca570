#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

namespace tempera::onnx {

/// A file that appears under its name whole, or not at all: written under a temporary name in the same folder, which is
/// removed unless commit() succeeds.
class OutputFile {
 public:
  /// \throws Error{kIo} when it cannot be created
  explicit OutputFile(std::filesystem::path path);
  ~OutputFile();
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  /// Appends. \throws Error{kIo}, for example on a full disk
  void write(std::span<const std::byte> bytes);
  /// Moves on to `offset`, which is not before the present end; the gap reads as zeros.
  void seek(std::uint64_t offset);
  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }

  /// Gives all files their names, after all are safely on disk. When one cannot be renamed those before it are taken
  /// back. \throws Error{kIo}
  static void commit(std::vector<OutputFile> files);

 private:
  void flush();
  void close() noexcept;
  [[noreturn]] void fail(const char* what) const;

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
};

}  // namespace tempera::onnx
