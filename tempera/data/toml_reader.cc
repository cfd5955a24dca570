#include "tempera/data/toml_reader.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tempera/base/error.h"

namespace tempera::data {

void TomlProblems::add(const toml::source_region& where, const std::string& message) {
  problems_.push_back({where.begin.line, where.begin.column, message});
}

void TomlProblems::throw_if_any(std::string_view file) {
  if (problems_.empty()) {
    return;
  }
  std::stable_sort(problems_.begin(), problems_.end(), [](const Problem& a, const Problem& b) {
    return std::tie(a.line, a.column) < std::tie(b.line, b.column);
  });
  std::string text = fmt::format(
      "{} has {}", file, problems_.size() == 1 ? "a problem" : fmt::format("{} problems", problems_.size()));
  for (const Problem& problem : problems_) {
    text += fmt::format("\n  line {}, column {}: {}", problem.line, problem.column, problem.message);
  }
  throw Error(ErrorCode::kInvalidArgument, text);
}

const toml::node* TomlTable::find(std::string_view key) {
  known_.emplace_back(key);
  return table_.get(key);
}

void TomlTable::problem(std::string_view key, const std::string& message) {
  const toml::node* node = table_.get(key);
  problems_.add(node != nullptr ? node->source() : table_.source(), message);
}

void TomlTable::wrong_kind(const toml::node& node, std::string_view key, std::string_view expected) {
  problems_.add(node.source(), fmt::format("'{}' must be {}", key, expected));
}

std::optional<std::string> TomlTable::text(std::string_view key) {
  const toml::node* node = find(key);
  if (node == nullptr) {
    return std::nullopt;
  }
  if (const auto* value = node->as_string()) {
    return value->get();
  }
  wrong_kind(*node, key, "a text in quotes");
  return std::nullopt;
}

std::optional<std::string> TomlTable::choice(std::string_view key, const std::vector<std::string>& choices,
                                             std::string_view kind) {
  const std::optional<std::string> value = text(key);
  if (value && std::find(choices.begin(), choices.end(), *value) == choices.end()) {
    problem(key, unknown_name(kind, *value, choices));
    return std::nullopt;
  }
  return value;
}

std::optional<bool> TomlTable::boolean(std::string_view key) {
  const toml::node* node = find(key);
  if (node == nullptr) {
    return std::nullopt;
  }
  if (const auto* value = node->as_boolean()) {
    return value->get();
  }
  wrong_kind(*node, key, "true or false");
  return std::nullopt;
}

std::optional<std::int64_t> TomlTable::integer(std::string_view key, std::int64_t min, std::int64_t max) {
  const toml::node* node = find(key);
  if (node == nullptr) {
    return std::nullopt;
  }
  const auto* value = node->as_integer();
  if (value == nullptr || value->get() < min || value->get() > max) {
    wrong_kind(*node, key, fmt::format("a whole number from {} to {}", min, max));
    return std::nullopt;
  }
  return value->get();
}

namespace {

/// The node as a finite number, whole or not.
std::optional<double> finite(const toml::node& node) {
  const std::optional<double> value = node.is_number() ? node.value<double>() : std::nullopt;
  return value && std::isfinite(*value) ? value : std::nullopt;
}

}  // namespace

std::optional<double> TomlTable::number(std::string_view key) {
  const toml::node* node = find(key);
  if (node == nullptr) {
    return std::nullopt;
  }
  const std::optional<double> value = finite(*node);
  if (!value) {
    wrong_kind(*node, key, "a finite number");
  }
  return value;
}

std::optional<std::vector<double>> TomlTable::numbers(std::string_view key, std::size_t max_count) {
  const toml::node* node = find(key);
  if (node == nullptr) {
    return std::nullopt;
  }
  if (const std::optional<double> one = finite(*node)) {
    return std::vector<double>{*one};
  }
  const toml::array* list = node->as_array();
  std::vector<double> values;
  if (list != nullptr && !list->empty() && list->size() <= max_count) {
    for (const toml::node& element : *list) {
      if (const std::optional<double> value = finite(element)) {
        values.push_back(*value);
      }
    }
  }
  if (list == nullptr || values.empty() || values.size() != list->size()) {
    wrong_kind(*node, key, fmt::format("a finite number or a list of 1 to {} of them", max_count));
    return std::nullopt;
  }
  return values;
}

std::optional<std::vector<std::int64_t>> TomlTable::integers(std::string_view key, std::int64_t min,
                                                             std::int64_t max, std::size_t max_count) {
  const toml::node* node = find(key);
  if (node == nullptr) {
    return std::nullopt;
  }
  const toml::array* list = node->as_array();
  std::vector<std::int64_t> values;
  if (list != nullptr && list->size() <= max_count) {
    for (const toml::node& element : *list) {
      const auto* value = element.as_integer();
      if (value != nullptr && value->get() >= min && value->get() <= max) {
        values.push_back(value->get());
      }
    }
  }
  if (list == nullptr || values.size() != list->size()) {
    wrong_kind(*node, key,
               fmt::format("a list of at most {} whole numbers from {} to {}", max_count, min, max));
    return std::nullopt;
  }
  return values;
}

std::optional<std::vector<std::string>> TomlTable::texts(std::string_view key, std::size_t max_count) {
  const toml::node* node = find(key);
  if (node == nullptr) {
    return std::nullopt;
  }
  const toml::array* list = node->as_array();
  std::vector<std::string> values;
  if (list != nullptr && list->size() <= max_count) {
    for (const toml::node& element : *list) {
      const auto* value = element.as_string();
      if (value != nullptr && value->get().find('\0') == std::string::npos) {
        values.push_back(value->get());
      }
    }
  }
  if (list == nullptr || values.empty() || values.size() != list->size()) {
    wrong_kind(*node, key, fmt::format("a list of 1 to {} texts in quotes", max_count));
    return std::nullopt;
  }
  return values;
}

const toml::table* TomlTable::table(std::string_view key) {
  const toml::node* node = find(key);
  if (node == nullptr) {
    return nullptr;
  }
  if (const toml::table* value = node->as_table()) {
    return value;
  }
  wrong_kind(*node, key, "a table");
  return nullptr;
}

void TomlTable::finish() {
  for (const auto& [key, node] : table_) {
    if (std::find(known_.begin(), known_.end(), key.str()) == known_.end()) {
      problems_.add(key.source(), fmt::format("in {}: {}", name_, unknown_name("key", key.str(), known_)));
    }
  }
}

}  // namespace tempera::data
