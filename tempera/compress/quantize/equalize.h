#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tempera/graph/model.h"

namespace tempera::compress {

/// What equalize() did.
struct Equalization {
  std::vector<std::string> layers;  ///< those whose outputs were scaled, in order
  int sweeps = 0;
};

/// Cross-layer equalisation: a float model of the same function whose weights and activations waste fewer
/// codes.
///
/// Between a layer W1 and the layers W2 that read its output through positively homogeneous operators
/// (channel_scaling.h), channel i of the tensor is divided by
///
///   s_i = sqrt(r1_i r2_i) / r2_i,      r1_i = max |W1[i, :]|,  r2_i = max |W2[:, i]|,
///
/// so that both ranges become sqrt(r1_i r2_i). Pairs are visited in order until no factor is further than 1 %
/// from one, at most 20 sweeps. A channel that nothing makes or nothing reads keeps its scale.
///
/// With one scale for each output channel of W1 the gain lies in the tensor between, whose channels get like
/// ranges, and in the rows of W2. Ranges of the calibration change: calibrate afterwards. Whether it helps is
/// for a measurement on samples held out to say.
///
/// Source: Nagel et al. 2019, arXiv:1906.04721, sec. 4.1, eq. 10 and 11 (their s divides W1 and multiplies
/// W2).
Equalization equalize(graph::Model& model);

}  // namespace tempera::compress
