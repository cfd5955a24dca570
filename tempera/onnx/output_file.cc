#include "tempera/onnx/output_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "tempera/base/error.h"

namespace tempera::onnx {
namespace fs = std::filesystem;
namespace {

fs::path sibling(const fs::path& path, int attempt, const char* suffix) {
  return path.parent_path() / fmt::format(".{}.{}-{}.{}", path.filename().string(), ::getpid(), attempt, suffix);
}

}  // namespace

OutputFile::OutputFile(fs::path path) : path_(std::move(path)) {
  constexpr int kAttempts = 100;
  for (int attempt = 0; attempt < kAttempts && descriptor_ < 0; ++attempt) {
    temporary_ = sibling(path_, attempt, "tmp");
    descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor_ < 0 && errno != EEXIST) {
      break;
    }
  }
  if (descriptor_ < 0) {
    temporary_.clear();
    fail("create");
  }
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::exchange(other.temporary_, {})),
      descriptor_(std::exchange(other.descriptor_, -1)),
      size_(other.size_) {}

OutputFile::~OutputFile() {
  close();
  if (!temporary_.empty()) {
    ::unlink(temporary_.c_str());
  }
}

void OutputFile::close() noexcept {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
    descriptor_ = -1;
  }
}

void OutputFile::fail(const char* what) const {
  throw Error(ErrorCode::kIo, fmt::format("cannot {} '{}': {}", what, path_.string(), std::strerror(errno)));
}

void OutputFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(size_));
    if (written < 0 && errno == EINTR) {
      continue;
    }
    if (written <= 0) {
      fail("write");
    }
    size_ += static_cast<std::uint64_t>(written);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void OutputFile::seek(std::uint64_t offset) {
  TEMPERA_CHECK(offset >= size_, "a file is written front to back");
  size_ = offset;
}

void OutputFile::flush() {
  if (::ftruncate(descriptor_, static_cast<off_t>(size_)) != 0 || ::fsync(descriptor_) != 0) {
    fail("write");
  }
  close();
}

void OutputFile::commit(std::vector<OutputFile> files) {
  for (OutputFile& file : files) {
    file.flush();
  }
  std::vector<std::pair<fs::path, fs::path>> undo;  // name, and where the old content waits (empty: there was none)
  const auto take_back = [&] {
    for (auto entry = undo.rbegin(); entry != undo.rend(); ++entry) {
      if (entry->second.empty()) {
        ::unlink(entry->first.c_str());
      } else {
        ::rename(entry->second.c_str(), entry->first.c_str());
      }
    }
  };
  for (OutputFile& file : files) {
    const bool is_last = &file == &files.back();
    fs::path old;
    if (!is_last && fs::exists(fs::symlink_status(file.path_))) {
      old = sibling(file.path_, 0, "old");
      ::unlink(old.c_str());
      if (::link(file.path_.c_str(), old.c_str()) != 0) {
        old.clear();  // a file system without links: the old content cannot be brought back
      }
    }
    if (::rename(file.temporary_.c_str(), file.path_.c_str()) != 0) {
      const int reason = errno;
      take_back();
      errno = reason;
      file.fail("replace");
    }
    file.temporary_.clear();
    if (!is_last) {
      undo.emplace_back(file.path_, old);
    }
  }
  for (const auto& [name, old] : undo) {
    if (!old.empty()) {
      ::unlink(old.c_str());
    }
  }
}

}  // namespace tempera::onnx
