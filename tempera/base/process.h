#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "tempera/base/cancel.h"

namespace tempera {

struct ProcessOptions {
  std::chrono::milliseconds timeout{60'000};   ///< from the start; then it is killed
  std::size_t max_output = std::size_t{64} << 10;  ///< bytes kept of stdout and of stderr; the rest is read and dropped
};

/// How a process ended and what it wrote.
struct ProcessResult {
  int exit_code = 0;  ///< when it ended by itself
  int signal = 0;     ///< that ended it; 0: none
  bool timed_out = false;
  std::string output;             ///< the first bytes of stdout
  bool output_complete = true;    ///< false: it wrote more than that
  std::string errors;             ///< the last bytes of stderr
};

/// Runs a program and waits for its end. No shell is involved; stdin is empty, the environment and the working folder
/// are the caller's. The process leads a group of its own, of which nothing is left running: not after its end, not
/// after the time is up, and not when `cancel` is asked for, within 20 ms. Safe to call from several threads.
///
/// \param argv  the program and its arguments; a program without a slash is looked for on the PATH
/// \throws Error{kNotFound} when there is no such program, Error{kIo} when it cannot be run, Error{kCancelled}
[[nodiscard]] ProcessResult run_process(const std::vector<std::string>& argv, const ProcessOptions& options,
                                        const CancelToken& cancel);

}  // namespace tempera
