#include "tempera/cli/output_names.h"

#include <algorithm>
#include <iterator>
#include <system_error>
#include <utility>

#include <fmt/format.h>

namespace tempera::cli {
namespace {

namespace fs = std::filesystem;

// A file's name may have 255 bytes; sample, number and extension need room too.
constexpr std::size_t kMaxLength = 100;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_plain(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' || c == '_' || c == '-';
}

bool continues_character(char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U; }  // of UTF-8

}  // namespace

std::string plain_name(std::string_view name) {
  name.remove_prefix(std::min(name.find_first_not_of('.'), name.size()));
  std::string plain;
  for (const char c : name) {
    if (!continues_character(c)) {
      plain += is_plain(c) ? c : '_';
    }
  }
  plain.resize(std::min(plain.size(), kMaxLength));
  return plain.empty() ? "output" : plain;
}

std::string sample_stem(std::string_view sample) {
  std::string number;
  for (const std::string_view part : {", sample ", ", crop "}) {
    const std::size_t at = sample.rfind(part);
    if (at == std::string_view::npos || at + part.size() == sample.size()) {
      continue;
    }
    const std::string_view rest = sample.substr(at + part.size());
    if (std::all_of(rest.begin(), rest.end(), is_digit)) {
      number = fmt::format("_{}", rest);
      sample = sample.substr(0, at);
      break;
    }
  }
  std::string stem = fs::path(sample).stem().string();
  std::replace_if(
      stem.begin(), stem.end(), [](char c) { return c == '/' || c == ' ' || c == ','; }, '_');
  return (stem.empty() ? "output" : stem) + number;
}

std::vector<std::string> distinct(std::vector<std::string> names) {
  std::set<std::string> kept(names.begin(), names.end());  // a number added to one must not make it another
  std::set<std::string> seen;
  for (std::string& name : names) {
    if (seen.insert(name).second) {
      continue;
    }
    std::string numbered;
    for (std::size_t n = 2; numbered.empty() || !kept.insert(numbered).second; ++n) {
      numbered = fmt::format("{}_{}", name, n);
    }
    name = std::move(numbered);
  }
  return names;
}

OutputNames::OutputNames(fs::path folder, const std::vector<std::string>& samples,
                         const std::vector<std::string>& outputs, std::vector<fs::path> inputs)
    : folder_(std::move(folder)), inputs_(std::move(inputs)) {
  std::vector<std::string> stems;
  std::transform(samples.begin(), samples.end(), std::back_inserter(stems), sample_stem);
  samples_ = distinct(std::move(stems));
  std::vector<std::string> plain;
  std::transform(outputs.begin(), outputs.end(), std::back_inserter(plain), plain_name);
  outputs_ = distinct(std::move(plain));
}

bool OutputNames::is_input(const fs::path& path) const {
  std::error_code error;
  if (!fs::exists(path, error)) {
    return false;
  }
  return std::any_of(inputs_.begin(), inputs_.end(), [&](const fs::path& input) {
    return fs::equivalent(path, input, error) || fs::equivalent(folder_, input, error);
  });
}

fs::path OutputNames::take(std::size_t sample, std::optional<std::size_t> output, std::string_view extension) {
  const std::string name =
      samples_.at(sample) + (output.has_value() ? "." + outputs_.at(*output) : std::string());
  fs::path path = folder_ / fmt::format("{}{}", name, extension);
  for (std::size_t n = 2; taken_.count(path) > 0 || is_input(path); ++n) {
    path = folder_ / fmt::format("{}_{}{}", name, n, extension);
  }
  taken_.insert(path);
  return path;
}

}  // namespace tempera::cli
