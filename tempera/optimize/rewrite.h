#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tempera/engine/evaluator.h"
#include "tempera/graph/model.h"
#include "tempera/optimize/subject.h"
#include "tempera/report/report.h"

namespace tempera::optimize {

struct RewriteOptions {
  std::string engine = "openvino";  ///< what the rewrites aim at
  std::vector<std::string> skip_passes;
  std::string dump_after;             ///< pass after each firing of which the graph is written as text; empty: none
  std::filesystem::path dump_folder;  ///< where to, made when missing: PASS-1.txt, PASS-2.txt, ..
};

struct Rewritten {
  std::shared_ptr<const graph::Model> model;
  std::vector<report::PassRecord> passes;  ///< those that fired or declined
  bool changed = false;
};

/// The subject's model after the pass pipeline for an engine. \param evaluator  folds constants
/// \throws Error{kInvalidArgument} for a pass that does not exist; Error{kIo} when a dump cannot be written
[[nodiscard]] Rewritten rewrite(const Subject& subject, const engine::Evaluator& evaluator,
                                const RewriteOptions& options, const Host& host);

}  // namespace tempera::optimize
