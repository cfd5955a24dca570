#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tempera/graph/model.h"
#include "tempera/pass/pass.h"
#include "tempera/pass/pipeline.h"

namespace tempera::pass {

struct RunOptions {
  PassContext context;                              ///< its opset is taken from the model
  std::vector<std::string> skip;                    ///< names of passes to leave out
  std::map<std::string, graph::Dims> input_shapes;  ///< inputs of the main graph to fix first, by name
  int max_rounds = 16;
  /// Called after each pass that rewrote something: for --dump-after. The model is valid then.
  std::function<void(std::string_view pass, const graph::Model& model)> after_pass;
};

/// What one pass did over all rounds, main graph and bodies together.
struct PassReport {
  std::string name;
  std::vector<Rewrite> rewrites;
  std::vector<Skip> skipped;  ///< of the last round: where it still declines
  double time_ms = 0.0;
};

struct RunReport {
  std::vector<PassReport> passes;  ///< in pipeline order, skipped ones left out
  int rounds = 0;
  bool converged = false;  ///< the last round changed nothing
  double infer_ms = 0.0;   ///< spent on types and shapes
  double total_ms = 0.0;

  [[nodiscard]] std::size_t rewrites() const;
};

/// Runs the passes over the main graph and every body, round after round until a round changes nothing. Types and shapes
/// are inferred before the first round and after each that changed something; the graph is sorted and verified after
/// every pass. Late steps take part once the others have settled.
///
/// \throws Error{kInvalidArgument} for an unknown name in `skip`; Error{kInternal} in the pass's name when it left the
///   graph invalid; whatever a pass throws, with the pass's name added
RunReport run_passes(graph::Model& model, const RunOptions& options, std::span<const Step> steps = pipeline());

}  // namespace tempera::pass
