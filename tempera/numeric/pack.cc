#include "tempera/numeric/pack.h"

#include <fmt/format.h>

#include "tempera/base/error.h"

namespace tempera::numeric {
namespace {

std::size_t codes_in_a_byte(int bits) {
  if (bits != 1 && bits != 2 && bits != 4 && bits != 8) {
    throw Error(ErrorCode::kInvalidArgument, fmt::format("codes of {} bits do not pack; expected 1, 2, 4 or 8", bits));
  }
  return static_cast<std::size_t>(8 / bits);
}

}  // namespace

std::vector<std::uint8_t> pack_codes(std::span<const std::uint8_t> codes, int bits) {
  const std::size_t in_a_byte = codes_in_a_byte(bits);
  std::vector<std::uint8_t> bytes((codes.size() + in_a_byte - 1) / in_a_byte);
  for (std::size_t i = 0; i < codes.size(); ++i) {
    if (codes[i] >> bits != 0) {
      throw Error(ErrorCode::kInvalidArgument, fmt::format("code {} does not fit {} bits", codes[i], bits));
    }
    const std::size_t shift = i % in_a_byte * static_cast<std::size_t>(bits);
    bytes[i / in_a_byte] = static_cast<std::uint8_t>(bytes[i / in_a_byte] | codes[i] << shift);
  }
  return bytes;
}

std::vector<std::uint8_t> unpack_codes(std::span<const std::uint8_t> bytes, int bits, std::size_t count) {
  const std::size_t in_a_byte = codes_in_a_byte(bits);
  if (bytes.size() * in_a_byte < count) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{} bytes hold fewer than {} codes of {} bits", bytes.size(), count, bits));
  }
  std::vector<std::uint8_t> codes(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t shift = i % in_a_byte * static_cast<std::size_t>(bits);
    codes[i] = static_cast<std::uint8_t>(bytes[i / in_a_byte] >> shift & ((1 << bits) - 1));
  }
  return codes;
}

}  // namespace tempera::numeric
