#include "tempera/engine/engine.h"

namespace tempera::engine {

std::string_view to_string(Precision precision) {
  switch (precision) {
    case Precision::kFloat32: return "f32";
    case Precision::kBfloat16: return "bf16";
    case Precision::kFloat16: return "f16";
  }
  return "f32";
}

std::optional<Precision> precision_from_string(std::string_view name) {
  for (const Precision precision : {Precision::kFloat32, Precision::kBfloat16, Precision::kFloat16}) {
    if (to_string(precision) == name) {
      return precision;
    }
  }
  return std::nullopt;
}

}  // namespace tempera::engine
