#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tempera/base/host.h"
#include "tempera/compress/prune/channels.h"
#include "tempera/engine/engine.h"
#include "tempera/engine/evaluator.h"
#include "tempera/graph/model.h"

namespace tempera::compress {

struct RepairOptions {
  std::int64_t places =
      4000;  ///< most output places (pixels, rows) of a layer that are fitted, over all samples
  std::int64_t largest = 3000;     ///< layers with more weights than this for one output stay as they are
  double ridge = 1e-3;             ///< pull towards the present weights, in units of the inputs' mean square
  std::uint64_t seed = 0;          ///< of the places
  engine::CompileOptions compile;  ///< f32
};

/// What was done with one layer.
struct RepairRecord {
  std::string layer;
  double error_before = 0.0;  ///< relative L2 of its output at the fitted places, against the original model
  double error_after = 0.0;
  std::string skipped;  ///< why it stays as it is; empty: it was fitted
};

/// One set of inputs of the model, in the order of the names.
using NamedInputs =
    std::function<std::vector<graph::Tensor>(std::size_t sample, const std::vector<std::string>& names)>;

/// Fits the layers that lost inputs anew, in graph order, so that each gives what it gave in the original
/// model:
///
///   min over W, b:  sum over places p of || y_p - W x'_p - b ||^2  +  lambda || W - W0 ||^2
///
/// with y the layer's output in the original model, x' its input in the pruned one as repaired so far (so
/// that errors of layers before are made good, too), W0 the cut weights, and lambda = ridge * mean x'^2 *
/// places.
///
/// Source: He, Zhang, Sun 2017, "Channel pruning for accelerating very deep neural networks",
/// arXiv:1707.06168, eq. 1 with the channels given, and sec. 3.2 (the whole model).
///
/// \param original  the model that `pruned` was made from, with the same nodes
/// \param readers   of ChannelPruned
/// \param samples   how many sets `inputs` has
[[nodiscard]] std::vector<RepairRecord> repair(const graph::Model& original, graph::Model& pruned,
                                               const std::vector<Reader>& readers, std::size_t samples,
                                               const NamedInputs& inputs, const engine::Engine& engine,
                                               const engine::Evaluator& evaluator,
                                               const RepairOptions& options, const Host& host);

/// Solves (A + lambda I) X = B for a symmetric positive semidefinite A by Cholesky's factorisation.
/// \param a  [n, n], row-major; overwritten
/// \param b  [n, m], row-major; replaced by X
/// \return false when the matrix is not positive definite (then b is no solution)
[[nodiscard]] bool solve_ridge(std::vector<double>& a, std::vector<double>& b, std::size_t n, std::size_t m,
                               double lambda);

}  // namespace tempera::compress
