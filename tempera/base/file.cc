#include "tempera/base/file.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <functional>
#include <iterator>
#include <map>
#include <mutex>
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

// Writes where the descriptor stands. False, with errno, when not all could be written.
bool write_all(int descriptor, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) {
      continue;
    }
    if (written < 0) {
      return false;
    }
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return true;
}

/// The mappings that live.
class Mappings {
 public:
  static Mappings& all() {
    static auto* mappings = new Mappings;  // never destroyed: tensors that outlive main() may still hold mappings
    return *mappings;
  }

  void add(const std::byte* first, std::size_t size) {
    const std::lock_guard lock(mutex_);
    mappings_[first] = size;
  }

  void unmap(const std::byte* first) {
    const std::lock_guard lock(mutex_);
    const auto found = mappings_.find(first);
    ::munmap(const_cast<std::byte*>(first), found->second);
    mappings_.erase(found);
  }

  [[nodiscard]] bool contain(const std::byte* byte) {
    const std::lock_guard lock(mutex_);
    const auto after = mappings_.upper_bound(byte);
    return after != mappings_.begin() && byte < std::prev(after)->first + std::prev(after)->second;
  }

  void release_pages() {
    const std::lock_guard lock(mutex_);
    for (const auto& [first, size] : mappings_) {
      (void)::madvise(const_cast<std::byte*>(first), size, MADV_DONTNEED);  // never written, so nothing is lost
    }
  }

 private:
  std::mutex mutex_;
  std::map<const std::byte*, std::size_t, std::less<>> mappings_;  // by first byte, with the size
};

MappedFile map_descriptor(int descriptor, std::size_t size, const fs::path& path) {
  MappedFile mapped;
  mapped.size = size;
  if (size == 0) {
    static constexpr std::byte kNothing{};
    mapped.data = std::shared_ptr<const std::byte>(&kNothing, [](const std::byte*) {});
    return mapped;
  }
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
  if (address == MAP_FAILED) {
    throw_errno(path, "map", errno);
  }
  const auto* first = static_cast<const std::byte*>(address);
  Mappings::all().add(first, size);
  mapped.data = std::shared_ptr<const std::byte>(first, [](const std::byte* mapping) { Mappings::all().unmap(mapping); });
  return mapped;
}

fs::path folder_of(const fs::path& path) { return path.has_parent_path() ? path.parent_path() : fs::path("."); }

// Where a file written to `path` really goes: symbolic links are followed, also one whose target does not exist yet.
fs::path destination(const fs::path& path) {
  struct stat status = {};
  if (::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) {
    throw Error(ErrorCode::kIo, fmt::format("'{}' is not a regular file and cannot be replaced", path.string()),
                "choose the name of a file, new or to be replaced");
  }
  constexpr int kMaxLinks = 40;  // as many as Linux follows (path_resolution(7))
  fs::path target = path;
  std::error_code error;
  for (int links = 0; fs::is_symlink(target, error); ++links) {
    const fs::path next = fs::read_symlink(target, error);
    if (error || links == kMaxLinks) {
      const std::string reason = error ? error.message() : std::strerror(ELOOP);
      throw Error(ErrorCode::kIo, fmt::format("cannot write '{}': {}", path.string(), reason));
    }
    target = next.is_absolute() ? next : folder_of(target) / next;
  }
  return target;
}

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
  return map_descriptor(file.number(), static_cast<std::size_t>(status.st_size), path);
}

void release_mapped_pages() { Mappings::all().release_pages(); }

bool is_mapped(const std::byte* byte) { return Mappings::all().contain(byte); }

ScratchFile::ScratchFile(fs::path folder) : folder_(std::move(folder)) {
  descriptor_ = ::open(folder_.c_str(), O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
  if (descriptor_ < 0) {  // a file system without nameless files
    std::string path = (folder_ / ".scratch.XXXXXX").string();
    descriptor_ = ::mkostemp(path.data(), O_CLOEXEC);
    if (descriptor_ < 0) {
      throw_errno(folder_, "make a scratch file in", errno == ENOENT ? EIO : errno);
    }
    ::unlink(path.c_str());
  }
}

ScratchFile::~ScratchFile() { ::close(descriptor_); }

std::size_t ScratchFile::append(std::span<const std::byte> bytes) {
  constexpr std::size_t kAlignment = 64;
  const std::size_t offset = (size_ + kAlignment - 1) / kAlignment * kAlignment;
  if (::lseek(descriptor_, static_cast<off_t>(offset), SEEK_SET) < 0 || !write_all(descriptor_, bytes)) {
    throw_errno(folder_, "write a scratch file in", errno);
  }
  size_ = offset + bytes.size();
  return offset;
}

MappedFile ScratchFile::map() const { return map_descriptor(descriptor_, size_, folder_); }

AtomicFile::AtomicFile(fs::path path) : path_(destination(path)) {
  const fs::path folder = folder_of(path_);
  if (path_ == path) {  // a link says where its target lies, and no folders are made there
    make_folders(folder);
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
    const int reason = errno;
    remove_made_folders();
    throw Error(ErrorCode::kIo, fmt::format("cannot write '{}': {}", path_.string(), std::strerror(reason)),
                "choose an output folder that can be written");
  }
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
    discard();
  }
}

void AtomicFile::make_folders(const fs::path& folder) {
  std::error_code error;
  for (fs::path missing = folder; !missing.empty() && !fs::exists(missing, error); missing = missing.parent_path()) {
    made_folders_.push_back(missing);
  }
  fs::create_directories(folder, error);
  if (error) {
    remove_made_folders();
    throw Error(ErrorCode::kIo, fmt::format("cannot create folder '{}': {}", folder.string(), error.message()));
  }
}

void AtomicFile::remove_made_folders() {
  for (const fs::path& folder : made_folders_) {  // the innermost first; one that others use by now is not empty and stays
    std::error_code error;
    fs::remove(folder, error);
  }
}

void AtomicFile::discard() {
  ::unlink(temporary_.c_str());
  remove_made_folders();
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  TEMPERA_CHECK(descriptor_ >= 0, "a committed file cannot be written");
  if (!write_all(descriptor_, bytes)) {
    throw Error(ErrorCode::kIo, fmt::format("cannot write '{}': {}", path_.string(), std::strerror(errno)));
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
    discard();
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
