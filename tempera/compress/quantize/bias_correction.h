#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tempera/base/host.h"
#include "tempera/data/dataset.h"
#include "tempera/engine/engine.h"
#include "tempera/graph/model.h"

namespace tempera::compress {

/// What quantising a layer takes from its output on average, by output channel.
struct BiasError {
  std::string layer;
  std::string output;           ///< the tensor that the layer makes, one name in both models
  std::vector<double> missing;  ///< [output channels]: mean of (float output - quantised output)
};

/// Measures the mean error that each quantised layer adds of its own:
///
///   missing[c] = E[ y_c(x) - y~_c(x~) ]   over samples and positions,
///
/// where y is the layer in float, and y~ its quantised twin (weights and input through their codes) reading
/// the *same float input* x. Errors that come from layers above are theirs to correct, so all layers are
/// measured in one run of the model with every twin beside its layer, and one run for each sample suffices
/// where the published method corrects and runs again layer after layer.
///
/// Source: Nagel et al. 2019, arXiv:1906.04721, sec. 4.2 and appendix D (the empirical form).
///
/// \param original   the float model
/// \param quantized  made from it by quantize(): its layers keep the names of their outputs
/// \param samples    indices into `dataset`, not empty
/// \param options    of the run; the precision must be kFloat32
/// \return layers whose weights or input are decoded from codes and whose output has a channel axis; others
/// have no bias
[[nodiscard]] std::vector<BiasError> measure_bias_errors(
    const graph::Model& original, const graph::Model& quantized, const data::Dataset& dataset,
    const std::vector<std::size_t>& samples, const engine::Engine& engine,
    const engine::CompileOptions& options, const Host& host);

/// Adds the missing means to the biases of the quantised model: a constant bias of its own for each layer,
/// the constant of an Add that alone reads a MatMul, or the codes of an int32 bias. A layer with none of
/// these gets a bias where its operator takes one.
///
/// \return how many layers were corrected
std::size_t correct_biases(graph::Model& quantized, const std::vector<BiasError>& errors);

}  // namespace tempera::compress
