#include "tempera/base/file.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <random>
#include <sys/mman.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

#include "tempera/base/error.h"

namespace tempera {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void throw_errno(const fs::path& path, const char* what, int number) {
  const ErrorCode code = number == ENOENT || number == ENOTDIR ? ErrorCode::kNotFound : ErrorCode::kIo;
  throw Error(code, fmt::format("cannot {} '{}': {}", what, path.string(), std::strerror(number)));
}

/// Owns a file descriptor.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) {
      ::close(number_);
    }
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  [[nodiscard]] int number() const { return number_; }

 private:
  int number_;
};

int open_regular(const fs::path& path, struct stat& status) {
  // O_NONBLOCK: a FIFO given by mistake must not hang the process.
  const int number = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (number < 0) {
    throw_errno(path, "open", errno);
  }
  if (::fstat(number, &status) != 0 || !S_ISREG(status.st_mode)) {
    ::close(number);
    throw Error(ErrorCode::kIo, fmt::format("'{}' is not a regular file", path.string()));
  }
  return number;
}

}  // namespace

std::vector<std::byte> read_file(const fs::path& path, std::size_t max_bytes) {
  struct stat status = {};
  const Descriptor file(open_regular(path, status));
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size > max_bytes) {
    throw Error(ErrorCode::kIo, fmt::format("'{}' has {} bytes, more than the {} allowed here", path.string(),
                                            size, max_bytes));
  }
  std::vector<std::byte> bytes(size);
  std::size_t done = 0;
  while (done < size) {
    const ssize_t got = ::read(file.number(), bytes.data() + done, size - done);
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      throw_errno(path, "read", errno);
    }
    if (got == 0) {
      break;  // cut short since it was opened
    }
    done += static_cast<std::size_t>(got);
  }
  bytes.resize(done);
  return bytes;
}

std::string read_text_file(const fs::path& path, std::size_t max_bytes) {
  const std::vector<std::byte> bytes = read_file(path, max_bytes);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::shared_ptr<const std::byte> MappedFile::slice(std::size_t offset, std::size_t length) const {
  if (offset > size || length > size - offset) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("bytes {} to {} lie outside the {} bytes of the mapped file", offset,
                            offset + length, size));
  }
  return {data, data.get() + offset};
}

MappedFile map_file(const fs::path& path) {
  struct stat status = {};
  const Descriptor file(open_regular(path, status));
  MappedFile mapped;
  mapped.size = static_cast<std::size_t>(status.st_size);
  if (mapped.size == 0) {
    static constexpr std::byte kNothing{};
    mapped.data = std::shared_ptr<const std::byte>(&kNothing, [](const std::byte*) {});
    return mapped;
  }
  void* address = ::mmap(nullptr, mapped.size, PROT_READ, MAP_PRIVATE, file.number(), 0);
  if (address == MAP_FAILED) {
    throw_errno(path, "map", errno);
  }
  mapped.data = std::shared_ptr<const std::byte>(
      static_cast<const std::byte*>(address),
      [address, size = mapped.size](const std::byte*) { ::munmap(address, size); });
  return mapped;
}

AtomicFile::AtomicFile(fs::path path) : path_(std::move(path)) {
  const fs::path folder = path_.has_parent_path() ? path_.parent_path() : fs::path(".");
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    throw Error(ErrorCode::kIo,
                fmt::format("cannot create folder '{}': {}", folder.string(), error.message()));
  }
  // open() with 0666, unlike mkstemp(), gives the permissions that the umask leaves.
  std::random_device random;
  for (int attempt = 0; descriptor_ < 0 && attempt < 16; ++attempt) {
    temporary_ = folder / fmt::format(".{}.{:08x}", path_.filename().string(), random());
    descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor_ < 0 && errno != EEXIST) {
      break;
    }
  }
  if (descriptor_ < 0) {
    throw Error(ErrorCode::kIo, fmt::format("cannot write '{}': {}", path_.string(), std::strerror(errno)),
                "choose an output folder that can be written");
  }
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
    ::unlink(temporary_.c_str());
  }
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  TEMPERA_CHECK(descriptor_ >= 0, "a committed file cannot be written");
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) {
      continue;
    }
    if (written < 0) {
      throw Error(ErrorCode::kIo, fmt::format("cannot write '{}': {}", path_.string(), std::strerror(errno)));
    }
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void AtomicFile::flush() {
  TEMPERA_CHECK(descriptor_ >= 0, "a committed file cannot be flushed");
  if (::fsync(descriptor_) != 0) {
    throw Error(ErrorCode::kIo, fmt::format("cannot write '{}': {}", path_.string(), std::strerror(errno)));
  }
}

void AtomicFile::commit() {
  TEMPERA_CHECK(descriptor_ >= 0, "a file can be committed only once");
  const bool flushed = ::fsync(descriptor_) == 0;
  const int number = errno;
  const bool closed = ::close(descriptor_) == 0;
  descriptor_ = -1;
  if (!flushed || !closed || ::rename(temporary_.c_str(), path_.c_str()) != 0) {
    const int reason = flushed ? errno : number;
    ::unlink(temporary_.c_str());
    throw Error(ErrorCode::kIo, fmt::format("cannot write '{}': {}", path_.string(), std::strerror(reason)));
  }
}

void write_file(const fs::path& path, std::span<const std::byte> bytes) {
  AtomicFile file(path);
  file.write(bytes);
  file.commit();
}

void write_text_file(const fs::path& path, std::string_view text) {
  write_file(path, std::as_bytes(std::span(text.data(), text.size())));
}

}  // namespace tempera
