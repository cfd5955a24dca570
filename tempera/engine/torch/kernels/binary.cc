/// Operators of two or more inputs, element by element, broadcast as in NumPy.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include "tempera/engine/torch/kernels/families.h"
#include "tempera/engine/torch/kernels/unsigned64.h"

namespace tempera::engine::aten {
namespace {

/// Input 1, laid out for broadcasting against input 0: before opset 7, attributes `broadcast` and `axis` said where the
/// second operand's dimensions lie among the first one's.
at::Tensor second(const KernelContext& context) {
  const at::Tensor& a = context.tensor(0);
  const at::Tensor& b = context.tensor(1);
  if (context.opset() >= 7 || context.integer("broadcast", 0) == 0 || !context.has_attribute("axis")) {
    return b;
  }
  std::vector<std::int64_t> dims = b.sizes().vec();
  const std::int64_t trailing = a.dim() - context.axis(context.integer("axis", 0), a.dim()) - b.dim();
  for (std::int64_t i = 0; i < trailing; ++i) {
    dims.push_back(1);
  }
  return b.reshape(dims);
}

/// Both inputs of one type. \throws Error{kBadModel} otherwise
DataType common_type(const KernelContext& context) {
  const DataType type = context.type(0);
  for (std::size_t i = 1; i < context.input_count(); ++i) {
    if (context.has(i) && context.type(i) != type) {
      context.fail(fmt::format("input {} is {}, expected {} as input 0", i, numeric::to_string(context.type(i)),
                               numeric::to_string(type)));
    }
  }
  return type;
}

using Function = at::Tensor (*)(const at::Tensor&, const at::Tensor&);

at::Tensor add(const at::Tensor& a, const at::Tensor& b) { return at::add(a, b); }
at::Tensor subtract(const at::Tensor& a, const at::Tensor& b) { return at::sub(a, b); }
at::Tensor multiply(const at::Tensor& a, const at::Tensor& b) { return at::mul(a, b); }

template <Function function>
void arithmetic(KernelContext& context) {
  const DataType type = common_type(context);
  context.set(0, wrap(function(context.tensor(0), second(context)), type), type);
}

// -- division ------------------------------------------------------------------------------------------------------------

/// Integer quotients truncate as in C. A divisor of -1 is taken apart: the smallest integer over -1 traps on x86.
at::Tensor divide_integers(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor minus_one = b.eq(-1);
  return at::where(minus_one, at::neg(a), at::div(a, b.masked_fill(minus_one, 1), "trunc"));
}

void require_no_zero(const KernelContext& context, const at::Tensor& divisor) {
  if (divisor.eq(0).any().item<bool>()) {
    context.fail("integer division by zero");
  }
}

void divide(KernelContext& context) {
  const DataType type = common_type(context);
  const at::Tensor& a = context.tensor(0);
  const at::Tensor b = second(context);
  if (numeric::is_float(type) || a.is_complex()) {
    context.set(0, wrap(at::div(a, b), type), type);
    return;
  }
  require_no_zero(context, b);
  if (type == DataType::kUint64) {
    context.set(0, map_uint64(a, b, [](std::uint64_t x, std::uint64_t y) { return x / y; }), type);
  } else if (b.scalar_type() == at::kByte) {
    context.set(0, at::div(a, b, "trunc"), type);
  } else {
    context.set(0, wrap(divide_integers(a, b), type), type);
  }
}

/// fmod = 0: the sign of the divisor, as in Python; fmod = 1: the sign of the dividend, as in C.
void modulo(KernelContext& context) {
  const DataType type = common_type(context);
  const at::Tensor& a = context.tensor(0);
  const at::Tensor& b = context.tensor(1);
  const bool c_style = context.integer("fmod", 0) != 0;
  if (!numeric::is_float(type)) {
    require_no_zero(context, b);
  }
  if (type == DataType::kUint64) {
    context.set(0, map_uint64(a, b, [](std::uint64_t x, std::uint64_t y) { return x % y; }), type);
    return;
  }
  // The smallest integer modulo -1 traps on x86; modulo 1 is 0 as well.
  const at::Tensor divisor = numeric::is_float(type) || b.scalar_type() == at::kByte ? b : b.masked_fill(b.eq(-1), 1);
  context.set(0, c_style ? at::fmod(a, divisor) : at::remainder(a, divisor), type);
}

// -- powers --------------------------------------------------------------------------------------------------------------

/// The result has the base's type; integer powers of integers are exact, other mixed ones go through double.
void power(KernelContext& context) {
  const Array& base = context.array(0);
  const Array& exponent = context.array(1);
  at::Tensor y = second(context);
  if (numeric::is_float(base.type)) {
    if (numeric::is_float(exponent.type) && numeric::bits_of(exponent.type) <= numeric::bits_of(base.type)) {
      context.set(0, at::pow(base.data, y.to(base.data.scalar_type())), base.type);
    } else {
      const at::Tensor result = at::pow(base.data.to(at::kDouble), to_double(y, exponent.type));
      context.set(0, result.to(base.data.scalar_type()), base.type);
    }
    return;
  }
  if (numeric::is_integer(exponent.type)) {
    context.set(0, wrap(at::pow(base.data.to(at::kLong), y.to(at::kLong)).to(base.data.scalar_type()), base.type),
                base.type);
  } else {
    const at::Tensor result = at::pow(to_double(base.data, base.type), y.to(at::kDouble));
    context.set(0, wrap(result.to(at::kLong).to(base.data.scalar_type()), base.type), base.type);
  }
}

// -- comparison and logic ------------------------------------------------------------------------------------------------

template <Function function>
void compare(KernelContext& context) {
  const DataType type = common_type(context);
  context.set(0, function(order_key(context.tensor(0), type), order_key(second(context), type)));
}

void equal(KernelContext& context) {
  if (context.value(0).strings() == nullptr) {
    compare<at::eq>(context);
    return;
  }
  // Strings are few: compared through their positions, broadcast.
  const graph::Tensor& a = context.strings(0);
  const graph::Tensor& b = context.strings(1);
  const std::vector<at::Tensor> index = at::broadcast_tensors(
      {at::arange(a.size(), at::kLong).reshape(a.dims()), at::arange(b.size(), at::kLong).reshape(b.dims())});
  const at::Tensor left = index[0].contiguous();
  const at::Tensor right = index[1].contiguous();
  at::Tensor result = at::empty(left.sizes(), at::kBool);
  for (std::int64_t i = 0; i < result.numel(); ++i) {
    const auto x = static_cast<std::size_t>(left.const_data_ptr<std::int64_t>()[i]);
    const auto y = static_cast<std::size_t>(right.const_data_ptr<std::int64_t>()[i]);
    result.mutable_data_ptr<bool>()[i] = a.string_values()[x] == b.string_values()[y];
  }
  context.set(0, result);
}

template <Function function>
void logical(KernelContext& context) {
  context.set(0, function(context.tensor(0), second(context)));
}

/// A shift of at least the width leaves nothing but a negative number's sign.
void bit_shift(KernelContext& context) {
  const DataType type = common_type(context);
  const at::Tensor& x = context.tensor(0);
  const at::Tensor& count = context.tensor(1);
  const std::string direction = context.text("direction", "");
  if (direction != "LEFT" && direction != "RIGHT") {
    context.fail(fmt::format("attribute 'direction' is '{}', expected LEFT or RIGHT", direction));
  }
  const bool left = direction == "LEFT";
  if (type == DataType::kUint64) {
    context.set(0, left ? map_uint64(x, count, [](std::uint64_t a, std::uint64_t b) { return b < 64 ? a << b : 0; })
                        : map_uint64(x, count, [](std::uint64_t a, std::uint64_t b) { return b < 64 ? a >> b : 0; }),
                type);
    return;
  }
  const at::Tensor wide = x.to(at::kLong);
  const at::Tensor by = count.to(at::kLong);
  const std::int64_t width = numeric::bits_of(type);
  const at::Tensor too_far = by.ge(width);
  const at::Tensor safe = at::where(too_far, at::full_like(by, width - 1), by);
  // Shifted to the right, an integer of either sign runs out at its sign: one step more from width - 1 changes nothing
  // of a signed one, and clears an unsigned one.
  const at::Tensor shifted = left ? at::bitwise_left_shift(wide, safe) : at::bitwise_right_shift(wide, safe);
  const at::Tensor last = left ? at::zeros_like(shifted) : at::bitwise_right_shift(shifted, 1);
  const at::Tensor cut = at::where(too_far, last, shifted);
  context.set(0, wrap(cut.to(x.scalar_type()), type), type);
}

// -- any number of inputs ------------------------------------------------------------------------------------------------

template <Function function>
at::Tensor accumulate(const KernelContext& context) {
  const DataType type = common_type(context);
  at::Tensor result = order_key(context.tensor(0), type);
  for (std::size_t i = 1; i < context.input_count(); ++i) {
    result = function(result, order_key(context.tensor(i), type));
  }
  return order_key(result, type);
}

template <Function function>
void extreme(KernelContext& context) {
  context.set(0, accumulate<function>(context), context.type(0));
}

at::Tensor sum_of(const KernelContext& context) {
  common_type(context);
  at::Tensor result = context.tensor(0);
  for (std::size_t i = 1; i < context.input_count(); ++i) {
    result = at::add(result, context.tensor(i));
  }
  return result;
}

void sum(KernelContext& context) { context.set(0, sum_of(context), context.type(0)); }

void mean(KernelContext& context) {
  context.set(0, at::div(sum_of(context), static_cast<double>(context.input_count())), context.type(0));
}

/// Limits are inputs, or attributes before opset 11. Where they cross, the upper one wins.
void clip(KernelContext& context) {
  const DataType type = context.type(0);
  at::Tensor y = order_key(context.tensor(0), type);
  if (context.has(1)) {
    y = at::maximum(y, order_key(context.tensor(1), type));
  } else if (const auto low = context.attribute<float>("min")) {
    y = at::clamp_min(y, *low);
  }
  if (context.has(2)) {
    y = at::minimum(y, order_key(context.tensor(2), type));
  } else if (const auto high = context.attribute<float>("max")) {
    y = at::clamp_max(y, *high);
  }
  context.set(0, order_key(y, type), type);
}

void where(KernelContext& context) {
  if (context.value(1).array() != nullptr) {
    if (context.type(1) != context.type(2)) {
      context.fail(fmt::format("input 2 is {}, expected {} as input 1", numeric::to_string(context.type(2)),
                               numeric::to_string(context.type(1))));
    }
    context.set(0, at::where(context.tensor(0), context.tensor(1), context.tensor(2)), context.type(1));
    return;
  }
  // Strings: choose positions in the two lists laid end to end.
  const graph::Tensor& a = context.strings(1);
  const graph::Tensor& b = context.strings(2);
  const at::Tensor chosen =
      at::where(context.tensor(0).to(at::kCPU), at::arange(a.size(), at::kLong).reshape(a.dims()),
                at::arange(b.size(), at::kLong).reshape(b.dims()).add(a.size()))
          .contiguous();
  std::vector<std::string> strings;
  for (std::int64_t i = 0; i < chosen.numel(); ++i) {
    const std::int64_t at = chosen.const_data_ptr<std::int64_t>()[i];
    strings.push_back(at < a.size() ? a.string_values()[static_cast<std::size_t>(at)]
                                    : b.string_values()[static_cast<std::size_t>(at - a.size())]);
  }
  context.set(0, Value(graph::Tensor::strings(chosen.sizes().vec(), std::move(strings))));
}

constexpr Kernel kKernels[] = {
    {"Add", arithmetic<add>},
    {"And", logical<at::logical_and>},
    {"BitShift", bit_shift},
    {"BitwiseAnd", arithmetic<at::bitwise_and>},
    {"BitwiseOr", arithmetic<at::bitwise_or>},
    {"BitwiseXor", arithmetic<at::bitwise_xor>},
    {"Clip", clip},
    {"Div", divide},
    {"Equal", equal},
    {"Greater", compare<at::gt>},
    {"GreaterOrEqual", compare<at::ge>},
    {"Less", compare<at::lt>},
    {"LessOrEqual", compare<at::le>},
    {"Max", extreme<at::maximum>},
    {"Mean", mean},
    {"Min", extreme<at::minimum>},
    {"Mod", modulo},
    {"Mul", arithmetic<multiply>},
    {"Or", logical<at::logical_or>},
    {"Pow", power},
    {"Sub", arithmetic<subtract>},
    {"Sum", sum},
    {"Where", where},
    {"Xor", logical<at::logical_xor>},
};

}  // namespace

std::span<const Kernel> binary_kernels() { return kKernels; }

}  // namespace tempera::engine::aten
