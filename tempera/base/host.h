#pragma once

#include <string>
#include <string_view>

#include "tempera/base/error.h"

namespace tempera {

/// What long work tells its caller and asks of it. This base is silent and never cancels; the command line shows bars.
/// Methods may be called from any thread.
class Host {
 public:
  virtual ~Host() = default;

  virtual void info(const std::string& message) { (void)message; }
  virtual void warn(const std::string& message) { (void)message; }

  /// \param done,total  in any one unit; total 0 when unknown
  virtual void progress(std::string_view stage, double done, double total) {
    (void)stage;
    (void)done;
    (void)total;
  }

  [[nodiscard]] virtual bool cancelled() const { return false; }

  /// \throws Error{kCancelled}
  void check_cancelled() const {
    if (cancelled()) {
      throw Error(ErrorCode::kCancelled, "interrupted");
    }
  }
};

}  // namespace tempera
