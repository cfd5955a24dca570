#include "tempera/cli/shapes.h"

#include <charconv>

#include <fmt/format.h>

#include "tempera/base/error.h"

namespace tempera::cli {

std::map<std::string, graph::Dims> parse_shapes(const std::vector<std::string>& texts) {
  std::map<std::string, graph::Dims> shapes;
  for (const std::string& text : texts) {
    const auto fail = [&] {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("shape '{}' is not of the form NAME=1,3,128,128", text));
    };
    const std::size_t equals = text.rfind('=');
    if (equals == std::string::npos || equals == 0) {
      fail();
    }
    graph::Dims dims;
    const char* at = text.data() + equals + 1;
    const char* const end = text.data() + text.size();
    while (at < end) {
      std::int64_t dim = 0;
      const auto [next, error] = std::from_chars(at, end, dim);
      if (error != std::errc() || dim < 0 || (next < end && (*next != ',' || next + 1 == end))) {
        fail();
      }
      dims.push_back(dim);
      at = next + 1;
    }
    shapes[text.substr(0, equals)] = std::move(dims);
  }
  return shapes;
}

}  // namespace tempera::cli
