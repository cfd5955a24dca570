#include "tempera/data/convert.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include <fmt/format.h>

#include "tempera/base/error.h"
#include "tempera/data/dataset.h"
#include "tempera/graph/elements.h"
#include "tempera/numeric/convert.h"

namespace tempera::data {
namespace {

using graph::DataType;
using graph::Dims;
using graph::Tensor;

/// "[0,3,7]" for element number `flat`.
std::string index_text(const Dims& dims, std::size_t flat) {
  return graph::to_string(graph::index_of(static_cast<std::int64_t>(flat), dims));
}

struct Limits {
  std::int64_t min = 0;
  std::int64_t max = 0;
};

template <typename T>
constexpr Limits limits_of() {
  return {std::numeric_limits<T>::min(), std::numeric_limits<T>::max()};
}

/// Range of the whole-number types of 8 bits and more, uint64 up to the largest int64; {0, 1} for booleans.
Limits limits(DataType type) {
  switch (type) {
    case DataType::kBool: return {0, 1};
    case DataType::kInt8: return limits_of<std::int8_t>();
    case DataType::kUint8: return limits_of<std::uint8_t>();
    case DataType::kInt16: return limits_of<std::int16_t>();
    case DataType::kUint16: return limits_of<std::uint16_t>();
    case DataType::kInt32: return limits_of<std::int32_t>();
    case DataType::kUint32: return limits_of<std::uint32_t>();
    case DataType::kInt64: return limits_of<std::int64_t>();
    case DataType::kUint64: return {0, std::numeric_limits<std::int64_t>::max()};
    default: return {0, 0};
  }
}

bool is_whole(DataType type) { return limits(type).max != 0; }

/// Stores the low bytes of `value`, which is in the type's range (two's complement, little-endian).
void store(std::int64_t value, std::span<std::byte> element) {
  std::memcpy(element.data(), &value, element.size());
}

Tensor to_whole(const Tensor& tensor, DataType type, Rounding rounding, const std::string& what) {
  const Limits range = limits(type);
  const std::size_t width = numeric::bytes_of(type, 1);
  Tensor::Writable out = Tensor::allocate(type, tensor.dims());
  const auto fail = [&](std::size_t i, const std::string& value) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{}: element {} is {}, which {} cannot hold", what, index_text(tensor.dims(), i),
                            value, numeric::to_string(type)));
  };
  if (is_whole(tensor.type()) && tensor.type() != DataType::kUint64) {
    const std::vector<std::int64_t> values = graph::to_int64s(tensor);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::int64_t inside = std::clamp(values[i], range.min, range.max);
      if (inside != values[i] && rounding == Rounding::kExact) {
        fail(i, fmt::format("{}", values[i]));
      }
      store(inside, out.bytes.subspan(i * width, width));
    }
    return std::move(out.tensor);
  }
  const std::vector<double> values = graph::to_doubles(tensor);
  constexpr double kExactIn64 = 0x1p63;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double nearest = std::nearbyint(values[i]);
    const bool exact = nearest == values[i] && std::abs(nearest) < kExactIn64 &&
                       nearest >= static_cast<double>(range.min) && nearest <= static_cast<double>(range.max);
    if (!exact && (rounding == Rounding::kExact || !std::isfinite(nearest))) {
      fail(i, fmt::format("{}", values[i]));
    }
    const double inside = std::clamp(nearest, static_cast<double>(range.min), static_cast<double>(range.max));
    const bool at_top = inside >= kExactIn64;
    store(at_top ? range.max : static_cast<std::int64_t>(inside), out.bytes.subspan(i * width, width));
  }
  return std::move(out.tensor);
}

}  // namespace

Tensor cast(const Tensor& tensor, DataType type, Rounding rounding, const std::string& what) {
  if (tensor.type() == type) {
    return tensor;
  }
  const bool numbers = numeric::is_float(tensor.type()) || is_whole(tensor.type());
  if (!numbers || (!numeric::is_float(type) && !is_whole(type))) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{}: {} values cannot become {}", what, numeric::to_string(tensor.type()),
                            numeric::to_string(type)));
  }
  if (is_whole(type)) {
    return to_whole(tensor, type, rounding, what);
  }
  const std::vector<double> values = graph::to_doubles(tensor);
  if (type == DataType::kFloat64) {
    return Tensor::from<double>(tensor.dims(), std::span<const double>(values));
  }
  std::vector<float> narrow(values.size());
  std::transform(values.begin(), values.end(), narrow.begin(),
                 [](double value) { return static_cast<float>(value); });
  if (type == DataType::kFloat32) {
    return Tensor::from<float>(tensor.dims(), std::span<const float>(narrow));
  }
  Tensor::Writable out = Tensor::allocate(type, tensor.dims());
  numeric::encode(type, narrow, out.bytes, numeric::Overflow::kInfinity);
  return std::move(out.tensor);
}

void require_shape(const Dims& dims, const graph::ValueType& type, const std::string& what,
                   const std::string& input) {
  if (!type.shape) {
    return;
  }
  bool fits = type.shape->size() == dims.size();
  for (std::size_t i = 0; fits && i < dims.size(); ++i) {
    fits = !(*type.shape)[i].fixed() || (*type.shape)[i].value == dims[i];
  }
  if (!fits) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{}: dimensions {} do not fit '{}', which is {}", what, graph::to_string(dims),
                            input, graph::to_string(type)));
  }
}

void require_finite(const Tensor& tensor, const std::string& what) {
  if (!numeric::is_float(tensor.type())) {
    return;
  }
  const std::vector<double> values = graph::to_doubles(tensor);
  const auto bad =
      std::find_if_not(values.begin(), values.end(), [](double value) { return std::isfinite(value); });
  if (bad != values.end()) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{}: element {} is {}", what,
                            index_text(tensor.dims(), static_cast<std::size_t>(bad - values.begin())), *bad),
                "leave the file out, or repair it");
  }
}

Tensor slice_leading(const Tensor& tensor, std::int64_t i, bool drop_axis) {
  Dims dims = tensor.dims();
  TEMPERA_CHECK(!dims.empty() && i >= 0 && i < dims[0], "a slice lies inside its tensor");
  if (drop_axis) {
    dims.erase(dims.begin());
  } else {
    dims[0] = 1;
  }
  const std::int64_t count = graph::element_count(dims);
  if (tensor.type() == DataType::kString) {
    const auto all =
        tensor.string_values().subspan(static_cast<std::size_t>(i * count), static_cast<std::size_t>(count));
    return Tensor::strings(std::move(dims), {all.begin(), all.end()});
  }
  const std::size_t size = numeric::bytes_of(tensor.type(), count);
  const std::shared_ptr<const std::byte>& bytes = tensor.shared_bytes();
  return Tensor::view(tensor.type(), std::move(dims),
                      {bytes, bytes.get() + static_cast<std::size_t>(i) * size});
}

}  // namespace tempera::data
