#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tempera/compress/quantize/layers.h"
#include "tempera/graph/graph.h"

/// Moving a factor for each channel from where a tensor is made into the weights that read it: the one change
/// of weights that leaves a float model's function as it is and yet makes it easier to quantise.
namespace tempera::compress {

/// A layer that reads a tensor's channels as its input channels `first`, `first` + 1, ...: not 0 behind a Concat.
struct ChannelReader {
  Layer layer;
  std::int64_t first = 0;
};

/// A tensor x whose channels can be divided by positive factors s where it is made, and whose every reader is
/// a layer that can multiply its weights by them:   f(x / s; W s) = f(x; W).
///
/// The factors are taken up by the first of these above the tensor: weights and bias of a Conv,
/// ConvTranspose, Gemm or MatMul; scale and bias of a normalisation; the constant of a Mul or Div. On the way
/// they pass through Relu, LeakyRelu and PRelu (for s > 0: relu(x / s) = relu(x) / s), Dropout, pooling, Pad
/// by zero, Resize, a Reshape of single pixels to rows, and Add or Sub of a constant, also of one that Gathers spread along
/// other axes. Below, they pass through the same but the last, and through Concats of channels: the tensor is then one of
/// the parts.
struct ScalableTensor {
  graph::ValueId value;
  std::int64_t axis = 1;  ///< of its channels
  std::int64_t channels = 0;
  std::vector<ChannelReader> readers;
  std::optional<Layer>
      maker;  ///< the layer that takes up the factors; nothing: a normalisation or a Mul does
};

/// Every such tensor, in the order of its first reader. Weights must be constants that one node alone reads,
/// every value on the way from the maker single-use and float32, and channels must be whole.
[[nodiscard]] std::vector<ScalableTensor> find_scalable(const graph::Graph& graph);

/// Largest magnitude of the weights that make each channel of the tensor, by its maker. \param tensor  has a
/// maker
[[nodiscard]] std::vector<double> maker_ranges(const graph::Graph& graph, const ScalableTensor& tensor);

/// Largest magnitude, over all readers, of the weights that read each channel.
[[nodiscard]] std::vector<double> reader_ranges(const graph::Graph& graph, const ScalableTensor& tensor);

/// Divides the tensor's channels by `factors` and multiplies the readers' weights by them.
///
/// \param factors  one for each channel, finite and positive
/// \return false, with the graph as it was, when a constant would leave float32's range
bool scale_channels(graph::Graph& graph, const ScalableTensor& tensor, const std::vector<double>& factors);

}  // namespace tempera::compress
