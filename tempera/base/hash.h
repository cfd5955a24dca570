#pragma once

#include <array>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace tempera {

using Sha256Digest = std::array<std::byte, 32>;

/// SHA-256 of bytes given in pieces (FIPS 180-4, computed by OpenSSL).
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  void update(std::span<const std::byte> bytes);
  void update(std::string_view text) { update(std::as_bytes(std::span(text.data(), text.size()))); }
  /// Ends the message; the object then holds a fresh, empty one.
  [[nodiscard]] Sha256Digest finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

[[nodiscard]] Sha256Digest sha256(std::span<const std::byte> bytes);
[[nodiscard]] Sha256Digest sha256(std::string_view text);
/// Of a file's content, read in pieces. \throws Error{kNotFound, kIo}
[[nodiscard]] Sha256Digest sha256_of_file(const std::filesystem::path& path);

/// 64 lower-case hexadecimal digits.
[[nodiscard]] std::string to_hex(const Sha256Digest& digest);

}  // namespace tempera
