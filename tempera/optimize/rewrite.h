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
  std::filesystem::path dump_folder;
  std::string dump_after;
};

struct Rewritten {
  std::shared_ptr<const graph::Model> model;
  std::vector<report::PassRecord> passes;  ///< those that fired or declined
  bool changed = false;
};

/// The subject's model after the pass pipeline for an engine. \param evaluator  folds constants
[[nodiscard]] Rewritten rewrite(const Subject& subject, const engine::Evaluator& evaluator,
                                const RewriteOptions& options, const Host& host);

}  // namespace tempera::optimize
