#include "tempera/ops/einsum.h"

#include <algorithm>
#include <cctype>
#include <map>

namespace tempera::ops {

std::optional<EinsumForm> parse_einsum(std::string_view equation) {
  std::string text;
  std::copy_if(equation.begin(), equation.end(), std::back_inserter(text), [](char c) { return c != ' '; });
  EinsumForm form;
  const std::size_t arrow = text.find("->");
  const std::string left = text.substr(0, arrow);
  std::map<char, int> seen;
  std::string operand;
  for (const char c : left + ",") {
    if (c == ',') {
      form.operands.push_back(operand);
      operand.clear();
    } else if (std::isalpha(static_cast<unsigned char>(c)) != 0) {
      operand.push_back(c);
      ++seen[c];
    } else {
      return std::nullopt;
    }
  }
  if (arrow == std::string::npos) {
    for (const auto& [label, count] : seen) {
      if (count == 1) {
        form.result.push_back(label);
      }
    }
    return form;
  }
  form.result = text.substr(arrow + 2);
  for (std::size_t i = 0; i < form.result.size(); ++i) {
    const char label = form.result[i];
    if (seen.count(label) == 0 || form.result.find(label, i + 1) != std::string::npos) {
      return std::nullopt;
    }
  }
  return form;
}

}  // namespace tempera::ops
