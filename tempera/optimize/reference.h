#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tempera/engine/engine.h"
#include "tempera/optimize/subject.h"

namespace tempera::optimize {

/// What every loss is measured against.
struct Reference {
  std::unique_ptr<engine::Session> session;
  bool engine_is_wrong = false;    ///< the engine computes the original wrongly at f32: the session is the interpreter's
  std::vector<std::string> notes;  ///< for the report
};

/// The original in exact f32 in the engine itself. An engine may be wrong about a model, so the interpreter computes the
/// first samples of the search part too; where they disagree, the interpreter is the reference.
///
/// \param exact  f32, with exact set
/// \throws what the engine throws when it does not take the original
[[nodiscard]] Reference open_reference(const Subject& subject, const engine::Engine& engine, const std::string& engine_name,
                                       const engine::CompileOptions& exact, const Host& host);

/// The session of a Reference once more, for a flow that closes it while it is not asked.
///
/// \param exact  what it was opened with
[[nodiscard]] std::unique_ptr<engine::Session> reopen_reference(const Subject& subject, const engine::Engine& engine,
                                                                engine::CompileOptions exact, bool engine_is_wrong);

/// Runs the first samples of the search part through the reference.
///
/// \param exact  what `session` was compiled with in `engine`
/// \throws Error{kEngineFailed} naming sample, output, element and node when an output holds a NaN or an infinity
void require_finite_reference(const Subject& subject, const engine::Engine& engine, engine::Session& session,
                              const engine::CompileOptions& exact);

}  // namespace tempera::optimize
