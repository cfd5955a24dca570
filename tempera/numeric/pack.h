#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tempera::numeric {

/// Packs unsigned codes of 1, 2, 4 or 8 bits into bytes, low bits first: code i of b bits lies in byte i b / 8 from bit
/// i b mod 8 on. The unused high bits of the last byte are zero.
///
/// \throws Error{kInvalidArgument} for another width, or a code that does not fit
[[nodiscard]] std::vector<std::uint8_t> pack_codes(std::span<const std::uint8_t> codes, int bits);

/// The first `count` codes. \throws Error{kInvalidArgument} for another width, or too few bytes
[[nodiscard]] std::vector<std::uint8_t> unpack_codes(std::span<const std::uint8_t> bytes, int bits, std::size_t count);

}  // namespace tempera::numeric
