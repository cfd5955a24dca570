#include "tempera/data/npz.h"

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <optional>

#include <fmt/format.h>
#include <zlib.h>

#include "tempera/base/error.h"

namespace tempera::data {
namespace {

using graph::Tensor;

// Records of a zip file (PKWARE APPNOTE 6.3.10): signatures, fixed sizes and the offsets used below.
constexpr std::uint32_t kLocalSignature = 0x04034b50;
constexpr std::uint32_t kCentralSignature = 0x02014b50;
constexpr std::uint32_t kEndSignature = 0x06054b50;
constexpr std::uint32_t kEnd64Signature = 0x06064b50;
constexpr std::uint32_t kEnd64LocatorSignature = 0x07064b50;
constexpr std::size_t kLocalSize = 30;
constexpr std::size_t kCentralSize = 46;
constexpr std::size_t kEndSize = 22;
constexpr std::size_t kEnd64Size = 56;
constexpr std::size_t kEnd64LocatorSize = 20;
constexpr std::uint16_t kStored = 0;
constexpr std::uint16_t kDeflated = 8;
constexpr std::uint16_t kZip64Extra = 1;
constexpr std::uint32_t kIn64BitField = 0xFFFFFFFF;  // "see the zip64 extra field"
constexpr std::uint64_t kMaxMembers = 1U << 20;

[[noreturn]] void fail(const std::string& message) {
  throw Error(ErrorCode::kInvalidArgument, message,
              "write the file with numpy.savez or numpy.savez_compressed");
}

/// Little-endian numbers of a byte range; every access is checked.
class Bytes {
 public:
  explicit Bytes(std::span<const std::byte> bytes) : bytes_(bytes) {}

  [[nodiscard]] std::size_t size() const { return bytes_.size(); }

  [[nodiscard]] std::span<const std::byte> part(std::uint64_t offset, std::uint64_t length) const {
    if (offset > bytes_.size() || length > bytes_.size() - offset) {
      fail("the archive is cut short or damaged: a record lies outside the file");
    }
    return bytes_.subspan(offset, length);
  }

  template <typename T>
  [[nodiscard]] T get(std::uint64_t offset) const {
    T value = 0;
    std::memcpy(&value, part(offset, sizeof(T)).data(), sizeof(T));
    return value;
  }

 private:
  std::span<const std::byte> bytes_;
};

struct Directory {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  std::uint64_t members = 0;
};

Directory find_directory(const Bytes& file) {
  if (file.size() < kEndSize) {
    fail("not an archive: the file is too short");
  }
  // The end record stands last, before a comment of at most 65,535 bytes.
  const std::size_t last = file.size() - kEndSize;
  const std::size_t first = last > 65535 ? last - 65535 : 0;
  std::optional<std::size_t> end;
  for (std::size_t at = last + 1; at > first && !end; --at) {
    if (file.get<std::uint32_t>(at - 1) == kEndSignature) {
      end = at - 1;
    }
  }
  if (!end) {
    fail("not an archive, or cut short: it has no directory at its end");
  }
  Directory directory;
  directory.members = file.get<std::uint16_t>(*end + 10);
  directory.size = file.get<std::uint32_t>(*end + 12);
  directory.offset = file.get<std::uint32_t>(*end + 16);
  if (*end >= kEnd64LocatorSize &&
      file.get<std::uint32_t>(*end - kEnd64LocatorSize) == kEnd64LocatorSignature) {
    const auto at = file.get<std::uint64_t>(*end - kEnd64LocatorSize + 8);
    (void)file.part(at, kEnd64Size);
    if (file.get<std::uint32_t>(at) != kEnd64Signature) {
      fail("the archive's 64-bit end record is damaged");
    }
    directory.members = file.get<std::uint64_t>(at + 32);
    directory.size = file.get<std::uint64_t>(at + 40);
    directory.offset = file.get<std::uint64_t>(at + 48);
  }
  if (directory.members > kMaxMembers) {
    fail(fmt::format("the archive claims {} members", directory.members));
  }
  return directory;
}

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Inflates at most `at_most` bytes of a raw deflate stream that claims to hold `size`.
std::vector<std::byte> inflate_raw(std::span<const std::byte> packed, std::uint64_t size,
                                   std::size_t at_most) {
  z_stream stream = {};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) {
    throw Error(ErrorCode::kOutOfMemory, "zlib could not start");
  }
  const std::unique_ptr<z_stream, int (*)(z_streamp)> guard(&stream, &inflateEnd);
  constexpr std::size_t kMaxStep = std::numeric_limits<uInt>::max();
  constexpr std::size_t kFirst = std::size_t{1} << 20;
  const std::size_t wanted = std::min<std::uint64_t>(size, at_most);
  std::vector<std::byte> out;
  std::size_t done = 0;
  int status = Z_OK;
  while (done < wanted && status != Z_STREAM_END) {
    if (done == out.size()) {  // grows with what is really there, so that a lying size costs no memory
      out.resize(std::min(wanted, std::max(done * 2, kFirst)));
    }
    const std::size_t input = std::min(packed.size(), kMaxStep);
    const std::size_t room = std::min(out.size() - done, kMaxStep);
    // zlib's interface is not const-correct; it only reads.
    stream.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(packed.data()));
    stream.avail_in = static_cast<uInt>(input);
    stream.next_out = reinterpret_cast<Bytef*>(out.data() + done);
    stream.avail_out = static_cast<uInt>(room);
    status = inflate(&stream, Z_NO_FLUSH);
    if (status != Z_OK && status != Z_STREAM_END) {
      fail("the compressed data are damaged or cut short");
    }
    packed = packed.subspan(input - stream.avail_in);
    done += room - stream.avail_out;
  }
  out.resize(done);
  return out;
}

/// CRC-32 as zip has it; zlib's length argument is 32 bits wide.
std::uint32_t crc_of(std::span<const std::byte> bytes) {
  uLong crc = crc32(0, nullptr, 0);
  while (!bytes.empty()) {
    const std::size_t step = std::min<std::size_t>(bytes.size(), std::size_t{1} << 30);
    crc = crc32(crc, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(step));
    bytes = bytes.subspan(step);
  }
  return static_cast<std::uint32_t>(crc);
}

/// The zip64 extra field holds, in the order of `fields`, only those numbers that did not fit
/// (APPNOTE 4.5.3).
void read_zip64(const Bytes& extra, std::initializer_list<std::uint64_t*> fields) {
  for (std::size_t at = 0; at + 4 <= extra.size();) {
    const auto id = extra.get<std::uint16_t>(at);
    const auto length = extra.get<std::uint16_t>(at + 2);
    if (id == kZip64Extra) {
      const Bytes numbers(extra.part(at + 4, length));
      std::size_t next = 0;
      for (std::uint64_t* field : fields) {
        if (*field == kIn64BitField) {
          *field = numbers.get<std::uint64_t>(next);
          next += 8;
        }
      }
    }
    at += std::size_t{4} + length;
  }
}

}  // namespace

NpzFile::NpzFile(const std::filesystem::path& path, std::size_t max_member_bytes)
    : NpzFile(map_file(path), path, max_member_bytes) {}

NpzFile::NpzFile(MappedFile file, std::filesystem::path name, std::size_t max_member_bytes)
    : path_(std::move(name)), file_(std::move(file)) {
  try {
    read_directory(max_member_bytes);
  } catch (Error& error) {
    error.in(fmt::format("file {}", path_.string()));
    throw;
  }
}

void NpzFile::read_directory(std::size_t max_member_bytes) {
  const Bytes file(file_.bytes());
  const Directory directory = find_directory(file);
  (void)file.part(directory.offset, directory.size);
  std::uint64_t at = directory.offset;
  for (std::uint64_t i = 0; i < directory.members; ++i) {
    if (file.get<std::uint32_t>(at) != kCentralSignature) {
      fail("the archive's directory is damaged");
    }
    const auto flags = file.get<std::uint16_t>(at + 8);
    const auto name_size = file.get<std::uint16_t>(at + 28);
    const auto extra_size = file.get<std::uint16_t>(at + 30);
    const auto comment_size = file.get<std::uint16_t>(at + 32);
    Member found;
    found.method = file.get<std::uint16_t>(at + 10);
    found.crc = file.get<std::uint32_t>(at + 16);
    found.packed_size = file.get<std::uint32_t>(at + 20);
    found.size = file.get<std::uint32_t>(at + 24);
    found.local_offset = file.get<std::uint32_t>(at + 42);
    std::string name = text_of(file.part(at + kCentralSize, name_size));
    read_zip64(Bytes(file.part(at + kCentralSize + name_size, extra_size)),
               {&found.size, &found.packed_size, &found.local_offset});
    at += kCentralSize + name_size + extra_size + comment_size;

    if (!name.ends_with(".npy")) {
      continue;  // numpy ignores what is no array, too
    }
    name.resize(name.size() - 4);
    if ((flags & 1U) != 0) {
      fail(fmt::format("array '{}' is encrypted", name));
    }
    if (found.method != kStored && found.method != kDeflated) {
      fail(fmt::format("array '{}' is packed by method {}; only stored and deflated ones are read", name,
                       found.method));
    }
    if (found.size > max_member_bytes) {
      fail(fmt::format("array '{}' has {} bytes, more than the {} allowed", name, found.size,
                       max_member_bytes));
    }
    if (contains(name)) {
      fail(fmt::format("the archive holds array '{}' twice", name));
    }
    names_.push_back(std::move(name));
    members_.push_back(found);
  }
}

bool NpzFile::contains(std::string_view name) const {
  return std::find(names_.begin(), names_.end(), name) != names_.end();
}

const NpzFile::Member& NpzFile::member(std::string_view name) const {
  const auto found = std::find(names_.begin(), names_.end(), name);
  if (found == names_.end()) {
    throw Error(ErrorCode::kNotFound, unknown_name("array", name, names_))
        .in(fmt::format("file {}", path_.string()));
  }
  return members_[static_cast<std::size_t>(found - names_.begin())];
}

std::vector<std::byte> NpzFile::unpack(const Member& found, std::size_t at_most) const {
  const Bytes file(file_.bytes());
  if (file.get<std::uint32_t>(found.local_offset) != kLocalSignature) {
    fail("a member's local header is damaged");
  }
  const std::uint64_t start = found.local_offset + kLocalSize +
                              file.get<std::uint16_t>(found.local_offset + 26) +
                              file.get<std::uint16_t>(found.local_offset + 28);
  const std::span<const std::byte> packed = file.part(start, found.packed_size);
  std::vector<std::byte> bytes;
  if (found.method == kStored) {
    if (found.size != found.packed_size) {
      fail("a stored member has two sizes");
    }
    const auto part = packed.first(std::min<std::size_t>(packed.size(), at_most));
    bytes.assign(part.begin(), part.end());
  } else {
    bytes = inflate_raw(packed, found.size, at_most);
  }
  if (at_most >= found.size && (bytes.size() != found.size || crc_of(bytes) != found.crc)) {
    fail("the data do not match their size and checksum");
  }
  return bytes;
}

Tensor NpzFile::read(std::string_view name) const {
  const Member& found = member(name);
  try {
    return decode_npy(unpack(found, std::numeric_limits<std::size_t>::max()));
  } catch (Error& error) {
    error.in(fmt::format("array '{}'", name)).in(fmt::format("file {}", path_.string()));
    throw;
  }
}

NpyHeader NpzFile::header(std::string_view name) const {
  const Member& found = member(name);
  constexpr std::size_t kEnough = std::size_t{64} << 10;
  try {
    return decode_npy_header(unpack(found, kEnough));
  } catch (Error& error) {
    error.in(fmt::format("array '{}'", name)).in(fmt::format("file {}", path_.string()));
    throw;
  }
}

NamedTensors read_npz(const std::filesystem::path& path) {
  const NpzFile file(path);
  NamedTensors arrays;
  for (const std::string& name : file.names()) {
    arrays.emplace_back(name, file.read(name));
  }
  return arrays;
}

namespace {

std::vector<std::byte> deflate_raw(std::span<const std::byte> bytes) {
  z_stream stream = {};
  constexpr int kLevel = 6;
  constexpr int kMemory = 8;
  if (deflateInit2(&stream, kLevel, Z_DEFLATED, -MAX_WBITS, kMemory, Z_DEFAULT_STRATEGY) != Z_OK) {
    throw Error(ErrorCode::kOutOfMemory, "zlib could not start");
  }
  const std::unique_ptr<z_stream, int (*)(z_streamp)> guard(&stream, &deflateEnd);
  std::vector<std::byte> out;
  std::vector<std::byte> buffer(std::size_t{1} << 18);
  int status = Z_OK;
  while (status != Z_STREAM_END) {
    if (stream.avail_in == 0) {
      const std::size_t step = std::min<std::size_t>(bytes.size(), std::size_t{1} << 30);
      stream.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(bytes.data()));
      stream.avail_in = static_cast<uInt>(step);
      bytes = bytes.subspan(step);
    }
    stream.next_out = reinterpret_cast<Bytef*>(buffer.data());
    stream.avail_out = static_cast<uInt>(buffer.size());
    status = deflate(&stream, bytes.empty() ? Z_FINISH : Z_NO_FLUSH);
    TEMPERA_CHECK(status == Z_OK || status == Z_STREAM_END || status == Z_BUF_ERROR,
                  "zlib could not deflate");
    out.insert(out.end(), buffer.begin(), buffer.end() - static_cast<std::ptrdiff_t>(stream.avail_out));
  }
  return out;
}

/// Appends little-endian numbers.
class Record {
 public:
  template <typename T>
  Record& put(T value) {
    const auto raw = std::as_bytes(std::span(&value, 1));
    bytes_.insert(bytes_.end(), raw.begin(), raw.end());
    return *this;
  }
  Record& put_text(std::string_view text) {
    const auto raw = std::as_bytes(std::span(text.data(), text.size()));
    bytes_.insert(bytes_.end(), raw.begin(), raw.end());
    return *this;
  }
  [[nodiscard]] const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

constexpr std::uint16_t kVersion64 = 45;       // "needed to extract": zip64
constexpr std::uint16_t kUtf8Name = 1U << 11;  // general purpose flag
constexpr std::uint16_t kTime = 0;
constexpr std::uint16_t kDate = (0 << 9) | (1 << 5) | 1;  // 1 January 1980, the format's zero

}  // namespace

void write_npz(const std::filesystem::path& path, const NamedTensors& arrays, bool compress) {
  AtomicFile file(path);
  std::uint64_t offset = 0;
  const auto write = [&](std::span<const std::byte> bytes) {
    file.write(bytes);
    offset += bytes.size();
  };
  // Sizes are always written as 64-bit extra fields, so that there is one form to get right.
  Record directory;
  for (const auto& [name, tensor] : arrays) {
    const std::string member = name + ".npy";
    if (member.size() > std::numeric_limits<std::uint16_t>::max()) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("an array name of {} bytes is too long for an archive", name.size()));
    }
    const std::vector<std::byte> bytes = encode_npy(tensor);
    const std::uint32_t crc = crc_of(bytes);
    const std::vector<std::byte> packed = compress ? deflate_raw(bytes) : std::vector<std::byte>();
    const std::span<const std::byte> data = compress ? std::span<const std::byte>(packed) : bytes;
    const std::uint16_t method = compress ? kDeflated : kStored;
    const std::uint64_t start = offset;

    Record local;
    local.put(kLocalSignature).put(kVersion64).put(kUtf8Name).put(method).put(kTime).put(kDate).put(crc);
    local.put(kIn64BitField)
        .put(kIn64BitField)
        .put(static_cast<std::uint16_t>(member.size()))
        .put(std::uint16_t{20});
    local.put_text(member).put(kZip64Extra).put(std::uint16_t{16});
    local.put(static_cast<std::uint64_t>(bytes.size())).put(static_cast<std::uint64_t>(data.size()));
    write(local.bytes());
    write(data);

    directory.put(kCentralSignature)
        .put(kVersion64)
        .put(kVersion64)
        .put(kUtf8Name)
        .put(method)
        .put(kTime)
        .put(kDate)
        .put(crc);
    directory.put(kIn64BitField)
        .put(kIn64BitField)
        .put(static_cast<std::uint16_t>(member.size()))
        .put(std::uint16_t{28});
    directory.put(std::uint16_t{0})
        .put(std::uint16_t{0})
        .put(std::uint16_t{0})
        .put(std::uint32_t{0})
        .put(kIn64BitField);
    directory.put_text(member).put(kZip64Extra).put(std::uint16_t{24});
    directory.put(static_cast<std::uint64_t>(bytes.size()))
        .put(static_cast<std::uint64_t>(data.size()))
        .put(start);
  }
  const std::uint64_t directory_offset = offset;
  const std::uint64_t count = arrays.size();
  const std::uint64_t directory_size = directory.bytes().size();
  write(directory.bytes());

  Record end;
  end.put(kEnd64Signature).put(std::uint64_t{kEnd64Size - 12}).put(kVersion64).put(kVersion64);
  end.put(std::uint32_t{0})
      .put(std::uint32_t{0})
      .put(count)
      .put(count)
      .put(directory_size)
      .put(directory_offset);
  end.put(kEnd64LocatorSignature)
      .put(std::uint32_t{0})
      .put(directory_offset + directory_size)
      .put(std::uint32_t{1});
  const auto small = static_cast<std::uint16_t>(std::min<std::uint64_t>(count, 0xFFFF));
  end.put(kEndSignature).put(std::uint16_t{0}).put(std::uint16_t{0}).put(small).put(small);
  end.put(kIn64BitField).put(kIn64BitField).put(std::uint16_t{0});
  write(end.bytes());
  file.commit();
}

}  // namespace tempera::data
