#include "tempera/numeric/data_type.h"

#include <array>
#include <limits>

#include <fmt/format.h>

#include "tempera/base/error.h"

namespace tempera::numeric {
namespace {

struct Row {
  std::string_view name;
  int bits;
  char kind;  // f float, i integer, c complex, o other
};

// In the order of the enumeration, so that the enumerator is the index.
constexpr std::array<Row, 29> kTable = {{
    {"undefined", 0, 'o'},      {"float", 32, 'f'},          {"uint8", 8, 'i'},         {"int8", 8, 'i'},
    {"uint16", 16, 'i'},        {"int16", 16, 'i'},          {"int32", 32, 'i'},        {"int64", 64, 'i'},
    {"string", 0, 'o'},         {"bool", 8, 'o'},            {"float16", 16, 'f'},      {"double", 64, 'f'},
    {"uint32", 32, 'i'},        {"uint64", 64, 'i'},         {"complex64", 64, 'c'},    {"complex128", 128, 'c'},
    {"bfloat16", 16, 'f'},      {"float8e4m3fn", 8, 'f'},    {"float8e4m3fnuz", 8, 'f'}, {"float8e5m2", 8, 'f'},
    {"float8e5m2fnuz", 8, 'f'}, {"uint4", 4, 'i'},           {"int4", 4, 'i'},          {"float4e2m1", 4, 'f'},
    {"float8e8m0", 8, 'f'},     {"uint2", 2, 'i'},           {"int2", 2, 'i'},          {"float6e2m3", 6, 'f'},
    {"float6e3m2", 6, 'f'},
}};

const Row& row(DataType type) { return kTable.at(static_cast<std::size_t>(type)); }

}  // namespace

int bits_of(DataType type) { return row(type).bits; }

std::size_t bytes_of(DataType type, std::int64_t count) {
  const int bits = bits_of(type);
  if (bits == 0) {
    throw Error(ErrorCode::kInvalidArgument, fmt::format("type {} has no fixed element size", to_string(type)));
  }
  if (count < 0 || count > (std::numeric_limits<std::int64_t>::max() - 7) / bits) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{} elements of type {} overflow the size of memory", count, to_string(type)));
  }
  return static_cast<std::size_t>((count * bits + 7) / 8);
}

std::string_view to_string(DataType type) { return row(type).name; }

std::optional<DataType> data_type_from_string(std::string_view name) {
  for (std::size_t i = 0; i < kTable.size(); ++i) {
    if (kTable[i].name == name) {
      return static_cast<DataType>(i);
    }
  }
  return std::nullopt;
}

bool is_float(DataType type) { return row(type).kind == 'f'; }
bool is_integer(DataType type) { return row(type).kind == 'i'; }
bool is_known(int onnx_number) { return onnx_number > 0 && onnx_number < static_cast<int>(kTable.size()); }

}  // namespace tempera::numeric
