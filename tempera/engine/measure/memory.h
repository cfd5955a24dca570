#pragma once

#include <cstdint>
#include <functional>

namespace tempera::engine {

/// Resident memory of this process, bytes, as the kernel counts it (Linux: /proc/self/status, in pages).
struct ResidentMemory {
  std::int64_t now_bytes = 0;   ///< VmRSS
  std::int64_t peak_bytes = 0;  ///< VmHWM: the highest since start, or since reset_peak_memory()
  std::int64_t anonymous_bytes = 0;  ///< RssAnon: what is not the cached content of files, which the kernel can drop
};

/// \throws Error{kIo} when the system does not say
[[nodiscard]] ResidentMemory resident_memory();

/// Returns to the system what this process freed and its allocator still holds, and pages of mapped files, which come back
/// when they are read.
void release_freed_memory();

/// Makes the present size the peak (writes 5 to /proc/self/clear_refs).
/// \return false where the system does not allow it; the peak then counts from the start of the process
bool reset_peak_memory();

/// Peak of this process while `work` runs, and its size before. Freed memory that the allocator keeps counts as before,
/// so the cleanest figure is that of a process that does nothing else.
struct PeakMemory {
  std::int64_t before_bytes = 0;
  std::int64_t peak_bytes = 0;
  bool since_start = false;  ///< the peak could not be reset: it may stem from earlier work

  [[nodiscard]] std::int64_t grown_bytes() const { return peak_bytes - before_bytes; }
};
[[nodiscard]] PeakMemory peak_memory_of(const std::function<void()>& work);

/// Runs `work` in a forked child, and returns the child's own peak: memory that the parent had touched counts as long as
/// the child shares it. For work that starts everything it needs: the threads of engines made before the fork do not
/// exist in the child, which must therefore not use those engines.
///
/// \throws Error{kEngineFailed} when the child dies or `work` throws (with its message), Error{kIo} when it cannot fork
[[nodiscard]] PeakMemory peak_memory_in_child(const std::function<void()>& work);

}  // namespace tempera::engine
