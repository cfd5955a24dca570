#include "tempera/base/file_cache.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "tempera/base/error.h"

namespace tempera {
namespace {

namespace fs = std::filesystem;

// With the checksum a full cache line, so that weights within the content stay aligned.
constexpr std::string_view kMagic = "tempera cached file 1          \n";
constexpr std::string_view kSuffix = ".blob";
constexpr std::size_t kHeaderBytes = kMagic.size() + sizeof(Sha256Digest);
static_assert(kHeaderBytes == 64);

// Ours, a regular file, and writable by nobody else: a compiled model among them is code that will run.
bool is_trusted(const fs::path& path) {
  struct stat info {};
  return ::lstat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == ::geteuid() &&
         (info.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

std::optional<std::span<const std::byte>> checked_content(std::span<const std::byte> bytes) {
  if (bytes.size() < kHeaderBytes || !std::equal(kMagic.begin(), kMagic.end(), reinterpret_cast<const char*>(bytes.data()))) {
    return std::nullopt;
  }
  const auto content = bytes.subspan(kHeaderBytes);
  const Sha256Digest digest = sha256(content);
  if (!std::equal(digest.begin(), digest.end(), bytes.begin() + kMagic.size())) {
    return std::nullopt;
  }
  return content;
}

}  // namespace

FileCache::FileCache(fs::path folder, std::int64_t max_bytes) : folder_(std::move(folder)), max_bytes_(max_bytes) {
  std::error_code error;
  const bool made = fs::create_directories(folder_, error);
  if (error) {
    throw Error(ErrorCode::kIo, fmt::format("cannot make the cache folder {}: {}", folder_.string(), error.message()));
  }
  if (made) {
    fs::permissions(folder_, fs::perms::owner_all, error);
  }
}

fs::path FileCache::path_of(const Sha256Digest& key) const { return folder_ / (to_hex(key) + std::string(kSuffix)); }

std::optional<FileCache::Entry> FileCache::find(const Sha256Digest& key) const {
  const fs::path path = path_of(key);
  if (!is_trusted(path)) {
    return std::nullopt;
  }
  Entry entry;
  try {
    entry.file = map_file(path);
  } catch (const Error&) {
    return std::nullopt;  // another process has just removed it
  }
  const auto content = checked_content(entry.file.bytes());
  if (!content) {
    return std::nullopt;
  }
  entry.content = *content;
  std::error_code ignored;
  fs::last_write_time(path, fs::file_time_type::clock::now(), ignored);
  return entry;
}

void FileCache::make_room(std::int64_t bytes) const {
  struct File {
    fs::path path;
    fs::file_time_type used;
    std::int64_t bytes;
  };
  std::vector<File> files;
  std::int64_t total = bytes;
  std::error_code error;
  for (const auto& item : fs::directory_iterator(folder_, error)) {
    if (item.path().extension() != kSuffix || !item.is_regular_file(error)) {
      continue;
    }
    File file{item.path(), item.last_write_time(error), static_cast<std::int64_t>(item.file_size(error))};
    if (!error) {
      total += file.bytes;
      files.push_back(std::move(file));
    }
  }
  std::sort(files.begin(), files.end(), [](const File& a, const File& b) { return a.used < b.used; });
  for (const File& file : files) {
    if (total <= max_bytes_) {
      return;
    }
    fs::remove(file.path, error);
    total -= file.bytes;
  }
}

void FileCache::put(const Sha256Digest& key, std::string_view content) const {
  const auto bytes = static_cast<std::int64_t>(content.size() + kHeaderBytes);
  if (bytes > max_bytes_) {
    return;
  }
  make_room(bytes);
  const Sha256Digest digest = sha256(content);
  AtomicFile file(path_of(key));
  file.write(kMagic);
  file.write(digest);
  file.write(content);
  file.commit();
}

void FileCache::remove(const Sha256Digest& key) const noexcept {
  std::error_code ignored;
  fs::remove(path_of(key), ignored);
}

}  // namespace tempera
