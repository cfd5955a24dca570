#pragma once

#include <openvino/core/model.hpp>

namespace tempera::engine::openvino {

/// Gives readers that use one square weight in different ways a copy of it each.
///
/// OpenVINO 2026.4 keeps packed weights by the address of their bytes and by their shape, and takes what it packed for
/// one reader for another: with W [n, n], x W followed by a W^T computes a W instead, in float32, for matrices, batches
/// of them and convolutions with their transposes. A force field whose forces run backward through its own layers is
/// such a graph. Readers that use the weight alike go on sharing it.
///
/// \return how many copies were made
std::size_t separate_square_weights(ov::Model& model);

}  // namespace tempera::engine::openvino
