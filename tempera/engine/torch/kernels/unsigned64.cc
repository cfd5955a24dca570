#include "tempera/engine/torch/kernels/unsigned64.h"

#include <ATen/ATen.h>

#include <bit>
#include <limits>
#include <vector>

namespace tempera::engine::aten {

at::Tensor order_key(const at::Tensor& data, DataType type) {
  return type == DataType::kUint64 ? data.bitwise_xor(std::numeric_limits<std::int64_t>::min()) : data;
}

at::Tensor map_uint64(const at::Tensor& a, const at::Tensor& b,
                      std::uint64_t (*function)(std::uint64_t a, std::uint64_t b)) {
  const std::vector<at::Tensor> pair = at::broadcast_tensors({a.to(at::kCPU), b.to(at::kCPU)});
  const at::Tensor left = pair[0].contiguous();
  const at::Tensor right = pair[1].contiguous();
  at::Tensor result = at::empty_like(left);
  const auto* x = left.const_data_ptr<std::int64_t>();
  const auto* y = right.const_data_ptr<std::int64_t>();
  auto* z = result.mutable_data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < result.numel(); ++i) {
    z[i] = std::bit_cast<std::int64_t>(function(std::bit_cast<std::uint64_t>(x[i]), std::bit_cast<std::uint64_t>(y[i])));
  }
  return result.to(a.device());
}

at::Tensor to_double(const at::Tensor& data, DataType type) {
  if (type != DataType::kUint64) {
    return data.to(at::kDouble);
  }
  const at::Tensor source = data.to(at::kCPU).contiguous();
  at::Tensor result = at::empty(source.sizes(), at::kDouble);
  const auto* from = source.const_data_ptr<std::int64_t>();
  auto* to = result.mutable_data_ptr<double>();
  for (std::int64_t i = 0; i < source.numel(); ++i) {
    to[i] = static_cast<double>(std::bit_cast<std::uint64_t>(from[i]));
  }
  return result.to(data.device());
}

}  // namespace tempera::engine::aten
