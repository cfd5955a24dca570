#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace tempera {

/// What kind of failure an Error reports. The command's exit code follows from it (see exit_code()).
enum class ErrorCode : std::uint8_t {
  kInvalidArgument,    ///< a caller's or user's argument is off
  kBadModel,           ///< a model file is malformed or inconsistent
  kUnsupported,        ///< well formed, but something we or the engine cannot do
  kNotFound,           ///< a named file, node, engine or option does not exist
  kIo,                 ///< reading or writing failed
  kEngineUnavailable,  ///< an engine or optional library is absent here
  kEngineFailed,       ///< an engine refused or failed while compiling or running
  kOutOfMemory,
  kLossBudget,  ///< an explicit change lost more than the budget allows
  kCancelled,
  kInternal,  ///< a fault of ours
};

/// The code's name as a user sees it, for example "bad_model".
[[nodiscard]] std::string_view to_string(ErrorCode code);

/// Process exit code: 2 usage or not found, 3 model bad or unsupported, 4 engine or memory, 5 loss budget,
/// 6 input or output, 130 cancelled, 70 a fault of ours.
[[nodiscard]] int exit_code(ErrorCode code);

/// The one exception type of the library: what was wrong, where, and what to do about it.
class Error : public std::runtime_error {
 public:
  /// \param message lower case, no final period: what was got and what was expected, in the user's own names
  /// \param hint    what to do about it, often a command line; may be empty
  Error(ErrorCode code, const std::string& message, std::string hint = {});

  [[nodiscard]] ErrorCode code() const noexcept { return code_; }
  [[nodiscard]] const std::string& hint() const noexcept { return hint_; }

  /// Where it happened, innermost frame first, for example "node 'conv1' (Conv, opset 13)".
  [[nodiscard]] const std::vector<std::string>& context() const noexcept { return context_; }

  /// Adds an outer frame and returns *this, for `catch (Error& e) { e.in("model unet.onnx"); throw; }`.
  Error& in(std::string frame);

  /// The whole text as the command prints it:
  ///
  ///     error[bad_model]: message
  ///       in: frame
  ///       try: hint
  [[nodiscard]] std::string text() const;

 private:
  ErrorCode code_;
  std::string hint_;
  std::vector<std::string> context_;
};

/// Up to three of `known` nearest to `asked` by edit distance, best first: for "did you mean".
[[nodiscard]] std::vector<std::string> nearest_names(std::string_view asked, const std::vector<std::string>& known);

/// A sentence for unknown names: "unknown pass 'fuze': did you mean 'fuse', ...". `kind` is the noun.
[[nodiscard]] std::string unknown_name(std::string_view kind, std::string_view asked,
                                       const std::vector<std::string>& known);

namespace detail {
[[noreturn]] void check_failed(const char* expression, const char* file, int line, const std::string& message);
}  // namespace detail

}  // namespace tempera

/// Checks an invariant of our own, in release builds too; throws Error{kInternal}. Not for user input.
#define TEMPERA_CHECK(condition, message)                                          \
  do {                                                                             \
    if (!(condition)) {                                                            \
      ::tempera::detail::check_failed(#condition, __FILE__, __LINE__, (message)); \
    }                                                                              \
  } while (false)
