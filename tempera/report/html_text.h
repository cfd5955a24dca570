#pragma once

#include <string>

namespace tempera::report {

/// Text as HTML or SVG shows it literally, in elements and in double-quoted attributes.
[[nodiscard]] std::string escape(const std::string& text);

/// A self-contained page in our style. \param body  HTML
[[nodiscard]] std::string page(const std::string& title, const std::string& command, const std::string& created,
                               const std::string& body);

}  // namespace tempera::report
