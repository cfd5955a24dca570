#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tempera/compress/quantize/layers.h"
#include "tempera/compress/quantize/plan.h"
#include "tempera/compress/quantize/quantize.h"
#include "tempera/graph/graph.h"

namespace tempera::compress {

/// Whether each element of the node's one output is an element of its input 0, or zero, so that quantising
/// before comes to the same as after: Reshape, Transpose, MaxPool, Pad by zero, nearest Resize, ...
[[nodiscard]] bool only_moves_values(const graph::Graph& graph, graph::NodeId id);

/// Why a layer is better left in float than given quantised activations, before anything is measured on the
/// model at hand; empty: quantise it. What `quantize --scheme int8` starts from; a search may know better.
///
///  - A depthwise convolution (one input channel a group): each of its channels needs a range of its own, and
///  it is bound by
///    memory. EfficientNet-Lite0, OpenVINO 2026.4 with AMX, samples of other photos: 17.7 dB with all layers
///    in int8, 20.5 with the 16 depthwise ones in float.
///  - openvino: a ConvTranspose with several groups runs in a float kernel all the same (brgconv_avx512_f32,
///  by the profile).
[[nodiscard]] std::string reason_to_stay_float(const graph::Graph& graph, const Layer& layer, Target target);

/// A tensor that is quantised and decoded again, for some of its readers.
struct QuantizedTensor {
  graph::ValueId value;
  ActivationFormat format = ActivationFormat::kInt8;
  std::size_t group = 0;   ///< tensors of one group share one scale (the parts of a Concat)
  bool symmetric = false;  ///< a layer reads it whose kernel takes no zero point
  std::vector<graph::Use>
      readers;  ///< node inputs that read the decoded tensor; all others read the float one
};

/// Where QuantizeLinear and DequantizeLinear stand for a plan.
struct Placement {
  std::vector<QuantizedTensor> tensors;  ///< each value at most once a format, in order of creation
};

/// Finds where to quantise the inputs of the planned layers.
///
/// The pair stands on the layer's own input, hence after the Relu or Clip that makes it, and once for all
/// layers that read it. But for onnxruntime, whose kernels want it next to them, it moves up through
/// operators that only move values (Pad by zero, MaxPool, Reshape, Transpose, nearest Resize, ...; not above the pool of an input), where
/// every reader of the moved value is quantised too: the codes then move in place of floats, and a zero pad
/// stays exact. Through a Concat it moves likewise, and the parts share one scale, so that codes are joined
/// without recoding. With `options.join_codes` the parts of every Concat that reads a planned layer are
/// quantised, whoever reads the whole; a part that is itself such a Concat needs no codes of its own.
///
/// Further, by target:
///  - onnxruntime: outputs of planned layers (after their Relu or Clip), since its integer kernels write
///  codes; all readers
///    then read the decoded tensor. Graph outputs stay float.
///  - tensorrt: the other operand of an Add that reads a planned convolution, so that the addition fuses into
///  the
///    convolution; of two planned convolutions the one that comes first.
///
/// Measured on OpenVINO 2026.4 with AMX, by kernels chosen: convolutions (also 3-D, grouped, depthwise),
/// MatMul and Gemm by weights run in integers for any zero point; ConvTranspose and MatMul of two activations
/// fall back to float kernels, 10 and 3 times slower, when there is one: their inputs are marked symmetric.
///
/// \param layers  those of the plan whose activations are quantised
[[nodiscard]] Placement place(const graph::Graph& graph, const std::vector<Layer>& layers,
                              const std::vector<ActivationFormat>& formats, const QuantizeOptions& options);

}  // namespace tempera::compress
