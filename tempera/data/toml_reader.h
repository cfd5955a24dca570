#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <toml++/toml.h>

namespace tempera::data {

/// Problems found in one TOML file, reported together. Private to the recipe's reader.
class TomlProblems {
 public:
  void add(const toml::source_region& where, const std::string& message);
  /// \throws Error{kInvalidArgument} listing all of them in the order of their lines
  void throw_if_any(std::string_view file);

 private:
  struct Problem {
    std::uint32_t line = 0;
    std::uint32_t column = 0;
    std::string message;
  };
  std::vector<Problem> problems_;
};

/// Typed, strict access to one TOML table: every key asked for is a known key, all others are problems.
/// A value of the wrong kind is a problem too and reads as absent.
class TomlTable {
 public:
  /// \param name  of the table for messages, "[input.image]"
  TomlTable(const toml::table& table, std::string name, TomlProblems& problems)
      : table_(table), name_(std::move(name)), problems_(problems) {}

  std::optional<std::string> text(std::string_view key);
  /// One of `choices`; anything else is a problem with the nearest ones.
  std::optional<std::string> choice(std::string_view key, const std::vector<std::string>& choices,
                                    std::string_view kind);
  std::optional<bool> boolean(std::string_view key);
  std::optional<std::int64_t> integer(std::string_view key, std::int64_t min, std::int64_t max);
  std::optional<double> number(std::string_view key);
  /// A finite number or a list of at most `max_count` of them.
  std::optional<std::vector<double>> numbers(std::string_view key, std::size_t max_count);
  std::optional<std::vector<std::int64_t>> integers(std::string_view key, std::int64_t min, std::int64_t max,
                                                    std::size_t max_count);
  /// A list of 1 to `max_count` texts, none with a NUL in it.
  std::optional<std::vector<std::string>> texts(std::string_view key, std::size_t max_count);
  const toml::table* table(std::string_view key);

  /// Reports every key that was not asked for.
  void finish();

  void problem(std::string_view key, const std::string& message);
  [[nodiscard]] bool has(std::string_view key) const { return table_.contains(key); }
  [[nodiscard]] const toml::table& raw() const { return table_; }
  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  const toml::node* find(std::string_view key);
  void wrong_kind(const toml::node& node, std::string_view key, std::string_view expected);

  const toml::table& table_;
  std::string name_;
  TomlProblems& problems_;
  std::vector<std::string> known_;
};

}  // namespace tempera::data
