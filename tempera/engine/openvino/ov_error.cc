#include "tempera/engine/openvino/ov_error.h"

#include <new>
#include <sstream>
#include <utility>

#include <fmt/format.h>

namespace tempera::engine::openvino {
namespace {

std::string trim(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) {
    return {};
  }
  return std::string(text.substr(first, text.find_last_not_of(" \t\r\n.:") - first + 1));
}

// "Exception from src/...:12:" and "Check 'x' failed at src/...:12:" end a prefix that says nothing to a user.
std::string_view after_source_location(std::string_view line) {
  const auto source = line.find(" src/");
  if (source == std::string_view::npos) {
    return line;
  }
  auto end = line.find(':', source);
  end = end == std::string_view::npos ? end : line.find(':', end + 1);
  return end == std::string_view::npos ? std::string_view{} : line.substr(end + 1);
}

}  // namespace

std::string plain_message(std::string_view message) {
  std::istringstream lines{std::string(message)};
  std::string line;
  std::string result;
  while (std::getline(lines, line)) {
    const std::string kept = trim(after_source_location(line));
    if (kept.empty() || kept.starts_with("To facilitate the conversion") || kept.starts_with("FrontEnd API failed")) {
      continue;
    }
    result += result.empty() ? "" : "; ";
    result += kept;
  }
  return result.empty() ? "no message" : result;
}

std::string layer_in_message(std::string_view message) {
  // As the plugin, the core's shape inference and the ONNX reader name the node.
  constexpr std::string_view kMarks[] = {"node with name '", "with friendly_name '", "node name: ", "node: "};
  for (const std::string_view mark : kMarks) {
    const auto found = message.find(mark);
    if (found == std::string_view::npos) {
      continue;
    }
    const std::string_view rest = message.substr(found + mark.size());
    const auto end = rest.find_first_of(mark.ends_with('\'') ? "'" : " ,;\n");
    return std::string(rest.substr(0, end));
  }
  return {};
}

void rethrow(ErrorCode code, std::string_view stage, const DescribeLayer& describe) {
  try {
    throw;
  } catch (Error&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw Error(ErrorCode::kOutOfMemory, fmt::format("not enough memory while {} with OpenVINO", stage),
                "smaller inputs, or fewer samples at once");
  } catch (const std::exception& e) {
    Error error(code, fmt::format("OpenVINO failed while {}: {}", stage, plain_message(e.what())));
    const std::string layer = layer_in_message(e.what());
    if (const std::string node = describe && !layer.empty() ? describe(layer) : ""; !node.empty()) {
      error.in(node);
    }
    throw error;
  }
}

}  // namespace tempera::engine::openvino
