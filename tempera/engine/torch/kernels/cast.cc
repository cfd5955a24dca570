#include "tempera/engine/torch/kernels/cast.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <type_traits>

#include "tempera/base/error.h"
#include "tempera/engine/torch/kernels/families.h"
#include "tempera/engine/torch/kernels/unsigned64.h"

namespace tempera::engine::aten {
namespace {

/// Powers of two 2^-127 to 2^127; what lies beyond saturates, or is NaN when not asked to.
///
/// Source: OCP Microscaling 1.0, sec. 5.4.1; rounding as ONNX Cast-24's attribute `round_mode`.
float to_e8m0(float value, const CastOptions& options) {
  constexpr int kBias = 127;
  if (std::isnan(value)) {
    return value;
  }
  const float magnitude = std::fabs(value);
  if (std::isinf(magnitude)) {
    return options.saturate ? std::ldexp(1.0F, kBias) : std::numeric_limits<float>::quiet_NaN();
  }
  if (magnitude == 0.0F) {
    return std::ldexp(1.0F, -kBias);
  }
  int exponent = 0;
  const float fraction = std::frexp(magnitude, &exponent) * 2.0F;  // in [1, 2)
  exponent -= 1;
  const bool up = options.round_mode == "up" ? fraction > 1.0F : options.round_mode == "nearest" && fraction >= 1.5F;
  exponent += up ? 1 : 0;
  if (exponent > kBias) {
    return options.saturate ? std::ldexp(1.0F, kBias) : std::numeric_limits<float>::quiet_NaN();
  }
  return std::ldexp(1.0F, std::max(exponent, -kBias));
}

at::Tensor to_small_float(const at::Tensor& data, DataType to, const CastOptions& options) {
  if (to != DataType::kFloat8E8M0) {
    return round_to(data, to, options.saturate);
  }
  at::Tensor result = data.to(at::kCPU, at::kFloat).contiguous().clone();
  auto* values = result.mutable_data_ptr<float>();
  for (std::int64_t i = 0; i < result.numel(); ++i) {
    values[i] = to_e8m0(values[i], options);
  }
  return result.to(data.device());
}

/// Floats to uint64, whose upper half int64 cannot take.
at::Tensor floats_to_uint64(const at::Tensor& data) {
  const at::Tensor x = data.to(at::kDouble);
  constexpr double kTwoTo63 = 9223372036854775808.0;
  const at::Tensor upper = x.ge(kTwoTo63);
  const at::Tensor low = x.masked_fill(upper, 0.0).to(at::kLong);
  const at::Tensor high =
      x.sub(kTwoTo63).masked_fill(upper.logical_not(), 0.0).to(at::kLong).bitwise_xor(std::numeric_limits<std::int64_t>::min());
  return at::where(upper, high, low);
}

bool is_small_float(DataType type) { return numeric::is_float(type) && numeric::bits_of(type) <= 8; }

}  // namespace

Array cast(const Array& array, DataType to, const CastOptions& options) {
  if (array.type == to) {
    return array;
  }
  const at::Tensor source = array.type == DataType::kUint64 && (numeric::is_float(to)) ? to_double(array.data, array.type)
                                                                                       : array.data;
  if (is_small_float(to)) {
    return {to_small_float(source, to, options), to};
  }
  if (!numeric::is_integer(to)) {
    return {source.to(carrier(to)), to};
  }
  if (!source.is_floating_point()) {
    return {wrap(source.to(carrier(to)), to), to};
  }
  if (to == DataType::kUint64) {
    return {floats_to_uint64(source), to};
  }
  // By int64 rather than directly: a float outside a narrow type's range would be undefined.
  return {wrap(source.to(at::kLong).to(carrier(to)), to), to};
}

namespace {

template <typename T>
std::string float_text(T value) {
  if (std::isnan(value)) {
    return "NaN";
  }
  if (std::isinf(value)) {
    return value > 0 ? "INF" : "-INF";
  }
  return fmt::format("{}", value);
}

template <typename T, typename Element>
std::vector<std::string> texts(const at::Tensor& data, Element&& element) {
  std::vector<std::string> result;
  const T* values = data.const_data_ptr<T>();
  for (std::int64_t i = 0; i < data.numel(); ++i) {
    result.push_back(element(values[i]));
  }
  return result;
}

/// \throws Error{kInvalidArgument} when the text is no number or more than one
template <typename T>
T parse(const std::string& text) {
  if constexpr (std::is_floating_point_v<T>) {
    char* end = nullptr;
    const double value = std::strtod(text.c_str(), &end);  // takes INF, NaN and signs, too
    if (end != text.c_str() && *end == '\0') {
      return static_cast<T>(value);
    }
  } else {
    T value{};
    const char* first = text.c_str() + (text.starts_with('+') ? 1 : 0);
    const char* last = text.c_str() + text.size();
    const auto [end, problem] = std::from_chars(first, last, value);
    if (problem == std::errc() && end == last && first != last) {
      return value;
    }
    return static_cast<T>(parse<double>(text));  // "1e3"
  }
  throw Error(ErrorCode::kInvalidArgument, fmt::format("the string '{}' is not a number", text));
}

template <typename T>
at::Tensor parse_all(const graph::Tensor& strings, at::ScalarType type) {
  at::Tensor data = at::empty(strings.dims(), type);
  auto* to = static_cast<T*>(data.mutable_data_ptr());
  for (const std::string& text : strings.string_values()) {
    *to++ = parse<T>(text);
  }
  return data;
}

CastOptions options_of(const KernelContext& context, const std::string& round_mode) {
  return {.saturate = context.integer("saturate", 1) != 0, .round_mode = round_mode};
}

Value cast_value(const KernelContext& context, const Value& value, DataType to) {
  const std::string round_mode = context.text("round_mode", "up");
  const CastOptions options = options_of(context, round_mode);
  if (const graph::Tensor* strings = value.strings()) {
    return to == DataType::kString ? value : Value(cast_from_strings(*strings, to, options));
  }
  const Array& array = context.array(0);
  return to == DataType::kString ? Value(cast_to_strings(array)) : Value(cast(array, to, options));
}

void cast_kernel(KernelContext& context) {
  // Before opset 6 the type was given by name.
  DataType to = DataType::kUndefined;
  if (const auto* name = [&]() -> const std::string* {
        const auto found = context.node().attributes.find("to");
        return found == context.node().attributes.end() ? nullptr : std::get_if<std::string>(&found->second);
      }()) {
    to = numeric::data_type_from_string(*name).value_or(DataType::kUndefined);
  } else if (const std::int64_t number = context.integer("to", 0); numeric::is_known(static_cast<int>(number))) {
    to = static_cast<DataType>(number);
  }
  if (to == DataType::kUndefined) {
    context.fail("attribute 'to' names no data type");
  }
  context.set(0, cast_value(context, context.value(0), to));
}

void cast_like(KernelContext& context) {
  const Value& target = context.value(1);
  context.set(0, cast_value(context, context.value(0), target.strings() != nullptr ? DataType::kString : context.type(1)));
}

/// The same bits under another type of the same width.
void bit_cast(KernelContext& context) {
  const auto to = static_cast<DataType>(context.integer("to", 0));
  const graph::Tensor source = to_tensor(context.value(0));
  if (!numeric::is_known(static_cast<int>(to)) || numeric::bits_of(to) != numeric::bits_of(source.type())) {
    context.fail(fmt::format("the bits of {} cannot be read as {}: the widths differ", numeric::to_string(source.type()),
                             numeric::to_string(to)));
  }
  context.set(0, to_value(graph::Tensor::from_bytes(to, source.dims(), source.bytes()), context.device()));
}

constexpr Kernel kKernels[] = {
    {"BitCast", bit_cast},
    {"Cast", cast_kernel},
    {"CastLike", cast_like},
};

}  // namespace

graph::Tensor cast_to_strings(const Array& array) {
  const at::Tensor data = array.data.to(at::kCPU).contiguous();
  std::vector<std::string> result;
  if (array.type == DataType::kBool) {
    result = texts<bool>(data, [](bool x) { return std::string(x ? "True" : "False"); });
  } else if (array.type == DataType::kFloat64) {
    result = texts<double>(data, float_text<double>);
  } else if (numeric::is_float(array.type)) {
    result = texts<float>(data.to(at::kFloat), float_text<float>);
  } else if (array.type == DataType::kUint64) {
    result = texts<std::int64_t>(data, [](std::int64_t x) { return fmt::format("{}", static_cast<std::uint64_t>(x)); });
  } else {
    result = texts<std::int64_t>(data.to(at::kLong), [](std::int64_t x) { return fmt::format("{}", x); });
  }
  return graph::Tensor::strings(array.data.sizes().vec(), std::move(result));
}

Array cast_from_strings(const graph::Tensor& strings, DataType to, const CastOptions& options) {
  if (to == DataType::kUint64) {
    return {parse_all<std::uint64_t>(strings, at::kLong), to};
  }
  if (numeric::is_integer(to) || to == DataType::kBool) {
    return cast({parse_all<std::int64_t>(strings, at::kLong), DataType::kInt64}, to, options);
  }
  if (to == DataType::kFloat64) {
    return {parse_all<double>(strings, at::kDouble), to};
  }
  return cast({parse_all<float>(strings, at::kFloat), DataType::kFloat32}, to, options);
}

std::span<const Kernel> cast_kernels() { return kKernels; }

}  // namespace tempera::engine::aten
