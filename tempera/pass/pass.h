#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tempera/engine/evaluator.h"
#include "tempera/graph/model.h"

namespace tempera::pass {

/// What a pass may ask about the world it rewrites for.
struct PassContext {
  const engine::Evaluator* evaluator = nullptr;  ///< null: nothing is folded
  std::int64_t opset = 28;                       ///< of ai.onnx in the graph being rewritten
  std::string target_engine;                     ///< "openvino", "torch", ...: what it dislikes is not applied
  std::int64_t max_fold_bytes = std::int64_t{16} << 20;  ///< a folded result larger than this stays a node
  bool lossy_rounding = true;  ///< allow rewrites equal in exact arithmetic but not to the last bit
};

/// One place where a pass fired.
struct Rewrite {
  std::string site;  ///< the node it started from, by name
  std::string what;  ///< "Conv + BatchNormalization -> Conv"
};

/// One place where a pass looked and declined.
struct Skip {
  std::string site;
  std::string reason;  ///< "the convolution's output has 2 readers"
};

struct PassResult {
  std::vector<Rewrite> rewrites;
  std::vector<Skip> skipped;
};

/// One rewrite. `run` sees a single graph (the runner visits bodies), leaves it valid, and applied twice changes nothing
/// the second time.
struct Pass {
  std::string_view name;     ///< as in --skip-pass
  std::string_view summary;  ///< one line for --list and docs
  PassResult (*run)(graph::Graph& graph, const PassContext& context);
};

}  // namespace tempera::pass
