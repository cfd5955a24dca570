#include "tempera/optimize/history.h"

#include <algorithm>
#include <sstream>

namespace tempera::optimize {
namespace {

constexpr const char* kKey = "tempera.history";

}  // namespace

std::vector<std::string> history_of(const graph::Model& model) {
  std::vector<std::string> steps;
  for (const auto& [key, value] : model.metadata) {
    if (key == kKey) {
      std::istringstream lines(value);
      for (std::string line; std::getline(lines, line);) {
        steps.push_back(line);
      }
    }
  }
  return steps;
}

void add_to_history(graph::Model& model, const std::string& step) {
  const auto entry = std::find_if(model.metadata.begin(), model.metadata.end(),
                                  [](const auto& pair) { return pair.first == kKey; });
  if (entry == model.metadata.end()) {
    model.metadata.emplace_back(kKey, step);
  } else {
    entry->second += "\n" + step;
  }
}

}  // namespace tempera::optimize
