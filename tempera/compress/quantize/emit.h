#pragma once

#include <cstdint>
#include <string>

#include "tempera/compress/quantize/encode.h"
#include "tempera/compress/quantize/quantize.h"
#include "tempera/graph/graph.h"

namespace tempera::compress {

/// How the codes of a weight stand in a file.
enum class StoredForm : std::uint8_t {
  kDequantize,        ///< DequantizeLinear with one scale, or one for each element of an axis
  kDequantizeBlocks,  ///< DequantizeLinear with `block_size`
  kPacked,            ///< uint8, unpacked by arithmetic
  kTable,             ///< uint8, looked up in a table of 256 numbers: fp8 for readers that lack the type
};

/// The form for a weight, and the least opset that has it.
///
///   int8              kDequantize (13), in blocks kDequantizeBlocks (21)
///   int4              kDequantize, kDequantizeBlocks (21)
///   fp8               kDequantize (19), in blocks kDequantizeBlocks (21)
///   int2, ternary, binary                         kPacked (13)
///   for older readers: int4, and int8 in blocks   kPacked (13); fp8 kTable (13)
///
/// Blocks that do not fill a row are packed too: the standard allows a shorter last block, but OpenVINO 2026.4 refuses
/// it. Only for onnxruntime such a weight stays with DequantizeLinear.
struct StoredFormat {
  StoredForm form = StoredForm::kPacked;
  std::int64_t opset = 13;
  /// Codes with a scale for each element of an axis lie [rows, columns] and are transposed back, else as the weight does.
  /// Given a [K, N] weight as it lies, ONNX Runtime from its EXTENDED level on multiplies it with activations in 8 bits (0.6 %
  /// of relative L2 on normal numbers); behind a Transpose it does not. Only for onnxruntime, where that is its fast path, a
  /// weight stays as it lies.
  bool rows_first = true;
};
[[nodiscard]] StoredFormat stored_format(const WeightView& view, WeightFormat format, const Granularity& granularity,
                                         const QuantizeOptions& options);

/// Adds the stored weight and the nodes that decode it.
///
/// Scales kept as float16 are cast to float32 before they multiply, so every engine decodes the same numbers to the last
/// bit. Matrices stand with the summed axis last and are transposed back: ONNX Runtime reads blocks along axis 0
/// inexactly.
///
///   packed: p uint8 [bytes, 1] -> Cast -> Mul by 2^(-b k) -> Floor = f -> Sub 2^b Floor(2^-b f) -> level -> Mul scale
///
/// \param opset  of ai.onnx in `graph`, at least that of stored_format
/// \param type   element type of the weight
/// \param name   of the weight: new initialisers are called NAME_quantized and NAME_scale
/// \return a value of the weight's dimensions and type
graph::ValueId emit_weight(graph::Graph& graph, std::int64_t opset, const EncodedWeight& weight,
                           const StoredFormat& stored, DataType type, const std::string& name);

}  // namespace tempera::compress
