#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tempera/compress/quantize/gptq.h"
#include "tempera/compress/quantize/plan.h"
#include "tempera/compress/quantize/scale_search.h"
#include "tempera/compress/quantize/weight_view.h"
#include "tempera/numeric/data_type.h"

namespace tempera::compress {

using numeric::DataType;

/// What a format with scales stores for one weight, as an unsigned code.
///
///   integers   level = code - offset          int8, int4, int2: whole numbers; ternary: -1, 0, 1
///   binary     level = 2 code - 1
///   fp8        level = the value of the code
///
/// and weight = scale level.
struct CodeBook {
  int bits = 8;
  int offset = 0;
  Levels levels;                          ///< integers and ternary
  DataType type = DataType::kUndefined;   ///< the ONNX type that holds such codes; kUndefined: none before opset 25
};

/// \param format  one with scales: not kFloat, kFloat16 or kBfloat16
[[nodiscard]] const CodeBook& code_book(WeightFormat format);
[[nodiscard]] bool has_scales(WeightFormat format);

/// The level of each of the 2^bits codes; a code that no level has reads as 0.
[[nodiscard]] std::vector<float> level_table(WeightFormat format);

/// A weight as codes and scales. weight[r][c] = scales[r, c / block] level(codes[r][c])
struct EncodedWeight {
  WeightFormat format = WeightFormat::kInt8;
  WeightView view;
  std::int64_t block = 0;            ///< columns that share a scale; 0: one scale for the whole weight
  std::vector<std::uint8_t> codes;   ///< [rows, columns]
  std::vector<float> scales;         ///< [rows, blocks()], or one; exact in scale_type
  DataType scale_type = DataType::kFloat32;
  double relative_l2 = 0.0;          ///< |decoded - weight| / |weight|; 0 for a weight of zeros

  [[nodiscard]] std::int64_t blocks() const;  ///< scales of a row
  [[nodiscard]] std::int64_t bytes() const;   ///< codes packed, and scales
  [[nodiscard]] float scale_of(std::int64_t row, std::int64_t column) const;
};

struct EncodeOptions {
  bool search = true;     ///< clip factors by least squared error; false: the largest magnitude alone
  int int8_limit = 127;   ///< int8 codes are -limit..limit; 63 where uint8 x int8 sums saturate
  const Hessian* hessian = nullptr;  ///< of the layer's inputs: codes are then chosen by GPTQ; null: each by itself
};

/// Encodes a matrix of finite numbers.
///
/// Scales are float16 where a code has at most 4 bits (float32 when one of them is beyond float16's normal range), else
/// float32; codes are chosen for the scales as rounded. A row of zeros decodes to exact zeros.
///
/// \param matrix  [view.rows, view.columns]
/// \throws Error{kInvalidArgument} for a block below 1
[[nodiscard]] EncodedWeight encode_weight(const WeightView& view, std::span<const float> matrix, WeightFormat format,
                                          const Granularity& granularity, const EncodeOptions& options = {});

/// The matrix as it will be read: [rows, columns].
[[nodiscard]] std::vector<float> decode_weight(const EncodedWeight& weight);

}  // namespace tempera::compress
