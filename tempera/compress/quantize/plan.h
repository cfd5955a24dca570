#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tempera::compress {

/// How the weights of a layer are stored.
enum class WeightFormat : std::uint8_t {
  kFloat,    ///< left as they are
  kFloat16,  ///< stored in half precision, converted when read
  kBfloat16,
  kFloat8E4M3FN,
  kFloat8E5M2,
  kInt8,     ///< symmetric, -127..127
  kInt4,
  kInt2,
  kTernary,  ///< {-1, 0, 1} * scale, 2 bits each
  kBinary,   ///< {-1, 1} * scale, 1 bit each
};

[[nodiscard]] std::string_view to_string(WeightFormat format);  ///< "float", "f16", "int8", "ternary", ...
[[nodiscard]] std::optional<WeightFormat> weight_format_from_string(std::string_view name);

/// Which weights share a scale.
struct Granularity {
  enum class Kind : std::uint8_t { kTensor, kAxis, kBlock };
  Kind kind = Kind::kAxis;  ///< kAxis: one for each output channel
  std::int64_t block = 64;  ///< kBlock: consecutive weights along the reduced axis; the last may be shorter
};

/// How a layer's input activations are computed.
enum class ActivationFormat : std::uint8_t {
  kFloat,
  kInt8,    ///< uint8 or int8 by the tensor's range, per tensor, asymmetric
  kFloat8,  ///< e4m3fn per tensor
};

/// What becomes of one layer.
struct LayerFormat {
  WeightFormat weights = WeightFormat::kFloat;
  Granularity granularity = {};
  ActivationFormat activations = ActivationFormat::kFloat;

  [[nodiscard]] std::string to_string() const;  ///< "int8 x int8", "int4/64", "float"
};

/// Format of each layer by the layer's name (layers.h); one that is not named stays as it is.
using QuantizationPlan = std::map<std::string, LayerFormat, std::less<>>;

}  // namespace tempera::compress
