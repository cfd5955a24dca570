#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "tempera/base/file.h"
#include "tempera/base/hash.h"

namespace tempera {

/// What is costly to make again (compiled models, calibrations), in a folder, one file each, named by a key of all that it
/// depends on.
///
///   file = a line "tempera cached file 1" (32 bytes), SHA-256 of the content (32 bytes), content
///
/// A file counts only when it belongs to this user, nobody else may write to it, and its checksum holds; otherwise it is
/// as if absent and will be replaced. Several processes may share the folder: files appear whole.
class FileCache {
 public:
  /// \param max_bytes  files longest unused go first when the folder would exceed this
  /// \throws Error{kIo} when the folder cannot be made
  FileCache(std::filesystem::path folder, std::int64_t max_bytes);

  /// The content, mapped; marks it as used.
  struct Entry {
    MappedFile file;  ///< keeps `content` alive
    std::span<const std::byte> content;
  };
  [[nodiscard]] std::optional<Entry> find(const Sha256Digest& key) const;

  /// Content larger than the whole cache is not kept. \throws Error{kIo} when it cannot be written
  void put(const Sha256Digest& key, std::string_view content) const;

  void remove(const Sha256Digest& key) const noexcept;

 private:
  [[nodiscard]] std::filesystem::path path_of(const Sha256Digest& key) const;
  void make_room(std::int64_t bytes) const;

  std::filesystem::path folder_;
  std::int64_t max_bytes_;
};

}  // namespace tempera
