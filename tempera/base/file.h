#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tempera {

/// The whole of a regular file.
///
/// \param max_bytes  larger files are refused before anything is allocated
/// \throws Error{kNotFound} when there is no such file, Error{kIo} when it cannot be read or is too large
[[nodiscard]] std::vector<std::byte> read_file(const std::filesystem::path& path,
                                               std::size_t max_bytes = std::size_t{2} << 30);
[[nodiscard]] std::string read_text_file(const std::filesystem::path& path,
                                         std::size_t max_bytes = std::size_t{16} << 20);

/// A file's bytes mapped into memory, private and read-only; unmapped when the last copy of `data` goes.
/// A file cut short by another process while mapped faults on access, as with any mapping.
struct MappedFile {
  std::shared_ptr<const std::byte> data;
  std::size_t size = 0;

  [[nodiscard]] std::span<const std::byte> bytes() const { return {data.get(), size}; }
  /// A part of the mapping that keeps it alive. \throws Error{kInvalidArgument} when it lies outside.
  [[nodiscard]] std::shared_ptr<const std::byte> slice(std::size_t offset, std::size_t length) const;
};
/// \throws Error{kNotFound, kIo}
[[nodiscard]] MappedFile map_file(const std::filesystem::path& path);

/// Gives the pages of all mapped files back to the system; those that are read again come back from the files. Safe while
/// others read them.
void release_mapped_pages();
/// Whether the byte lies in a mapped file.
[[nodiscard]] bool is_mapped(const std::byte* byte);

/// A file without a name, gone with the last mapping of it: room on a disk for bytes that are rarely read, which would
/// otherwise take memory.
class ScratchFile {
 public:
  /// \throws Error{kIo} when none can be made in the folder, which must exist
  explicit ScratchFile(std::filesystem::path folder);
  ~ScratchFile();
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;

  /// \return where the bytes lie in the file, a multiple of 64. \throws Error{kIo}, for example on a full disk
  std::size_t append(std::span<const std::byte> bytes);

  /// All that was appended so far. \throws Error{kIo}
  [[nodiscard]] MappedFile map() const;

 private:
  std::filesystem::path folder_;
  int descriptor_ = -1;
  std::size_t size_ = 0;
};

/// Writes a file that appears whole or not at all: the bytes go to a temporary file in the same folder, which
/// replaces `path` in commit(). Without commit() nothing is left behind. A symbolic link stays: the file it points to is
/// written.
class AtomicFile {
 public:
  /// Creates missing parent folders, but not those of a link's target.
  /// \throws Error{kIo}, also when the path is that of a folder, device, pipe or socket, which is left as it is
  explicit AtomicFile(std::filesystem::path path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// \throws Error{kIo}, for example on a full disk
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text.data(), text.size()))); }

  /// Brings what was written to the disk, so that of a later commit() only the renaming can fail: for files that belong
  /// together. \throws Error{kIo}
  void flush();

  /// Flushes to disk and renames. \throws Error{kIo}
  void commit();

 private:
  void make_folders(const std::filesystem::path& folder);
  void remove_made_folders();
  void discard();

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  std::vector<std::filesystem::path> made_folders_;  // innermost first
  int descriptor_ = -1;
};

/// The whole content through an AtomicFile. \throws Error{kIo}
void write_file(const std::filesystem::path& path, std::span<const std::byte> bytes);
void write_text_file(const std::filesystem::path& path, std::string_view text);

}  // namespace tempera
