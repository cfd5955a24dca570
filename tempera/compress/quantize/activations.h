#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tempera/compress/calibrate/calibrate.h"
#include "tempera/compress/quantize/plan.h"
#include "tempera/compress/quantize/quantize.h"
#include "tempera/graph/model.h"

/// The half of quantize() that quantises activations: every layer of a plan whose `activations` are not
/// float.
namespace tempera::compress {

/// Lowest opset of ai.onnx that the plan's activations need, 0 when it has none: 13 for int8 (per-axis
/// weights), 19 for fp8 and for activations in float16 or bfloat16.
[[nodiscard]] std::int64_t opset_for_activations(const graph::Model& model, const QuantizationPlan& plan);

/// Puts QuantizeLinear and DequantizeLinear before the planned layers (where: placement.h), and their weights
/// in int8 or fp8 behind a DequantizeLinear. Layers whose weights have another format get the activation side
/// alone; their weights are left to the caller.
///
///   activation  x ~ s (q - z), per tensor.  int8 codes by target:
///     openvino, portable  uint8 with any z; int8 with z = 0 where the range is negative and a reader takes
///     no zero point onnxruntime         uint8 with any z tensorrt            int8 with z = 0
///   weight      w ~ s[c] q, q in -127..127 (seven_bit_weights: -63..63), s per output channel;
///               per tensor for a ConvTranspose on tensorrt
///   bias        float; on onnxruntime int32 with the scale s_x s_w[c] its kernels expect. Where it would not
///   fit 31 bits,
///               s_w[c] grows until it does
///
/// A weight that other nodes read too is decoded for all of them, so that a layer and its transposed
/// counterpart in a backward part (forces as the gradient of an energy) keep one weight; layers with one
/// weight and different input scales share the codes and have their own bias.
///
/// \param model        with types inferred and an opset of at least opset_for_activations(); changed in place
/// \param calibration  ranges of activation_tensors()
/// \return one record for each layer of the plan whose activations are not float, in the graph's order
/// \throws Error{kInvalidArgument} naming a tensor without a range or with one that is not finite
///
/// Source: ONNX QuantizeLinear-13, -19, -21; Jacob et al. 2018, arXiv:1712.05877, eq. 1 and sec. 2.4 (bias).
[[nodiscard]] std::vector<LayerRecord> quantize_activations(graph::Model& model, const QuantizationPlan& plan,
                                                            const Calibration& calibration,
                                                            const QuantizeOptions& options);

}  // namespace tempera::compress
