#include "tempera/numeric/convert.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>

#include <fmt/format.h>

#include "tempera/base/error.h"
#include "tempera/numeric/float_format.h"

namespace tempera::numeric {
namespace {

[[noreturn]] void unsupported(DataType type) {
  throw Error(ErrorCode::kInvalidArgument, fmt::format("type {} does not convert to real numbers", to_string(type)));
}

void require_bytes(DataType type, std::size_t have, std::size_t count) {
  const std::size_t need = bytes_of(type, static_cast<std::int64_t>(count));
  if (have < need) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{} elements of {} take {} bytes, got {}", count, to_string(type), need, have));
  }
}

template <typename Stored, typename T>
void decode_as(std::span<const std::byte> bytes, std::span<T> values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    Stored stored;
    std::memcpy(&stored, bytes.data() + i * sizeof(Stored), sizeof(Stored));
    values[i] = static_cast<T>(stored);
  }
}

template <typename Stored>
void encode_as(std::span<const float> values, std::span<std::byte> bytes) {
  constexpr double kLowest = static_cast<double>(std::numeric_limits<Stored>::lowest());
  constexpr double kHighest = static_cast<double>(std::numeric_limits<Stored>::max());
  for (std::size_t i = 0; i < values.size(); ++i) {
    Stored stored{};
    if constexpr (std::is_floating_point_v<Stored>) {
      stored = static_cast<Stored>(values[i]);
    } else if (const double rounded = std::nearbyint(static_cast<double>(values[i])); rounded <= kLowest) {
      stored = std::numeric_limits<Stored>::lowest();
    } else if (rounded >= kHighest) {  // also keeps 2^63, which double(kHighest) rounds to, from overflowing
      stored = std::numeric_limits<Stored>::max();
    } else if (!std::isnan(rounded)) {
      stored = static_cast<Stored>(rounded);
    }
    std::memcpy(bytes.data() + i * sizeof(Stored), &stored, sizeof(Stored));
  }
}

// Element i of a stream of `bits`-wide codes packed low bits first.
std::uint32_t packed_code(std::span<const std::byte> bytes, std::size_t i, int bits) {
  const std::size_t bit = i * static_cast<std::size_t>(bits);
  std::uint32_t word = std::to_integer<std::uint32_t>(bytes[bit / 8]);
  if (bit % 8 + static_cast<std::size_t>(bits) > 8) {
    word |= std::to_integer<std::uint32_t>(bytes[bit / 8 + 1]) << 8;
  }
  return (word >> (bit % 8)) & ((1U << bits) - 1U);
}

void put_packed_code(std::span<std::byte> bytes, std::size_t i, int bits, std::uint32_t code) {
  const std::size_t bit = i * static_cast<std::size_t>(bits);
  const std::uint32_t mask = ((1U << bits) - 1U) << (bit % 8);
  const std::uint32_t shifted = code << (bit % 8);
  bytes[bit / 8] = (bytes[bit / 8] & std::byte(~mask & 0xFFU)) | std::byte(shifted & 0xFFU);
  if (bit % 8 + static_cast<std::size_t>(bits) > 8) {
    bytes[bit / 8 + 1] = (bytes[bit / 8 + 1] & std::byte(~(mask >> 8) & 0xFFU)) | std::byte((shifted >> 8) & 0xFFU);
  }
}

bool is_signed_narrow(DataType type) { return type == DataType::kInt4 || type == DataType::kInt2; }

template <typename T>
void decode_any(DataType type, std::span<const std::byte> bytes, std::span<T> values) {
  if (bits_of(type) == 0) {
    unsupported(type);
  }
  require_bytes(type, bytes.size(), values.size());
  switch (type) {
    case DataType::kFloat32: return decode_as<float>(bytes, values);
    case DataType::kFloat64: return decode_as<double>(bytes, values);
    case DataType::kInt8: return decode_as<std::int8_t>(bytes, values);
    case DataType::kInt16: return decode_as<std::int16_t>(bytes, values);
    case DataType::kInt32: return decode_as<std::int32_t>(bytes, values);
    case DataType::kInt64: return decode_as<std::int64_t>(bytes, values);
    case DataType::kUint8: return decode_as<std::uint8_t>(bytes, values);
    case DataType::kBool: return decode_as<std::uint8_t>(bytes, values);
    case DataType::kUint16: return decode_as<std::uint16_t>(bytes, values);
    case DataType::kUint32: return decode_as<std::uint32_t>(bytes, values);
    case DataType::kUint64: return decode_as<std::uint64_t>(bytes, values);
    default: break;
  }
  const int bits = bits_of(type);
  if (const FloatFormat* format = float_format(type); format != nullptr) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      std::uint32_t code = 0;
      if (bits >= 8) {
        std::memcpy(&code, bytes.data() + i * static_cast<std::size_t>(bits / 8), static_cast<std::size_t>(bits / 8));
      } else {
        code = packed_code(bytes, i, bits);
      }
      values[i] = static_cast<T>(format->decode(code));
    }
    return;
  }
  if (!is_integer(type)) {
    unsupported(type);
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    auto code = static_cast<std::int32_t>(packed_code(bytes, i, bits));
    if (is_signed_narrow(type) && code >= (1 << (bits - 1))) {
      code -= 1 << bits;
    }
    values[i] = static_cast<T>(code);
  }
}

}  // namespace

void decode(DataType type, std::span<const std::byte> bytes, std::span<double> values) {
  decode_any(type, bytes, values);
}

void decode(DataType type, std::span<const std::byte> bytes, std::span<float> values) {
  decode_any(type, bytes, values);
}

void encode(DataType type, std::span<const float> values, std::span<std::byte> bytes, Overflow overflow) {
  if (bits_of(type) == 0) {
    unsupported(type);
  }
  require_bytes(type, bytes.size(), values.size());
  switch (type) {
    case DataType::kFloat32: return encode_as<float>(values, bytes);
    case DataType::kFloat64: return encode_as<double>(values, bytes);
    case DataType::kInt8: return encode_as<std::int8_t>(values, bytes);
    case DataType::kInt16: return encode_as<std::int16_t>(values, bytes);
    case DataType::kInt32: return encode_as<std::int32_t>(values, bytes);
    case DataType::kInt64: return encode_as<std::int64_t>(values, bytes);
    case DataType::kUint8: return encode_as<std::uint8_t>(values, bytes);
    case DataType::kUint16: return encode_as<std::uint16_t>(values, bytes);
    case DataType::kUint32: return encode_as<std::uint32_t>(values, bytes);
    case DataType::kUint64: return encode_as<std::uint64_t>(values, bytes);
    default: break;
  }
  const int bits = bits_of(type);
  const FloatFormat* format = float_format(type);
  if (format == nullptr && !is_integer(type)) {
    unsupported(type);
  }
  const std::int32_t low = is_signed_narrow(type) ? -(1 << (bits - 1)) : 0;
  const std::int32_t high = is_signed_narrow(type) ? (1 << (bits - 1)) - 1 : (1 << bits) - 1;
  // The unused high bits of a ragged last byte are zero.
  std::fill_n(bytes.begin(), bytes_of(type, static_cast<std::int64_t>(values.size())), std::byte{0});
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::uint32_t code = 0;
    if (format != nullptr) {
      code = format->encode(values[i], overflow);
    } else if (!std::isnan(values[i])) {
      const float rounded = std::nearbyint(values[i]);
      const float clamped = std::clamp(rounded, static_cast<float>(low), static_cast<float>(high));
      code = static_cast<std::uint32_t>(static_cast<std::int32_t>(clamped)) & ((1U << bits) - 1U);
    }
    if (bits >= 8) {
      std::memcpy(bytes.data() + i * static_cast<std::size_t>(bits / 8), &code, static_cast<std::size_t>(bits / 8));
    } else {
      put_packed_code(bytes, i, bits, code);
    }
  }
}

}  // namespace tempera::numeric
