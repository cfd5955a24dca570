#include "tempera/base/process.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>

#include <fmt/format.h>

#include "tempera/base/error.h"

extern char** environ;

namespace tempera {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kPollMs = 20;  // until a wish to cancel is seen

/// A pipe of which each end is closed at most once and neither is inherited.
class Pipe {
 public:
  Pipe() {
    if (::pipe2(ends_.data(), O_CLOEXEC) != 0) {
      throw Error(ErrorCode::kIo, fmt::format("cannot make a pipe: {}", std::generic_category().message(errno)));
    }
  }
  ~Pipe() {
    close_end(0);
    close_end(1);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  [[nodiscard]] int read_end() const { return ends_[0]; }  ///< -1 once at its end
  [[nodiscard]] int write_end() const { return ends_[1]; }
  void close_end(std::size_t which) {
    if (ends_[which] >= 0) {
      ::close(ends_[which]);
      ends_[which] = -1;
    }
  }

  /// Appends what can be read now; closes the reading end when nothing more can come.
  void read_into(std::string& text) {
    std::array<char, 16384> buffer;  // NOLINT(cppcoreguidelines-pro-type-member-init): read() fills it
    const ssize_t got = ::read(ends_[0], buffer.data(), buffer.size());
    if (got > 0) {
      text.append(buffer.data(), static_cast<std::size_t>(got));
    } else if (got == 0 || errno != EINTR) {
      close_end(0);
    }
  }

 private:
  std::array<int, 2> ends_{-1, -1};
};

/// What posix_spawn is told beside the program.
class SpawnSettings {
 public:
  SpawnSettings(const Pipe& output, const Pipe& errors) {
    posix_spawn_file_actions_init(&actions_);
    posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions_, output.write_end(), STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions_, errors.write_end(), STDERR_FILENO);
    posix_spawnattr_init(&attributes_);
    sigset_t signals;
    sigfillset(&signals);
    posix_spawnattr_setsigdefault(&attributes_, &signals);  // ignored signals would stay ignored
    sigemptyset(&signals);
    posix_spawnattr_setsigmask(&attributes_, &signals);
    posix_spawnattr_setpgroup(&attributes_, 0);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
  }
  ~SpawnSettings() {
    posix_spawnattr_destroy(&attributes_);
    posix_spawn_file_actions_destroy(&actions_);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;

  /// \return an errno, 0 when it runs
  int spawn(pid_t& child, std::vector<std::string> argv) const {
    std::vector<char*> pointers;
    for (std::string& argument : argv) {
      pointers.push_back(argument.data());
    }
    pointers.push_back(nullptr);
    return ::posix_spawnp(&child, pointers[0], &actions_, &attributes_, pointers.data(), environ);
  }

 private:
  posix_spawn_file_actions_t actions_{};
  posix_spawnattr_t attributes_{};
};

/// A running process; ends with its group at the latest when this goes.
class Child {
 public:
  explicit Child(pid_t id) : id_(id) {}
  ~Child() { end(); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  /// Whether it has ended by itself. It stays a zombie until end(), so that its number still names its group.
  [[nodiscard]] bool has_ended() const {
    siginfo_t info{};
    return ::waitid(P_PID, static_cast<id_t>(id_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == id_;
  }

  /// Kills what is left of the group. \return the status as waitpid() gives it
  int end() {
    if (id_ > 0) {
      ::kill(-id_, SIGKILL);
      while (::waitpid(id_, &status_, 0) < 0 && errno == EINTR) {
      }
      id_ = -1;
    }
    return status_;
  }

 private:
  pid_t id_;
  int status_ = 0;
};

void wait_for_output(Pipe& output, Pipe& errors, int most_ms, ProcessResult& result) {
  std::array<pollfd, 2> polled{{{output.read_end(), POLLIN, 0}, {errors.read_end(), POLLIN, 0}}};
  if (::poll(polled.data(), polled.size(), most_ms) <= 0) {
    return;
  }
  if (polled[0].revents != 0) {
    output.read_into(result.output);
  }
  if (polled[1].revents != 0) {
    errors.read_into(result.errors);
  }
}

void cap(ProcessResult& result, std::size_t most) {
  if (result.output.size() > most) {
    result.output.resize(most);
    result.output_complete = false;
  }
  if (result.errors.size() > most) {
    result.errors.erase(0, result.errors.size() - most);
  }
}

}  // namespace

ProcessResult run_process(const std::vector<std::string>& argv, const ProcessOptions& options,
                          const CancelToken& cancel) {
  TEMPERA_CHECK(!argv.empty(), "a program is needed");
  cancel.throw_if_cancelled();
  Pipe output;
  Pipe errors;
  pid_t id = 0;
  const Clock::time_point start = Clock::now();
  if (const int failed = SpawnSettings(output, errors).spawn(id, argv); failed != 0) {
    throw Error(failed == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo,
                fmt::format("cannot run '{}': {}", argv[0], std::generic_category().message(failed)),
                failed == ENOENT   ? "check the path, and that what a script names in its first line (#!) is installed"
                : failed == EACCES ? fmt::format("chmod +x {}", argv[0])
                : failed == ENOEXEC ? "a script's first line must name its interpreter, as #!/usr/bin/env python3"
                                    : "");
  }
  Child child(id);
  output.close_end(1);
  errors.close_end(1);
  ProcessResult result;
  // Its end counts, not that of its pipes: what it leaves in the background may hold them open.
  while (!child.has_ended()) {
    cancel.throw_if_cancelled();
    if (Clock::now() - start > options.timeout) {
      result.timed_out = true;
      break;
    }
    const bool silent = output.read_end() < 0 && errors.read_end() < 0;  // it is about to end
    wait_for_output(output, errors, silent ? 1 : kPollMs, result);
    cap(result, options.max_output);
  }
  const int status = child.end();
  result.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
  // What is still in the pipes. Their writers are gone; one that left the group may go on, and is not waited for.
  constexpr int kMostReads = 64;
  for (int i = 0; i < kMostReads && (output.read_end() >= 0 || errors.read_end() >= 0); ++i) {
    wait_for_output(output, errors, 0, result);
    cap(result, options.max_output);
  }
  return result;
}

}  // namespace tempera
