#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tempera/base/file.h"
#include "tempera/data/npy.h"
#include "tempera/graph/tensor.h"

namespace tempera::data {

/// A NumPy .npz archive open for reading: a zip of .npy members, stored or deflated, 64-bit sizes included.
/// Members are read when asked for. Sizes, offsets and checksums are checked; a member may not grow beyond
/// `max_member_bytes`.
///
/// Const methods are safe to call from several threads.
class NpzFile {
 public:
  /// \throws Error{kNotFound, kIo} when it cannot be read, Error{kInvalidArgument} when it is not such an
  /// archive
  explicit NpzFile(const std::filesystem::path& path, std::size_t max_member_bytes = std::size_t{8} << 30);

  /// The same from memory. \param name  for messages
  NpzFile(MappedFile file, std::filesystem::path name, std::size_t max_member_bytes = std::size_t{8} << 30);

  /// Names of the arrays (".npy" removed), in the order of the archive.
  [[nodiscard]] const std::vector<std::string>& names() const noexcept { return names_; }
  [[nodiscard]] bool contains(std::string_view name) const;
  /// \throws Error{kNotFound} for an unknown name, listing the nearest; Error{kInvalidArgument} for a damaged
  /// member
  [[nodiscard]] graph::Tensor read(std::string_view name) const;
  /// Type and dimensions without unpacking the data.
  [[nodiscard]] NpyHeader header(std::string_view name) const;

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

 private:
  struct Member {
    std::uint64_t local_offset = 0;
    std::uint64_t packed_size = 0;
    std::uint64_t size = 0;
    std::uint32_t crc = 0;
    std::uint16_t method = 0;
  };
  void read_directory(std::size_t max_member_bytes);
  [[nodiscard]] const Member& member(std::string_view name) const;
  [[nodiscard]] std::vector<std::byte> unpack(const Member& member, std::size_t at_most) const;

  std::filesystem::path path_;
  MappedFile file_;
  std::vector<std::string> names_;
  std::vector<Member> members_;
};

using NamedTensors = std::vector<std::pair<std::string, graph::Tensor>>;

/// Every array of the archive. \throws as NpzFile
[[nodiscard]] NamedTensors read_npz(const std::filesystem::path& path);

/// Writes an archive that appears whole or not at all; equal arrays give equal bytes (no times inside).
/// \param compress  deflate each member
void write_npz(const std::filesystem::path& path, const NamedTensors& arrays, bool compress = true);

}  // namespace tempera::data
