#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

namespace tempera {

/// How far long work has come; passed as an argument. Safe to call from several threads.
class Progress {
 public:
  virtual ~Progress() = default;

  /// Starts a stage of `total` steps; 0: unknown. Ends the stage before, if any.
  virtual void begin(std::string_view stage, std::int64_t total) = 0;
  virtual void advance(std::int64_t steps = 1) = 0;
  virtual void end() = 0;
};

/// On a terminal a bar with rate and remaining time, redrawn at most ten times a second and wiped at the end;
/// elsewhere a line every ten seconds. On standard error.
[[nodiscard]] std::unique_ptr<Progress> make_stderr_progress(bool terminal);

/// Shows nothing.
[[nodiscard]] std::unique_ptr<Progress> make_null_progress();

}  // namespace tempera
