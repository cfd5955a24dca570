#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

namespace tempera {

enum class LogLevel : std::uint8_t { kDebug, kInfo, kWarning, kError };

/// Where library code sends its remarks; always passed as an argument, never global. Safe to call from
/// several threads.
class Logger {
 public:
  virtual ~Logger() = default;
  virtual void log(LogLevel level, std::string_view message) = 0;
  [[nodiscard]] virtual bool wants(LogLevel level) const = 0;

  void debug(std::string_view message) { log(LogLevel::kDebug, message); }
  void info(std::string_view message) { log(LogLevel::kInfo, message); }
  void warning(std::string_view message) { log(LogLevel::kWarning, message); }
  void error(std::string_view message) { log(LogLevel::kError, message); }
};

/// One line a message on standard error, "warning: ..."; messages below `level` are dropped. \param colour of
/// the level
[[nodiscard]] std::unique_ptr<Logger> make_stderr_logger(LogLevel level, bool colour);

/// One JSON object a line on standard error: time (UTC, ISO 8601), level, message; for services.
[[nodiscard]] std::unique_ptr<Logger> make_json_logger(LogLevel level);

/// Drops everything.
[[nodiscard]] std::unique_ptr<Logger> make_null_logger();

}  // namespace tempera
