#include "tempera/quality/command_metric.h"

#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <stdlib.h>  // NOLINT(modernize-deprecated-headers): mkdtemp is of POSIX
#include <string_view>
#include <system_error>

#include "tempera/base/process.h"
#include "tempera/data/npy.h"

namespace tempera::quality {
namespace {

/// A folder that only this user can enter, gone with its content when this goes.
class PrivateFolder {
 public:
  PrivateFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "tempera-metric-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) {
      throw Error(ErrorCode::kIo, fmt::format("cannot make a temporary folder '{}': {}", pattern,
                                              std::generic_category().message(errno)));
    }
    path_ = pattern;
  }
  ~PrivateFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  PrivateFolder(const PrivateFolder&) = delete;
  PrivateFolder& operator=(const PrivateFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n\f\v";
  const std::size_t first = text.find_first_not_of(kSpace);
  return first == std::string_view::npos ? std::string_view{}
                                         : text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

/// For a message: on one line, of bounded length, without bytes that a terminal would obey.
std::string shown(std::string_view text) {
  constexpr std::size_t kMost = 200;
  std::string out;
  for (const char c : text.substr(0, kMost)) {
    const auto code = static_cast<unsigned char>(c);
    out += code < 0x20 || code == 0x7F ? ' ' : c;
  }
  return text.size() > kMost ? out + "..." : out;
}

std::string last_line(std::string_view errors) {
  const std::string_view text = trimmed(errors);
  const std::size_t before = text.find_last_of("\r\n");
  return shown(trimmed(before == std::string_view::npos ? text : text.substr(before + 1)));
}

double number_in(const ProcessResult& result, const std::string& program) {
  std::string_view text = trimmed(result.output);
  double value = 0.0;
  const std::from_chars_result parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (!result.output_complete || text.empty() || parsed.ec != std::errc() || parsed.ptr != text.data() + text.size() ||
      !std::isfinite(value)) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("program '{}' must print one finite number, got {}", program,
                            text.empty() ? "nothing" : fmt::format("'{}'", shown(text))));
  }
  return value;
}

void check_end(const ProcessResult& result, const std::string& program, std::chrono::milliseconds timeout) {
  if (result.timed_out) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("program '{}' did not end within {:g} s and was killed", program,
                            std::chrono::duration<double>(timeout).count()));
  }
  const std::string said = last_line(result.errors);
  const std::string tail = said.empty() ? "" : fmt::format(": {}", said);
  if (result.signal != 0) {
    throw Error(ErrorCode::kInvalidArgument, fmt::format("program '{}' was killed by signal {} ({}){}", program,
                                                         result.signal, ::strsignal(result.signal), tail));
  }
  if (result.exit_code != 0) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("program '{}' ended with exit code {}{}", program, result.exit_code, tail));
  }
}

}  // namespace

double CommandMetric::measure(const graph::Tensor& reference, const graph::Tensor& candidate) const {
  TEMPERA_CHECK(!options_.argv.empty(), "a metric that is a program has none");
  const std::string& program = options_.argv[0];
  if (!options_.allowed) {
    throw Error(ErrorCode::kInvalidArgument, fmt::format("the recipe's program '{}' may not be run", program));
  }
  const PrivateFolder folder;
  std::vector<std::string> argv = options_.argv;
  argv.push_back((folder.path() / "truth.npy").string());
  data::write_npy(argv.back(), reference);
  argv.push_back((folder.path() / "output.npy").string());
  data::write_npy(argv.back(), candidate);
  ProcessOptions process;
  process.timeout = options_.timeout;
  const ProcessResult result = run_process(argv, process, options_.cancel);
  check_end(result, program, options_.timeout);
  return number_in(result, program);
}

}  // namespace tempera::quality
