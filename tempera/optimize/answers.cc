#include "tempera/optimize/answers.h"

#include <fstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tempera/base/error.h"
#include "tempera/base/file.h"

namespace tempera::optimize {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

// One line of the file; nothing when it is torn or not ours.
std::optional<std::pair<std::string, std::vector<double>>> parse_line(const std::string& line) {
  const Json json = Json::parse(line, nullptr, false);
  if (!json.is_object() || !json.contains("question") || !json.contains("numbers") || !json["question"].is_string() ||
      !json["numbers"].is_array()) {
    return std::nullopt;
  }
  std::vector<double> numbers;
  for (const Json& number : json["numbers"]) {
    if (!number.is_number()) {
      return std::nullopt;
    }
    numbers.push_back(number.get<double>());
  }
  return std::pair{json["question"].get<std::string>(), std::move(numbers)};
}

}  // namespace

Answers::Answers(fs::path file, std::string key) : file_(std::move(file)), key_(std::move(key)) {
  std::ifstream in(file_);
  std::string line;
  if (!std::getline(in, line) || line != Json{{"key", key_}}.dump()) {
    return;
  }
  started_ = true;
  bool torn = false;
  while (std::getline(in, line)) {
    if (auto answer = parse_line(line)) {
      answers_.insert_or_assign(std::move(answer->first), std::move(answer->second));
    } else {
      torn = true;
    }
  }
  if (torn) {
    rewrite();
  }
}

// Without the torn line, which the next one would otherwise join.
void Answers::rewrite() {
  std::string text = Json{{"key", key_}}.dump() + "\n";
  for (const auto& [question, numbers] : answers_) {
    text += Json{{"question", question}, {"numbers", numbers}}.dump() + "\n";
  }
  write_text_file(file_, text);
}

std::optional<std::vector<double>> Answers::find(const std::string& question) const {
  const auto found = answers_.find(question);
  return found == answers_.end() ? std::nullopt : std::optional(found->second);
}

void Answers::add(const std::string& question, const std::vector<double>& numbers) {
  answers_.insert_or_assign(question, numbers);
  if (file_.empty()) {
    return;
  }
  if (!started_) {
    std::error_code ignored;
    fs::remove(file_, ignored);
    append(Json{{"key", key_}}.dump());
    started_ = true;
  }
  append(Json{{"question", question}, {"numbers", numbers}}.dump());
}

void Answers::append(const std::string& line) {
  std::ofstream out(file_, std::ios::app);
  out << line << '\n';
  out.close();
  if (!out) {
    throw Error(ErrorCode::kIo, fmt::format("cannot write '{}'", file_.string()),
                "choose an output folder that can be written and has room");
  }
}

void Answers::forget() {
  std::error_code ignored;
  fs::remove(file_, ignored);
  answers_.clear();
  started_ = false;
}

}  // namespace tempera::optimize
