#pragma once

#include <string>

namespace tempera::report {

/// Text as HTML or SVG shows it literally, in elements and in double-quoted attributes.
[[nodiscard]] std::string escape(const std::string& text);

}  // namespace tempera::report
