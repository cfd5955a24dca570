#include "tempera/pass/weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "tempera/base/error.h"
#include "tempera/numeric/convert.h"
#include "tempera/numeric/float_format.h"

namespace tempera::pass {

using graph::DataType;
using graph::Dims;
using graph::Tensor;

std::optional<Tensor> encode_weights(DataType type, Dims dims, std::span<const double> values) {
  if (type == DataType::kFloat64) {
    return Tensor::from<double>(std::move(dims), values);
  }
  double largest = std::numeric_limits<float>::max();
  if (const numeric::FloatFormat* format = numeric::float_format(type)) {
    largest = format->max_finite();
  } else if (type != DataType::kFloat32) {
    return std::nullopt;
  }
  std::vector<float> narrow(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (std::isfinite(values[i]) && std::abs(values[i]) > largest) {
      return std::nullopt;
    }
    narrow[i] = static_cast<float>(values[i]);
  }
  Tensor::Writable made = Tensor::allocate(type, std::move(dims));
  if (made.tensor.size() != static_cast<std::int64_t>(values.size())) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{} numbers given for {}", values.size(), graph::to_string(made.tensor.dims())));
  }
  numeric::encode(type, narrow, made.bytes);
  return std::move(made.tensor);
}

namespace {

std::size_t element_bytes(const Tensor& tensor) {
  const int bits = numeric::bits_of(tensor.type());
  if (bits == 0 || bits % 8 != 0) {
    throw Error(ErrorCode::kInvalidArgument, fmt::format("elements of type {} have no whole bytes to move",
                                                         numeric::to_string(tensor.type())));
  }
  return static_cast<std::size_t>(bits / 8);
}

std::int64_t product(const Dims& dims, std::size_t from, std::size_t to) {
  std::int64_t result = 1;
  for (std::size_t i = from; i < to; ++i) {
    result *= dims[i];
  }
  return result;
}

}  // namespace

Tensor slice_tensor(const Tensor& tensor, std::int64_t axis, std::int64_t start, std::int64_t count) {
  const Dims& dims = tensor.dims();
  if (axis < 0 || axis >= tensor.rank() || start < 0 || count < 0 ||
      start + count > dims[static_cast<std::size_t>(axis)]) {
    throw Error(ErrorCode::kInvalidArgument, fmt::format("elements {} to {} of axis {} do not lie in {}", start,
                                                         start + count, axis, graph::to_string(dims)));
  }
  const auto at = static_cast<std::size_t>(axis);
  const auto inner = static_cast<std::size_t>(product(dims, at + 1, dims.size())) * element_bytes(tensor);
  const std::int64_t outer = product(dims, 0, at);
  Dims sliced = dims;
  sliced[at] = count;
  const std::size_t skip = static_cast<std::size_t>(start) * inner;
  if (outer == 1) {
    return Tensor::view(tensor.type(), std::move(sliced), {tensor.shared_bytes(), tensor.bytes().data() + skip});
  }
  Tensor::Writable made = Tensor::allocate(tensor.type(), std::move(sliced));
  const std::size_t row = static_cast<std::size_t>(count) * inner;
  const std::size_t stride = static_cast<std::size_t>(dims[at]) * inner;
  for (std::int64_t i = 0; i < outer && row > 0; ++i) {
    const auto step = static_cast<std::size_t>(i);
    std::memcpy(made.bytes.data() + step * row, tensor.bytes().data() + step * stride + skip, row);
  }
  return std::move(made.tensor);
}

Tensor concat_tensors(std::span<const Tensor> tensors, std::int64_t axis) {
  if (tensors.empty() || axis < 0 || axis >= tensors.front().rank()) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{} tensors cannot be joined along axis {}", tensors.size(), axis));
  }
  const auto at = static_cast<std::size_t>(axis);
  Dims joined = tensors.front().dims();
  joined[at] = 0;
  for (const Tensor& tensor : tensors) {
    Dims others = tensor.dims();
    const std::int64_t size = at < others.size() ? std::exchange(others[at], joined[at]) : 0;
    if (others != joined || tensor.type() != tensors.front().type()) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("{} does not fit to {} along axis {}", graph::to_string(tensor.dims()),
                              graph::to_string(tensors.front().dims()), axis));
    }
    joined[at] += size;
  }
  const auto inner = static_cast<std::size_t>(product(joined, at + 1, joined.size())) * element_bytes(tensors.front());
  const std::int64_t outer = product(joined, 0, at);
  Tensor::Writable made = Tensor::allocate(tensors.front().type(), joined);
  std::byte* target = made.bytes.data();
  for (std::int64_t i = 0; i < outer; ++i) {
    for (const Tensor& tensor : tensors) {
      const std::size_t row = static_cast<std::size_t>(tensor.dims()[at]) * inner;
      if (row > 0) {
        std::memcpy(target, tensor.bytes().data() + static_cast<std::size_t>(i) * row, row);
        target += row;
      }
    }
  }
  return std::move(made.tensor);
}

Tensor transpose_tensor(const Tensor& tensor, std::span<const std::int64_t> perm) {
  const Dims& dims = tensor.dims();
  const std::size_t rank = dims.size();
  if (perm.size() != rank) {
    throw Error(ErrorCode::kInvalidArgument, fmt::format("a permutation of {} axes cannot turn {}", perm.size(),
                                                         graph::to_string(dims)));
  }
  const std::size_t size = element_bytes(tensor);
  std::vector<std::int64_t> strides(rank, 1);
  for (std::size_t i = rank; i-- > 1;) {
    strides[i - 1] = strides[i] * dims[i];
  }
  Dims turned(rank);
  std::vector<std::int64_t> from(rank);
  for (std::size_t i = 0; i < rank; ++i) {
    turned[i] = dims.at(static_cast<std::size_t>(perm[i]));
    from[i] = strides.at(static_cast<std::size_t>(perm[i]));
  }
  Tensor::Writable made = Tensor::allocate(tensor.type(), turned);
  const std::byte* source = tensor.bytes().data();
  std::byte* target = made.bytes.data();
  std::vector<std::int64_t> index(rank, 0);
  std::int64_t offset = 0;
  for (std::int64_t left = tensor.size(); left > 0; --left) {
    std::memcpy(target, source + static_cast<std::size_t>(offset) * size, size);
    target += size;
    for (std::size_t axis = rank; axis-- > 0;) {
      offset += from[axis];
      if (++index[axis] < turned[axis]) {
        break;
      }
      offset -= from[axis] * turned[axis];
      index[axis] = 0;
    }
  }
  return std::move(made.tensor);
}

std::optional<std::vector<double>> spread_along(const Tensor& tensor, std::int64_t rank, std::int64_t axis,
                                                std::int64_t size) {
  const std::int64_t offset = rank - tensor.rank();
  if (offset < 0 || !numeric::is_float(tensor.type())) {
    return std::nullopt;
  }
  for (std::int64_t i = 0; i < tensor.rank(); ++i) {
    const std::int64_t dim = tensor.dims()[static_cast<std::size_t>(i)];
    if (dim != 1 && (i + offset != axis || dim != size)) {
      return std::nullopt;
    }
  }
  std::vector<double> values = to_doubles(tensor);
  if (values.size() == 1) {
    values.assign(static_cast<std::size_t>(size), values.front());
  }
  return values;
}

}  // namespace tempera::pass
