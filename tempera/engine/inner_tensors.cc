#include "tempera/engine/inner_tensors.h"

#include "tempera/graph/tensor.h"
#include "tempera/numeric/data_type.h"

namespace tempera::engine {

std::int64_t bytes_estimate(const graph::ValueType& type) {
  constexpr std::int64_t kUnknownBytes = 16 << 20;
  const auto dims = type.dims();
  if (!type.is_tensor() || !dims || numeric::bits_of(type.element) == 0) {
    return kUnknownBytes;
  }
  return static_cast<std::int64_t>(numeric::bytes_of(type.element, graph::element_count(*dims)));
}

}  // namespace tempera::engine
