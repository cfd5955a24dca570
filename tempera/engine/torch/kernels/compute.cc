#include "tempera/engine/torch/kernels/compute.h"

#include <ATen/ATen.h>

#include "tempera/base/error.h"

namespace tempera::engine::aten {

at::ScalarType compute_type(at::ScalarType type) {
  return type == at::kHalf || type == at::kBFloat16 ? at::kFloat : type;
}

at::Tensor widened(const at::Tensor& x) { return x.to(compute_type(x.scalar_type())); }

std::pair<std::int64_t, std::int64_t> integer_range(DataType type) {
  const int bits = numeric::bits_of(type);
  TEMPERA_CHECK(numeric::is_integer(type) && bits <= 32, "an integer type of at most 32 bits is asked for");
  switch (type) {
    case DataType::kInt8:
    case DataType::kInt16:
    case DataType::kInt32:
    case DataType::kInt4:
    case DataType::kInt2: return {-(std::int64_t{1} << (bits - 1)), (std::int64_t{1} << (bits - 1)) - 1};
    default: return {0, (std::int64_t{1} << bits) - 1};
  }
}

at::Tensor round_saturate(const at::Tensor& x, DataType type) {
  const auto [lowest, highest] = integer_range(type);
  // In double every bound up to 32 bits is a value, so the cast cannot overflow.
  return at::nan_to_num(x.to(at::kDouble).round(), 0.0, static_cast<double>(highest),
                        static_cast<double>(lowest))
      .clamp(lowest, highest)
      .to(carrier(type));
}

at::Tensor quantized(const at::Tensor& x, DataType type, bool saturate) {
  return numeric::is_float(type) ? round_to(x, type, saturate) : round_saturate(x, type);
}

at::Tensor along_axis(const at::Tensor& v, std::int64_t axis, std::int64_t rank) {
  std::vector<std::int64_t> shape(static_cast<std::size_t>(rank), 1);
  shape[static_cast<std::size_t>(axis)] = v.numel();
  return v.reshape(shape);
}

}  // namespace tempera::engine::aten
