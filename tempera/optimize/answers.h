#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tempera::optimize {

/// Measurements that cost time, kept on disk as soon as they are made, so that an interrupted search goes on where it
/// stopped. A file of another subject, other settings or another version is dropped; a torn last line is ignored.
class Answers {
 public:
  /// Remembers nothing.
  Answers() = default;

  /// \param file  created with the first answer
  /// \param key   of everything the answers depend on; a file with another key starts anew
  Answers(std::filesystem::path file, std::string key);

  [[nodiscard]] std::optional<std::vector<double>> find(const std::string& question) const;

  /// \throws Error{kIo}
  void add(const std::string& question, const std::vector<double>& numbers);

  [[nodiscard]] std::size_t size() const { return answers_.size(); }

  /// The file is no longer wanted.
  void forget();

 private:
  void append(const std::string& line);
  void rewrite();

  std::filesystem::path file_;
  std::string key_;
  std::map<std::string, std::vector<double>> answers_;
  bool started_ = false;  // the file holds our key
};

}  // namespace tempera::optimize
