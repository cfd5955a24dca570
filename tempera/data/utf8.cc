#include "tempera/data/utf8.h"

#include <array>

namespace tempera::data {
namespace {

constexpr char32_t kReplacement = 0xFFFD;

bool is_scalar(std::uint32_t code_point) {
  return code_point <= 0x10FFFF && (code_point < 0xD800 || code_point > 0xDFFF);
}

}  // namespace

void append_utf8(std::string& text, std::uint32_t code_point) {
  const std::uint32_t c = is_scalar(code_point) ? code_point : kReplacement;
  const auto put = [&](std::uint32_t byte) { text += static_cast<char>(byte); };
  const auto tail = [&](int shift) { put(0x80U | (c >> shift & 0x3FU)); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0U | c >> 6);
    tail(0);
  } else if (c < 0x10000) {
    put(0xE0U | c >> 12);
    tail(6);
    tail(0);
  } else {
    put(0xF0U | c >> 18);
    tail(12);
    tail(6);
    tail(0);
  }
}

std::u32string to_utf32(std::string_view text) {
  // Lengths, bits of the first byte, and the smallest code point that needs so many bytes (Unicode 15, table
  // 3-7).
  struct Form {
    unsigned mask;
    unsigned lead;
    std::size_t length;
    std::uint32_t smallest;
  };
  constexpr std::array<Form, 4> kForms = {
      {{0x80, 0x00, 1, 0}, {0xE0, 0xC0, 2, 0x80}, {0xF0, 0xE0, 3, 0x800}, {0xF8, 0xF0, 4, 0x10000}}};
  std::u32string out;
  for (std::size_t at = 0; at < text.size();) {
    const auto first = static_cast<unsigned char>(text[at]);
    std::size_t used = 1;
    char32_t code_point = kReplacement;
    for (const Form& form : kForms) {
      if ((first & form.mask) != form.lead || text.size() - at < form.length) {
        continue;
      }
      std::uint32_t value = first & ~form.mask & 0xFFU;
      bool valid = true;
      for (std::size_t i = 1; i < form.length; ++i) {
        const auto next = static_cast<unsigned char>(text[at + i]);
        valid = valid && (next & 0xC0U) == 0x80;
        value = value << 6 | (next & 0x3FU);
      }
      if (valid && value >= form.smallest && is_scalar(value)) {
        code_point = value;
        used = form.length;
      }
      break;
    }
    out += code_point;
    at += used;
  }
  return out;
}

}  // namespace tempera::data
