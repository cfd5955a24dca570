#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tempera/graph/model.h"

namespace tempera::compress {

/// Which weights become zero. Neither form makes a dense engine faster, nor the file smaller before it is
/// compressed: for that whole channels must go (channels.h).
struct SparsifyOptions {
  enum class Pattern : std::uint8_t {
    kGlobal,    ///< the smallest magnitudes of all layers together
    kPerLayer,  ///< the smallest of each layer
    kNOfM,      ///< all but the n largest of every m neighbours along the axis that is summed over
  };
  Pattern pattern = Pattern::kGlobal;
  double sparsity = 0.2;  ///< of kGlobal and kPerLayer: share of the weights that is zero afterwards, 0 to 1
  int n = 2;              ///< of kNOfM: 0 <= n <= m
  int m = 4;
  std::vector<std::string> ignore;  ///< layers left as they are
};

/// One layer (layers.h in compress/quantize).
struct SparseLayer {
  std::string layer;
  std::string op_type;
  std::int64_t weights = 0;
  std::int64_t zeros_before = 0;
  std::int64_t zeros_after = 0;
  std::string skipped;  ///< why it was left as it is; empty: it was not
};

struct Sparsified {
  graph::Model model;
  std::vector<SparseLayer> layers;
  std::int64_t weights =
      0;  ///< of all layers that were not skipped; a weight that several layers use counts once
  std::int64_t zeros_before = 0;
  std::int64_t zeros_after = 0;
};

/// Unstructured magnitude pruning: sets weights of convolutions and products to zero.
///
/// The number of zeros is exactly floor(sparsity * weights + 1/2), or what was zero before when that is more;
/// among equal magnitudes the earlier go first. Weights with the same numbers, also transposed (the two
/// passes of a force field hold both), get the same zeros and count once.
///
/// \throws Error{kInvalidArgument} for options out of range, and naming the layer for a NaN; Error{kNotFound}
/// for an
///   unknown name in `ignore`
[[nodiscard]] Sparsified sparsify(const graph::Model& model, const SparsifyOptions& options);

}  // namespace tempera::compress
