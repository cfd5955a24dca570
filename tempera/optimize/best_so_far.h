#pragma once

#include <filesystem>
#include <limits>
#include <string>

#include "tempera/data/recipe.h"
#include "tempera/optimize/candidate.h"

namespace tempera::optimize {

/// The fastest candidate within the budget that was measured so far, as files: what a user has when the search does not
/// come to its end. It has not been verified.
class BestSoFar {
 public:
  /// \param folder  made with the first candidate; replaced as a whole by each better one
  /// \param recipe  the model's; `engine` is what candidates were measured in
  BestSoFar(std::filesystem::path folder, data::Recipe recipe, std::string engine);

  /// Writes model.onnx and model.recipe.toml when the candidate is faster than those before. \throws Error{kIo}
  void offer(const Candidate& candidate, double latency_ms);

  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }
  [[nodiscard]] bool written() const { return latency_ms_ < std::numeric_limits<double>::infinity(); }

  /// The files are no longer wanted.
  void forget();

 private:
  std::filesystem::path folder_;
  data::Recipe recipe_;
  std::string engine_;
  double latency_ms_ = std::numeric_limits<double>::infinity();
};

}  // namespace tempera::optimize
