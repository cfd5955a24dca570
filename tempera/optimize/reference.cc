#include "tempera/optimize/reference.h"

#include <algorithm>

#include <fmt/format.h>

#include "tempera/base/error.h"
#include "tempera/engine/non_finite.h"
#include "tempera/engine/torch/torch_engine.h"
#include "tempera/optimize/candidate.h"
#include "tempera/optimize/losses.h"

namespace tempera::optimize {
namespace {

// Relative L2 between engines at f32: sums in another order stay far below.
constexpr double kEngineAgrees = 1e-2;

// Samples that both compute: the interpreter may be slow.
constexpr std::size_t kCompared = 2;

}  // namespace

std::unique_ptr<engine::Session> reopen_reference(const Subject& subject, const engine::Engine& engine,
                                                  engine::CompileOptions exact, bool engine_is_wrong) {
  if (!engine_is_wrong) {
    return engine.compile(subject.model, exact);
  }
  exact.device = "cpu";
  return engine::make_torch_engine()->compile(subject.model, exact);
}

Reference open_reference(const Subject& subject, const engine::Engine& engine, const std::string& engine_name,
                         const engine::CompileOptions& exact, const Host& host) {
  Reference reference;
  reference.session = engine.compile(subject.model, exact);
  if (engine_name == "torch") {
    return reference;
  }
  std::unique_ptr<engine::Session> interpreter;
  std::vector<quality::OutputLoss> distances;
  try {
    interpreter = reopen_reference(subject, engine, exact, true);
    std::vector<std::size_t> few = subject.split.search;
    few.resize(std::min(few.size(), kCompared));
    distances = measure_losses(subject, *interpreter, {{"original", reference.session.get()}}, few, host).front();
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kCancelled) {
      throw;
    }
    reference.notes.push_back(
        fmt::format("{} was not checked against the reference interpreter: {}", engine_name, error.what()));
    return reference;
  }
  for (const quality::OutputLoss& distance : distances) {
    if (distance.worst_relative_l2 > kEngineAgrees) {
      reference.notes.push_back(
          fmt::format("{} computes output '{}' of the original wrongly at f32 (relative L2 error {:.2g} on '{}'): losses "
                      "are measured against the reference interpreter",
                      engine_name, distance.output, distance.worst_relative_l2, distance.worst_sample));
      reference.session = std::move(interpreter);
      reference.engine_is_wrong = true;
      return reference;
    }
  }
  return reference;
}

void require_finite_reference(const Subject& subject, const engine::Engine& engine, engine::Session& session,
                              const engine::CompileOptions& exact) {
  const engine::Side side{&subject.model, &engine, exact};
  const std::vector<data::Sample> samples = load_samples(subject, subject.split.search, kCompared);
  const auto sets = input_sets(subject, samples, session);
  for (std::size_t i = 0; i < sets.size(); ++i) {
    try {
      engine::require_finite_outputs(side, sets[i], session.outputs(), session.run(sets[i]));
    } catch (Error& error) {
      error.in(fmt::format("sample '{}' through the original", samples[i].name));
      throw;
    }
  }
}

}  // namespace tempera::optimize
