#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tempera/base/host.h"
#include "tempera/data/dataset.h"
#include "tempera/engine/engine.h"
#include "tempera/graph/model.h"

namespace tempera::compress {

struct SmoothQuantOptions {
  double alpha = 0.5;  ///< 0: all difficulty stays in the activation, 1: all moves to the weights
  double power = 1.0;  ///< of the factors: below 1 the spread moves in part
};

/// SmoothQuant: moves the spread of an activation's channels into the weights that read it, in float, so that
/// one scale serves the activation better.
///
///   s_j = (max|X_j|^alpha / max|W_j|^(1 - alpha))^power,   X'_j = X_j / s_j,   W'_j = s_j W_j
///
/// The division is folded into what makes X: a normalisation's scale and bias, the constant of a Mul, or the
/// weights of the layer before (channel_scaling.h); a tensor above which nothing can take it is left alone.
/// The largest magnitudes of X_j are measured over the samples; a channel that stays zero, or that no weight
/// reads, keeps its scale. The factors are taken relative to their geometric mean, which changes no rounding
/// and keeps numbers near where they were.
///
/// Ranges of the calibration change: calibrate afterwards.
///
/// Source: Xiao et al. 2023, arXiv:2211.10438, eq. 3 and 4 (power 1).
///
/// \param layers   names of layers that will be quantised; a tensor with another reader among its layers is
/// left alone \param samples  indices into `dataset`, not empty \param options  of the run; the precision
/// must be kFloat32 \return names of the tensors that were smoothed
std::vector<std::string> smooth(graph::Model& model, const std::vector<std::string>& layers,
                                const data::Dataset& dataset, const std::vector<std::size_t>& samples,
                                const engine::Engine& engine, const engine::CompileOptions& options,
                                const Host& host, const SmoothQuantOptions& settings = {});

}  // namespace tempera::compress
