#include "tempera/engine/measure/memory.h"

#include <fcntl.h>
#include <malloc.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <exception>
#include <fstream>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "tempera/base/error.h"
#include "tempera/base/file.h"

namespace tempera::engine {
namespace {

// "VmHWM:     1234 kB" -> 1234 KiB in bytes
std::int64_t field_bytes(std::string_view line) {
  const auto digit = line.find_first_of("0123456789");
  std::int64_t kib = 0;
  if (digit != std::string_view::npos) {
    std::from_chars(line.data() + digit, line.data() + line.size(), kib);
  }
  return kib << 10;
}

void write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written < 0 && errno != EINTR) {
      return;
    }
    text.remove_prefix(static_cast<std::size_t>(std::max<ssize_t>(written, 0)));
  }
}

std::string read_all(int descriptor) {
  std::string text;
  std::array<char, 4096> buffer{};
  for (;;) {
    const ssize_t got = ::read(descriptor, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got <= 0) {
      return text;
    }
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
}

// What the child tells: "ok BEFORE PEAK SINCE_START", or the text of what went wrong.
[[noreturn]] void run_child(int descriptor, const std::function<void()>& work) {
  std::string message;
  try {
    const PeakMemory peak = peak_memory_of(work);
    message = fmt::format("ok {} {} {}", peak.before_bytes, peak.peak_bytes, peak.since_start ? 1 : 0);
  } catch (const std::exception& e) {
    message = e.what();
  }
  write_all(descriptor, message);
  ::_exit(0);  // no destructors of the parent's objects here
}

PeakMemory parse_child(const std::string& message) {
  PeakMemory peak;
  long long before = 0;
  long long highest = 0;
  int since_start = 0;
  if (std::sscanf(message.c_str(), "ok %lld %lld %d", &before, &highest, &since_start) != 3) {
    throw Error(ErrorCode::kEngineFailed, message.empty() ? "the measured child process died" : message);
  }
  peak.before_bytes = before;
  peak.peak_bytes = highest;
  peak.since_start = since_start != 0;
  return peak;
}

}  // namespace

ResidentMemory resident_memory() {
  ResidentMemory memory;
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmRSS:")) {
      memory.now_bytes = field_bytes(line);
    } else if (line.starts_with("VmHWM:")) {
      memory.peak_bytes = field_bytes(line);
    } else if (line.starts_with("RssAnon:")) {
      memory.anonymous_bytes = field_bytes(line);
    }
  }
  if (memory.now_bytes == 0) {
    throw Error(ErrorCode::kIo, "resident memory cannot be read from /proc/self/status");
  }
  return memory;
}

void release_freed_memory() {
  (void)::malloc_trim(0);
  release_mapped_pages();
}

bool reset_peak_memory() {
  std::ofstream file("/proc/self/clear_refs");
  file << "5" << std::flush;
  return static_cast<bool>(file);
}

PeakMemory peak_memory_of(const std::function<void()>& work) {
  release_freed_memory();  // by earlier work
  PeakMemory peak;
  peak.since_start = !reset_peak_memory();
  peak.before_bytes = resident_memory().now_bytes;
  work();
  peak.peak_bytes = std::max(resident_memory().peak_bytes, peak.before_bytes);
  return peak;
}

PeakMemory peak_memory_in_child(const std::function<void()>& work) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw Error(ErrorCode::kIo, fmt::format("no pipe to a child process: {}", std::strerror(errno)));
  }
  const pid_t child = ::fork();
  if (child < 0) {
    const int reason = errno;
    ::close(ends[0]);
    ::close(ends[1]);
    throw Error(ErrorCode::kIo, fmt::format("cannot fork: {}", std::strerror(reason)));
  }
  if (child == 0) {
    ::close(ends[0]);
    run_child(ends[1], work);
  }
  ::close(ends[1]);
  const std::string message = read_all(ends[0]);
  ::close(ends[0]);
  while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  return parse_child(message);
}

}  // namespace tempera::engine
