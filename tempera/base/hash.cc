#include "tempera/base/hash.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <vector>

#include <fmt/format.h>
#include <openssl/evp.h>

#include "tempera/base/error.h"

namespace tempera {

struct Sha256::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();

  State() { start(); }
  ~State() { EVP_MD_CTX_free(context); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  void start() {
    const bool ready = context != nullptr && EVP_DigestInit_ex(context, EVP_sha256(), nullptr) == 1;
    TEMPERA_CHECK(ready, "OpenSSL offers no SHA-256");
  }
};

Sha256::Sha256() : state_(std::make_unique<State>()) {}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::update(std::span<const std::byte> bytes) {
  const bool done = EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()) == 1;
  TEMPERA_CHECK(done, "OpenSSL failed to hash");
}

Sha256Digest Sha256::finish() {
  Sha256Digest digest = {};
  unsigned int size = 0;
  const bool done =
      EVP_DigestFinal_ex(state_->context, reinterpret_cast<unsigned char*>(digest.data()), &size) == 1 &&
      size == digest.size();
  TEMPERA_CHECK(done, "OpenSSL failed to hash");
  state_->start();
  return digest;
}

Sha256Digest sha256(std::span<const std::byte> bytes) {
  Sha256 hash;
  hash.update(bytes);
  return hash.finish();
}

Sha256Digest sha256(std::string_view text) {
  return sha256(std::as_bytes(std::span(text.data(), text.size())));
}

Sha256Digest sha256_of_file(const std::filesystem::path& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rbe"), &std::fclose);
  if (file == nullptr) {
    throw Error(errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo,
                fmt::format("cannot open '{}': {}", path.string(), std::strerror(errno)));
  }
  Sha256 hash;
  std::vector<std::byte> buffer(std::size_t{1} << 20);
  std::size_t got = 0;
  while ((got = std::fread(buffer.data(), 1, buffer.size(), file.get())) > 0) {
    hash.update({buffer.data(), got});
  }
  if (std::ferror(file.get()) != 0) {
    throw Error(ErrorCode::kIo, fmt::format("cannot read '{}'", path.string()));
  }
  return hash.finish();
}

std::string to_hex(const Sha256Digest& digest) {
  std::string text;
  for (const std::byte value : digest) {
    text += fmt::format("{:02x}", static_cast<unsigned>(value));
  }
  return text;
}

}  // namespace tempera
