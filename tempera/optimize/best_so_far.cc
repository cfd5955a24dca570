#include "tempera/optimize/best_so_far.h"

#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "tempera/base/error.h"
#include "tempera/onnx/write.h"

namespace tempera::optimize {

namespace fs = std::filesystem;

BestSoFar::BestSoFar(fs::path folder, data::Recipe recipe, std::string engine)
    : folder_(std::move(folder)), recipe_(std::move(recipe)), engine_(std::move(engine)) {}

void BestSoFar::offer(const Candidate& candidate, double latency_ms) {
  if (!(latency_ms < latency_ms_)) {
    return;
  }
  fs::path fresh = folder_;
  fresh += ".new";
  std::error_code error;
  fs::remove_all(fresh, error);
  fs::create_directories(fresh, error);
  if (error) {
    throw Error(ErrorCode::kIo, fmt::format("cannot make the folder '{}': {}", fresh.string(), error.message()),
                "choose a folder that can be written and has room");
  }
  try {
    onnx::write_model(*candidate.model, fresh / "model.onnx");
    data::write_recipe(fresh / "model.recipe.toml", deploy_recipe(recipe_, engine_, candidate.options));
  } catch (...) {
    fs::remove_all(fresh, error);  // nothing half-written stays
    throw;
  }
  fs::remove_all(folder_, error);
  fs::rename(fresh, folder_, error);
  if (error) {
    throw Error(ErrorCode::kIo, fmt::format("cannot write '{}': {}", folder_.string(), error.message()));
  }
  latency_ms_ = latency_ms;
}

void BestSoFar::forget() {
  std::error_code error;
  fs::remove_all(folder_, error);
}

}  // namespace tempera::optimize
