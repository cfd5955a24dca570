#pragma once

#include <atomic>
#include <memory>

namespace tempera {

/// Asks long work to stop. Copies share one flag; the default one can be cancelled too. Safe to share between
/// threads, and cancel() may be called from a signal handler.
class CancelToken {
 public:
  CancelToken() : flag_(std::make_shared<std::atomic<bool>>(false)) {}

  void cancel() const noexcept { flag_->store(true); }
  [[nodiscard]] bool cancelled() const noexcept { return flag_->load(); }

  /// \throws Error{kCancelled}
  void throw_if_cancelled() const;

 private:
  static_assert(std::atomic<bool>::is_always_lock_free, "signal handlers need a lock-free flag");
  std::shared_ptr<std::atomic<bool>> flag_;
};

}  // namespace tempera
