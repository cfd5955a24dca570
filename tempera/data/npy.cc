#include "tempera/data/npy.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tempera/base/error.h"
#include "tempera/base/file.h"
#include "tempera/data/utf8.h"
#include "tempera/numeric/convert.h"

namespace tempera::data {
namespace {

using graph::DataType;
using graph::Dims;
using graph::Tensor;

static_assert(std::endian::native == std::endian::little, "arrays are written in the machine's byte order");

constexpr std::string_view kMagic("\x93NUMPY", 6);
constexpr std::size_t kMaxHeaderBytes = std::size_t{1} << 20;
constexpr std::size_t kMaxEmptyStrings = std::size_t{1} << 20;
constexpr std::size_t kMaxRank = 64;  // numpy 2's own limit

[[noreturn]] void fail(const std::string& message) {
  throw Error(ErrorCode::kInvalidArgument, message, "write the file with numpy.save or numpy.savez");
}

/// How the elements lie in the file.
struct Storage {
  DataType type = DataType::kUndefined;
  std::size_t element_bytes = 0;  ///< in the file
  std::size_t swap_bytes =
      1;  ///< width of what is byte-swapped: the element, or half of it for complex numbers
  bool swapped = false;
  char kind = 0;  ///< numpy's kind character
};

struct Header {
  NpyHeader info;
  Storage storage;
};

Storage storage_of(std::string_view descr) {
  char order = '|';
  std::string_view rest = descr;
  if (!rest.empty() && std::string_view("<>|=").find(rest.front()) != std::string_view::npos) {
    order = rest.front();
    rest.remove_prefix(1);
  }
  if (rest.empty()) {
    fail(fmt::format("unknown array type '{}'", descr));
  }
  Storage storage;
  storage.kind = rest.front();
  storage.swapped = order == '>';
  rest.remove_prefix(1);
  std::size_t width = 0;
  const auto [end, status] = std::from_chars(rest.data(), rest.data() + rest.size(), width);
  const bool plain = status == std::errc() && end == rest.data() + rest.size();
  if (storage.kind == 'O') {
    fail("the array holds pickled Python objects, which are not read");
  }
  if (storage.kind == 'M' || storage.kind == 'm') {
    fail(fmt::format("the array's type '{}' (time) is not supported", descr));
  }
  if (storage.kind == 'V') {
    fail(fmt::format("the array's type '{}' (records or a type that numpy does not know) is not supported",
                     descr));
  }
  if (!plain) {
    fail(fmt::format("unknown array type '{}'", descr));
  }
  struct Row {
    char kind;
    std::size_t width;
    DataType type;
  };
  constexpr std::array<Row, 15> kRows = {{{'b', 1, DataType::kBool},
                                          {'i', 1, DataType::kInt8},
                                          {'i', 2, DataType::kInt16},
                                          {'i', 4, DataType::kInt32},
                                          {'i', 8, DataType::kInt64},
                                          {'u', 1, DataType::kUint8},
                                          {'u', 2, DataType::kUint16},
                                          {'u', 4, DataType::kUint32},
                                          {'u', 8, DataType::kUint64},
                                          {'f', 2, DataType::kFloat16},
                                          {'f', 4, DataType::kFloat32},
                                          {'f', 8, DataType::kFloat64},
                                          {'f', 16, DataType::kFloat64},
                                          {'c', 8, DataType::kComplex64},
                                          {'c', 16, DataType::kComplex128}}};
  for (const Row& row : kRows) {
    if (row.kind == storage.kind && row.width == width) {
      storage.type = row.type;
      storage.element_bytes = width;
      storage.swap_bytes = row.kind == 'c' ? width / 2 : width;
      return storage;
    }
  }
  if (storage.kind == 'S' || storage.kind == 'U') {
    storage.type = DataType::kString;
    storage.swap_bytes = storage.kind == 'U' ? 4 : 1;
    if (__builtin_mul_overflow(width, storage.swap_bytes, &storage.element_bytes)) {
      fail(fmt::format("array type '{}' is too wide", descr));
    }
    return storage;
  }
  fail(fmt::format("unknown array type '{}'", descr));
}

/// Reads the Python dictionary of the header: string keys; strings, True, False and tuples of integers as
/// values.
class DictReader {
 public:
  explicit DictReader(std::string_view text) : text_(text) {}

  void read(std::string& descr, bool& fortran_order, Dims& dims) {
    bool has_descr = false;
    bool has_order = false;
    bool has_shape = false;
    expect('{');
    while (!accept('}')) {
      const std::string key = string();
      expect(':');
      if (key == "descr" && !has_descr) {
        if (peek() == '[') {
          fail("the array holds records, which are not supported");
        }
        descr = string();
        has_descr = true;
      } else if (key == "fortran_order" && !has_order) {
        fortran_order = boolean();
        has_order = true;
      } else if (key == "shape" && !has_shape) {
        dims = tuple();
        has_shape = true;
      } else {
        fail(fmt::format("the array's header has an unexpected key '{}'", key));
      }
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    if (peek() != '\0') {
      fail("the array's header goes on after its dictionary");
    }
    if (!has_descr || !has_order || !has_shape) {
      fail("the array's header lacks one of 'descr', 'fortran_order', 'shape'");
    }
  }

 private:
  /// The next character that is no space, or '\0' at the end.
  char peek() {
    while (at_ < text_.size() && std::string_view(" \t\n\r").find(text_[at_]) != std::string_view::npos) {
      ++at_;
    }
    return at_ < text_.size() ? text_[at_] : '\0';
  }

  bool accept(char c) {
    if (peek() != c) {
      return false;
    }
    ++at_;
    return true;
  }

  void expect(char c) {
    if (!accept(c)) {
      fail(fmt::format("the array's header is malformed: expected '{}' at character {}", c, at_));
    }
  }

  std::string string() {
    const char quote = peek();
    if (quote != '\'' && quote != '"') {
      fail(fmt::format("the array's header is malformed: expected a string at character {}", at_));
    }
    const std::size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) {
      fail("the array's header is malformed: a string has no end");
    }
    std::string value(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return value;
  }

  bool boolean() {
    peek();
    for (const bool value : {true, false}) {
      const std::string_view word = value ? "True" : "False";
      if (text_.substr(at_, word.size()) == word) {
        at_ += word.size();
        return value;
      }
    }
    fail("the array's header is malformed: 'fortran_order' is neither True nor False");
  }

  Dims tuple() {
    Dims dims;
    expect('(');
    while (!accept(')')) {
      peek();
      std::int64_t value = 0;
      const auto [end, status] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
      if (status != std::errc() || value < 0 || dims.size() == kMaxRank) {
        fail("the array's header is malformed: 'shape' is not a list of at most 64 sizes");
      }
      dims.push_back(value);
      at_ = static_cast<std::size_t>(end - text_.data());
      accept('L');  // as written by Python 2
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    return dims;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

std::uint32_t little_endian(std::span<const std::byte> bytes) {
  std::uint32_t value = 0;
  for (std::size_t i = bytes.size(); i > 0; --i) {
    value = value << 8 | static_cast<std::uint32_t>(bytes[i - 1]);
  }
  return value;
}

Header parse_header(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!text.starts_with(kMagic) || text.size() < kMagic.size() + 2) {
    fail("not a NumPy array: the file does not start with \\x93NUMPY");
  }
  const auto major = static_cast<unsigned>(bytes[6]);
  if (major < 1 || major > 3) {
    fail(fmt::format("unknown version {} of NumPy's format", major));
  }
  const std::size_t length_bytes = major == 1 ? 2 : 4;
  if (bytes.size() < 8 + length_bytes) {
    fail("the array's header is cut short");
  }
  const std::size_t length = little_endian(bytes.subspan(8, length_bytes));
  const std::size_t start = 8 + length_bytes;
  if (length > kMaxHeaderBytes || length > bytes.size() - start) {
    fail(fmt::format("the array's header of {} bytes is cut short or too long", length));
  }
  Header header;
  DictReader(text.substr(start, length)).read(header.info.descr, header.info.fortran_order, header.info.dims);
  header.storage = storage_of(header.info.descr);
  header.info.type = header.storage.type;
  header.info.data_offset = start + length;
  return header;
}

/// Elements in the array, checked against the bytes that are there.
std::size_t checked_count(const Header& header, std::size_t available) {
  const Dims& dims = header.info.dims;
  if (std::find(dims.begin(), dims.end(), 0) != dims.end()) {
    return 0;
  }
  std::size_t count = 1;
  bool overflow = false;
  for (const std::int64_t dim : dims) {
    overflow = overflow || __builtin_mul_overflow(count, static_cast<std::size_t>(dim), &count);
  }
  std::size_t size = 0;
  overflow = overflow || __builtin_mul_overflow(count, header.storage.element_bytes, &size);
  // Strings of width 0 take no bytes; their number must be bounded all the same.
  const bool too_many = header.storage.element_bytes == 0 && count > kMaxEmptyStrings;
  if (overflow || too_many || size > available) {
    fail(fmt::format("an array {}{} does not fit in the {} bytes of data that are there", header.info.descr,
                     graph::to_string(dims), available));
  }
  return count;
}

/// Row-major position -> position in the file, for a Fortran-ordered array.
class FortranOrder {
 public:
  explicit FortranOrder(const Dims& dims) : dims_(dims), index_(dims.size()), strides_(dims.size()) {
    std::size_t stride = 1;
    for (std::size_t axis = 0; axis < dims.size(); ++axis) {
      strides_[axis] = stride;
      stride *= static_cast<std::size_t>(dims[axis]);
    }
  }

  /// The file position of the present element; then steps to the next one in row-major order.
  std::size_t next() {
    const std::size_t here = position_;
    for (std::size_t axis = dims_.size(); axis > 0; --axis) {
      const std::size_t a = axis - 1;
      position_ += strides_[a];
      if (++index_[a] < dims_[a]) {
        break;
      }
      position_ -= strides_[a] * static_cast<std::size_t>(dims_[a]);
      index_[a] = 0;
    }
    return here;
  }

 private:
  const Dims& dims_;
  std::vector<std::int64_t> index_;
  std::vector<std::size_t> strides_;
  std::size_t position_ = 0;
};

/// Element after element of the file, in row-major order and the machine's byte order.
template <typename Visit>
void for_each_element(const Header& header, std::span<const std::byte> data, std::size_t count, Visit visit) {
  const Storage& storage = header.storage;
  FortranOrder fortran(header.info.dims);
  std::vector<std::byte> element(storage.element_bytes);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t at = header.info.fortran_order ? fortran.next() : i;
    const auto source = data.subspan(at * storage.element_bytes, storage.element_bytes);
    std::copy(source.begin(), source.end(), element.begin());
    if (storage.swapped) {
      for (std::size_t k = 0; k + storage.swap_bytes <= element.size(); k += storage.swap_bytes) {
        std::reverse(element.begin() + static_cast<std::ptrdiff_t>(k),
                     element.begin() + static_cast<std::ptrdiff_t>(k + storage.swap_bytes));
      }
    }
    visit(i, std::span<const std::byte>(element));
  }
}

std::string string_from(std::span<const std::byte> element, char kind) {
  std::string text;
  if (kind == 'S') {
    text.assign(reinterpret_cast<const char*>(element.data()), element.size());
  } else {
    for (std::size_t i = 0; i + 4 <= element.size(); i += 4) {
      append_utf8(text, little_endian(element.subspan(i, 4)));
    }
  }
  while (!text.empty() && text.back() == '\0') {  // numpy pads with zeros and drops them again
    text.pop_back();
  }
  return text;
}

/// The x86 80-bit number (64-bit mantissa with its leading one written out) that numpy pads to 16 bytes.
double from_long_double(std::span<const std::byte> element) {
  std::uint64_t mantissa = 0;
  std::uint16_t sign_exponent = 0;
  std::memcpy(&mantissa, element.data(), sizeof mantissa);
  std::memcpy(&sign_exponent, element.data() + 8, sizeof sign_exponent);
  const double sign = (sign_exponent & 0x8000U) != 0 ? -1.0 : 1.0;
  const int exponent = sign_exponent & 0x7FFF;
  if (exponent == 0x7FFF) {
    return mantissa << 1 == 0 ? sign * HUGE_VAL : std::nan("");
  }
  // ldexp of a 64-bit mantissa rounds once here and once more only for subnormal results.
  return sign * std::ldexp(static_cast<double>(mantissa), std::max(exponent, 1) - 16383 - 63);
}

}  // namespace

NpyHeader decode_npy_header(std::span<const std::byte> bytes) { return parse_header(bytes).info; }

Tensor decode_npy(std::span<const std::byte> bytes) {
  const Header header = parse_header(bytes);
  const Storage& storage = header.storage;
  const std::span<const std::byte> data = bytes.subspan(header.info.data_offset);
  const std::size_t count = checked_count(header, data.size());

  if (storage.type == DataType::kString) {
    std::vector<std::string> values(count);
    for_each_element(header, data, count, [&](std::size_t i, std::span<const std::byte> element) {
      values[i] = string_from(element, storage.kind);
    });
    return Tensor::strings(header.info.dims, std::move(values));
  }
  Tensor::Writable out = Tensor::allocate(storage.type, header.info.dims);
  if (storage.kind == 'f' && storage.element_bytes == 16) {
    const std::span<double> values = out.values<double>();
    for_each_element(header, data, count, [&](std::size_t i, std::span<const std::byte> element) {
      values[i] = from_long_double(element);
    });
  } else if (!storage.swapped && (!header.info.fortran_order || header.info.dims.size() < 2)) {
    std::copy_n(data.begin(), out.bytes.size(), out.bytes.begin());
  } else {
    for_each_element(header, data, count, [&](std::size_t i, std::span<const std::byte> element) {
      std::copy(element.begin(), element.end(),
                out.bytes.begin() + static_cast<std::ptrdiff_t>(i * storage.element_bytes));
    });
  }
  if (storage.type == DataType::kBool) {  // any byte but 0 is true to numpy; ours are 0 and 1
    for (std::byte& value : out.bytes) {
      value = value == std::byte{0} ? std::byte{0} : std::byte{1};
    }
  }
  return std::move(out.tensor);
}

Tensor read_npy(const std::filesystem::path& path) {
  const MappedFile file = map_file(path);
  try {
    return decode_npy(file.bytes());
  } catch (Error& error) {
    error.in(fmt::format("file {}", path.string()));
    throw;
  }
}

namespace {

/// numpy's name for a type it has.
std::optional<std::string_view> descr_of(DataType type) {
  switch (type) {
    case DataType::kBool: return "|b1";
    case DataType::kInt8: return "|i1";
    case DataType::kUint8: return "|u1";
    case DataType::kInt16: return "<i2";
    case DataType::kUint16: return "<u2";
    case DataType::kInt32: return "<i4";
    case DataType::kUint32: return "<u4";
    case DataType::kInt64: return "<i8";
    case DataType::kUint64: return "<u8";
    case DataType::kFloat16: return "<f2";
    case DataType::kFloat32: return "<f4";
    case DataType::kFloat64: return "<f8";
    case DataType::kComplex64: return "<c8";
    case DataType::kComplex128: return "<c16";
    default: return std::nullopt;
  }
}

/// The narrowest numpy type that holds every value of a type that numpy lacks.
DataType widened(DataType type) {
  switch (type) {
    case DataType::kInt4:
    case DataType::kInt2: return DataType::kInt8;
    case DataType::kUint4:
    case DataType::kUint2: return DataType::kUint8;
    default: return DataType::kFloat32;
  }
}

std::vector<std::byte> with_header(std::string_view descr, const Dims& dims, std::size_t data_bytes) {
  const std::string shape =
      dims.size() == 1 ? fmt::format("({},)", dims[0]) : fmt::format("({})", fmt::join(dims, ", "));
  std::string dict = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}", descr, shape);
  constexpr std::size_t kPrefix = 10;  // magic, version, length
  constexpr std::size_t kAlignment = 64;
  const std::size_t unpadded = kPrefix + dict.size() + 1;
  dict.append((kAlignment - unpadded % kAlignment) % kAlignment, ' ');
  dict += '\n';
  std::vector<std::byte> bytes;
  bytes.reserve(kPrefix + dict.size() + data_bytes);
  const auto append = [&](std::string_view text) {
    const auto raw = std::as_bytes(std::span(text.data(), text.size()));
    bytes.insert(bytes.end(), raw.begin(), raw.end());
  };
  append(kMagic);
  bytes.push_back(std::byte{1});
  bytes.push_back(std::byte{0});
  bytes.push_back(static_cast<std::byte>(dict.size() & 0xFF));
  bytes.push_back(static_cast<std::byte>(dict.size() >> 8));
  append(dict);
  return bytes;
}

std::vector<std::byte> encode_strings(const Tensor& tensor) {
  std::vector<std::u32string> decoded;
  std::size_t width = 1;
  for (const std::string& text : tensor.string_values()) {
    decoded.push_back(to_utf32(text));
    width = std::max(width, decoded.back().size());
  }
  std::vector<std::byte> bytes =
      with_header(fmt::format("<U{}", width), tensor.dims(), decoded.size() * width * 4);
  for (std::u32string& text : decoded) {
    text.resize(width, U'\0');
    const auto raw = std::as_bytes(std::span(text));
    bytes.insert(bytes.end(), raw.begin(), raw.end());
  }
  return bytes;
}

}  // namespace

std::vector<std::byte> encode_npy(const Tensor& tensor) {
  if (tensor.type() == DataType::kString) {
    return encode_strings(tensor);
  }
  if (!tensor.defined()) {
    throw Error(ErrorCode::kInvalidArgument, "an undefined tensor cannot be written as an array");
  }
  if (const auto descr = descr_of(tensor.type())) {
    std::vector<std::byte> bytes = with_header(*descr, tensor.dims(), tensor.bytes().size());
    bytes.insert(bytes.end(), tensor.bytes().begin(), tensor.bytes().end());
    return bytes;
  }
  const DataType type = widened(tensor.type());
  std::vector<float> values(static_cast<std::size_t>(tensor.size()));
  numeric::decode(tensor.type(), tensor.bytes(), values);
  Tensor::Writable wide = Tensor::allocate(type, tensor.dims());
  numeric::encode(type, values, wide.bytes);
  return encode_npy(wide.tensor);
}

void write_npy(const std::filesystem::path& path, const Tensor& tensor) {
  write_file(path, encode_npy(tensor));
}

}  // namespace tempera::data
