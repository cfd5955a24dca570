#include "tempera/base/error.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace tempera {

std::string_view to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument: return "invalid_argument";
    case ErrorCode::kBadModel: return "bad_model";
    case ErrorCode::kUnsupported: return "unsupported";
    case ErrorCode::kNotFound: return "not_found";
    case ErrorCode::kIo: return "io";
    case ErrorCode::kEngineUnavailable: return "engine_unavailable";
    case ErrorCode::kEngineFailed: return "engine_failed";
    case ErrorCode::kOutOfMemory: return "out_of_memory";
    case ErrorCode::kLossBudget: return "loss_budget";
    case ErrorCode::kCancelled: return "cancelled";
    case ErrorCode::kInternal: return "internal";
  }
  return "internal";
}

int exit_code(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kNotFound: return 2;
    case ErrorCode::kBadModel:
    case ErrorCode::kUnsupported: return 3;
    case ErrorCode::kEngineUnavailable:
    case ErrorCode::kEngineFailed:
    case ErrorCode::kOutOfMemory: return 4;
    case ErrorCode::kLossBudget: return 5;
    case ErrorCode::kIo: return 6;
    case ErrorCode::kCancelled: return 130;
    case ErrorCode::kInternal: return 70;
  }
  return 70;
}

Error::Error(ErrorCode code, const std::string& message, std::string hint)
    : std::runtime_error(message), code_(code), hint_(std::move(hint)) {}

Error& Error::in(std::string frame) {
  context_.push_back(std::move(frame));
  return *this;
}

std::string Error::text() const {
  std::string out = fmt::format("error[{}]: {}\n", to_string(code_), what());
  for (const std::string& frame : context_) {
    out += fmt::format("  in: {}\n", frame);
  }
  if (!hint_.empty()) {
    out += fmt::format("  try: {}\n", hint_);
  }
  return out;
}

namespace {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row[b.size()];
}

}  // namespace

std::vector<std::string> nearest_names(std::string_view asked, const std::vector<std::string>& known) {
  std::vector<std::pair<std::size_t, std::string>> ranked;
  ranked.reserve(known.size());
  for (const std::string& name : known) {
    ranked.emplace_back(edit_distance(asked, name), name);
  }
  std::sort(ranked.begin(), ranked.end());
  std::vector<std::string> nearest;
  for (std::size_t i = 0; i < ranked.size() && i < 3; ++i) {
    nearest.push_back(ranked[i].second);
  }
  return nearest;
}

std::string unknown_name(std::string_view kind, std::string_view asked, const std::vector<std::string>& known) {
  const std::vector<std::string> nearest = nearest_names(asked, known);
  if (nearest.empty()) {
    return fmt::format("unknown {} '{}': there are none", kind, asked);
  }
  return fmt::format("unknown {} '{}': the nearest are '{}'", kind, asked, fmt::join(nearest, "', '"));
}

namespace detail {

void check_failed(const char* expression, const char* file, int line, const std::string& message) {
  throw Error(ErrorCode::kInternal, fmt::format("{} (check '{}' failed at {}:{})", message, expression, file, line),
              "this is a fault of tempera: please report it with the model and the command");
}

}  // namespace detail
}  // namespace tempera
