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

bool same_contraction(const EinsumForm& form, std::string_view equation) {
  const std::optional<EinsumForm> wanted = parse_einsum(equation);
  if (!wanted || wanted->operands.size() != 2 || form.operands.size() != 2) {
    return false;
  }
  const std::string mine = form.operands[0] + "," + form.operands[1] + ">" + form.result;
  const std::string theirs = wanted->operands[0] + "," + wanted->operands[1] + ">" + wanted->result;
  if (mine.size() != theirs.size()) {
    return false;
  }
  std::map<char, char> renamed;
  std::map<char, char> back;
  for (std::size_t i = 0; i < mine.size(); ++i) {
    // The separators stand for themselves, so they must fall together.
    const bool separator = std::isalpha(static_cast<unsigned char>(mine[i])) == 0;
    if (separator ? mine[i] != theirs[i]
                  : renamed.emplace(mine[i], theirs[i]).first->second != theirs[i] ||
                        back.emplace(theirs[i], mine[i]).first->second != mine[i]) {
      return false;
    }
  }
  return true;
}

}  // namespace tempera::ops
