#include "tempera/onnx/problems.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace tempera::onnx {

void Problems::add(std::string message, std::string hint) {
  ++count_;
  if (problems_.size() < kMaxListed) {
    problems_.push_back({std::move(message), std::move(hint), {frames_.rbegin(), frames_.rend()}});
  }
}

void Problems::add(const Error& error) {
  ++count_;
  if (problems_.size() < kMaxListed) {
    Problem& problem = problems_.emplace_back(Problem{error.what(), error.hint(), error.context()});
    problem.frames.insert(problem.frames.end(), frames_.rbegin(), frames_.rend());
  }
}

void Problems::throw_if_any() const {
  if (problems_.empty()) {
    return;
  }
  if (count_ == 1) {
    const Problem& only = problems_.front();
    Error error(ErrorCode::kBadModel, only.message, only.hint);
    for (const std::string& frame : only.frames) {
      error.in(frame);
    }
    throw error;
  }
  std::string message = fmt::format("{} problems:", count_);
  for (const Problem& problem : problems_) {
    message += fmt::format("\n  {}", problem.message);
    if (!problem.frames.empty()) {
      message += fmt::format(" (in {})", fmt::join(problem.frames, ", in "));
    }
  }
  if (count_ > problems_.size()) {
    message += fmt::format("\n  and {} more", count_ - problems_.size());
  }
  throw Error(ErrorCode::kBadModel, message, problems_.front().hint);
}

std::string printable(std::string_view name) {
  constexpr std::size_t kMaxLength = 120;
  std::string out;
  for (const char c : name) {
    if (out.size() >= kMaxLength) {
      return out + "...";
    }
    const auto code = static_cast<unsigned char>(c);
    if (code >= 0x20 && code < 0x7f) {
      out += c;
    } else {
      out += fmt::format("\\x{:02x}", code);
    }
  }
  return out;
}

}  // namespace tempera::onnx
