#include "tempera/base/progress.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <mutex>
#include <string>

#include <fmt/format.h>

namespace tempera {
namespace {

using Clock = std::chrono::steady_clock;

std::string duration_text(double seconds) {
  if (seconds < 60) {
    return fmt::format("{:.0f} s", seconds);
  }
  if (seconds < 3600) {
    return fmt::format("{:.0f}:{:02d} min", std::floor(seconds / 60), static_cast<int>(seconds) % 60);
  }
  return fmt::format("{:.1f} h", seconds / 3600);
}

class StderrProgress final : public Progress {
 public:
  explicit StderrProgress(bool terminal) : terminal_(terminal) {}
  ~StderrProgress() override { end(); }

  void begin(std::string_view stage, std::int64_t total) override {
    const std::lock_guard lock(mutex_);
    wipe();
    stage_ = stage;
    total_ = total;
    done_ = 0;
    started_ = Clock::now();
    shown_ = started_;
    active_ = true;
    if (terminal_) {
      show();
    }
  }

  void advance(std::int64_t steps) override {
    const std::lock_guard lock(mutex_);
    done_ += steps;
    const auto interval = terminal_ ? std::chrono::milliseconds(100) : std::chrono::milliseconds(10'000);
    if (active_ && Clock::now() - shown_ >= interval) {
      show();
    }
  }

  void end() override {
    const std::lock_guard lock(mutex_);
    wipe();
    active_ = false;
  }

 private:
  void show() {
    shown_ = Clock::now();
    const double seconds = std::chrono::duration<double>(shown_ - started_).count();
    const double rate = seconds > 0 ? static_cast<double>(done_) / seconds : 0.0;
    std::string line = stage_;
    if (total_ > 0) {
      const std::int64_t done = std::min(done_, total_);
      if (terminal_) {
        constexpr std::int64_t kWidth = 24;
        const auto full = static_cast<std::size_t>(kWidth * done / total_);
        line += fmt::format(" [{}{}]", std::string(full, '='), std::string(kWidth - full, ' '));
      }
      line += fmt::format(" {}/{}", done, total_);
      if (done > 0 && done < total_) {
        line += fmt::format(", {:.3g}/s, {} left", rate,
                            duration_text(static_cast<double>(total_ - done) / rate));
      }
    } else {
      line += fmt::format(" {}, {:.3g}/s", done_, rate);
    }
    // \r and "erase to the end of the line" on a terminal; a plain line elsewhere.
    fmt::print(stderr, "{}{}{}", terminal_ ? "\r" : "", line, terminal_ ? "\x1b[K" : "\n");
    std::fflush(stderr);
  }

  void wipe() {
    if (active_ && terminal_) {
      fmt::print(stderr, "\r\x1b[K");
      std::fflush(stderr);
    }
  }

  const bool terminal_;
  std::mutex mutex_;
  std::string stage_;
  std::int64_t total_ = 0;
  std::int64_t done_ = 0;
  Clock::time_point started_;
  Clock::time_point shown_;
  bool active_ = false;
};

class NullProgress final : public Progress {
 public:
  void begin(std::string_view /*stage*/, std::int64_t /*total*/) override {}
  void advance(std::int64_t /*steps*/) override {}
  void end() override {}
};

}  // namespace

std::unique_ptr<Progress> make_stderr_progress(bool terminal) {
  return std::make_unique<StderrProgress>(terminal);
}
std::unique_ptr<Progress> make_null_progress() { return std::make_unique<NullProgress>(); }

}  // namespace tempera
