#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tempera::data {

/// Appends a Unicode code point as UTF-8; U+FFFD for what is none (surrogates, beyond U+10FFFF).
void append_utf8(std::string& text, std::uint32_t code_point);

/// Code points of UTF-8 text; U+FFFD for each byte that is not part of valid UTF-8.
[[nodiscard]] std::u32string to_utf32(std::string_view text);

}  // namespace tempera::data
