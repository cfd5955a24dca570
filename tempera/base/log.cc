#include "tempera/base/log.h"

#include <string>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <spdlog/logger.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/ansicolor_sink.h>
#include <spdlog/sinks/stdout_sinks.h>

namespace tempera {
namespace {

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug: return spdlog::level::debug;
    case LogLevel::kInfo: return spdlog::level::info;
    case LogLevel::kWarning: return spdlog::level::warn;
    case LogLevel::kError: return spdlog::level::err;
  }
  return spdlog::level::err;
}

/// Sends to a spdlog logger of its own, outside spdlog's global registry.
class SpdlogLogger : public Logger {
 public:
  SpdlogLogger(spdlog::sink_ptr sink, LogLevel level, const std::string& pattern)
      : logger_("tempera", std::move(sink)) {
    logger_.set_level(to_spdlog(level));
    logger_.flush_on(spdlog::level::trace);
    logger_.set_pattern(pattern, spdlog::pattern_time_type::utc);
  }

  void log(LogLevel level, std::string_view message) override {
    logger_.log(to_spdlog(level), "{}", text(message));
  }
  [[nodiscard]] bool wants(LogLevel level) const override { return logger_.should_log(to_spdlog(level)); }

 protected:
  [[nodiscard]] virtual std::string text(std::string_view message) const { return std::string(message); }

 private:
  spdlog::logger logger_;
};

class JsonLogger final : public SpdlogLogger {
 public:
  JsonLogger(spdlog::sink_ptr sink, LogLevel level)
      : SpdlogLogger(std::move(sink), level,
                     R"({"time":"%Y-%m-%dT%H:%M:%S.%eZ","level":"%l","message":%v})") {}

 protected:
  [[nodiscard]] std::string text(std::string_view message) const override {
    return nlohmann::json(message).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }
};

class NullLogger final : public Logger {
 public:
  void log(LogLevel /*level*/, std::string_view /*message*/) override {}
  [[nodiscard]] bool wants(LogLevel /*level*/) const override { return false; }
};

}  // namespace

std::unique_ptr<Logger> make_stderr_logger(LogLevel level, bool colour) {
  auto sink = std::make_shared<spdlog::sinks::ansicolor_stderr_sink_mt>(colour ? spdlog::color_mode::always
                                                                               : spdlog::color_mode::never);
  return std::make_unique<SpdlogLogger>(std::move(sink), level, "%^%l%$: %v");
}

std::unique_ptr<Logger> make_json_logger(LogLevel level) {
  return std::make_unique<JsonLogger>(std::make_shared<spdlog::sinks::stderr_sink_mt>(), level);
}

std::unique_ptr<Logger> make_null_logger() { return std::make_unique<NullLogger>(); }

}  // namespace tempera
