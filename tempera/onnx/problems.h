#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "tempera/base/error.h"

namespace tempera::onnx {

/// Collects what is wrong with a file, so that one reading reports it all.
///
/// Frames say where the reader is ("node 'c' (Conv)"); each problem keeps those around it, innermost first.
class Problems {
 public:
  /// Problems kept in full; beyond that they are only counted.
  static constexpr std::size_t kMaxListed = 20;

  class Frame {
   public:
    Frame(Problems& problems, std::string text) : problems_(problems) { problems_.frames_.push_back(std::move(text)); }
    ~Frame() { problems_.frames_.pop_back(); }
    Frame(const Frame&) = delete;
    Frame& operator=(const Frame&) = delete;

   private:
    Problems& problems_;
  };

  void add(std::string message, std::string hint = {});
  void add(const Error& error);

  [[nodiscard]] bool empty() const noexcept { return count_ == 0; }

  /// \throws Error{kBadModel} when there are any: a single one with its frames, several as a list
  void throw_if_any() const;

 private:
  struct Problem {
    std::string message;
    std::string hint;
    std::vector<std::string> frames;  // innermost first
  };

  std::vector<std::string> frames_;  // outermost first
  std::vector<Problem> problems_;
  std::size_t count_ = 0;
};

/// A name as it may stand in a message: control characters and bytes that are no ASCII as \xNN, cut after 120.
[[nodiscard]] std::string printable(std::string_view name);

}  // namespace tempera::onnx
