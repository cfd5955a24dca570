#include "tempera/engine/torch/value.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "tempera/base/error.h"
#include "tempera/numeric/float_format.h"

namespace tempera::engine::aten {

at::ScalarType carrier(DataType type) {
  switch (type) {
    case DataType::kFloat32:
    case DataType::kFloat8E4M3FN:
    case DataType::kFloat8E4M3FNUZ:
    case DataType::kFloat8E5M2:
    case DataType::kFloat8E5M2FNUZ:
    case DataType::kFloat8E8M0:
    case DataType::kFloat6E2M3:
    case DataType::kFloat6E3M2:
    case DataType::kFloat4E2M1: return at::kFloat;
    case DataType::kFloat64: return at::kDouble;
    case DataType::kFloat16: return at::kHalf;
    case DataType::kBfloat16: return at::kBFloat16;
    case DataType::kBool: return at::kBool;
    case DataType::kUint8:
    case DataType::kUint4:
    case DataType::kUint2: return at::kByte;
    case DataType::kInt8:
    case DataType::kInt4:
    case DataType::kInt2: return at::kChar;
    case DataType::kInt16: return at::kShort;
    case DataType::kInt32:
    case DataType::kUint16: return at::kInt;
    case DataType::kInt64:
    case DataType::kUint32:
    case DataType::kUint64: return at::kLong;
    case DataType::kComplex64: return at::kComplexFloat;
    case DataType::kComplex128: return at::kComplexDouble;
    case DataType::kString:
    case DataType::kUndefined: break;
  }
  throw Error(ErrorCode::kUnsupported, fmt::format("the torch engine holds no numbers of type {}", numeric::to_string(type)));
}

DataType logical_type(at::ScalarType type) {
  switch (type) {
    case at::kFloat: return DataType::kFloat32;
    case at::kDouble: return DataType::kFloat64;
    case at::kHalf: return DataType::kFloat16;
    case at::kBFloat16: return DataType::kBfloat16;
    case at::kBool: return DataType::kBool;
    case at::kByte: return DataType::kUint8;
    case at::kChar: return DataType::kInt8;
    case at::kShort: return DataType::kInt16;
    case at::kInt: return DataType::kInt32;
    case at::kLong: return DataType::kInt64;
    case at::kComplexFloat: return DataType::kComplex64;
    case at::kComplexDouble: return DataType::kComplex128;
    default: break;
  }
  throw Error(ErrorCode::kInternal, fmt::format("no logical type for torch's {}", at::toString(type)));
}

at::Tensor round_to(const at::Tensor& data, DataType type, bool saturate) {
  const numeric::FloatFormat* format = numeric::float_format(type);
  TEMPERA_CHECK(format != nullptr && numeric::bits_of(type) <= 8, "a small float type is asked for");
  const at::Tensor source = data.to(at::kCPU, at::kFloat).contiguous();
  at::Tensor rounded = at::empty_like(source);
  const float* from = source.const_data_ptr<float>();
  float* to = rounded.mutable_data_ptr<float>();
  const numeric::Overflow overflow = saturate ? numeric::Overflow::kSaturate : numeric::Overflow::kInfinity;
  for (std::int64_t i = 0; i < source.numel(); ++i) {
    to[i] = static_cast<float>(format->decode(format->encode(from[i], overflow)));
  }
  return rounded.to(data.device());
}

at::Tensor wrap(const at::Tensor& data, DataType type) {
  switch (type) {
    case DataType::kUint16: return data.bitwise_and(0xFFFF);
    case DataType::kUint32: return data.bitwise_and(0xFFFFFFFF);
    case DataType::kUint4: return data.bitwise_and(0xF);
    case DataType::kUint2: return data.bitwise_and(0x3);
    case DataType::kInt4: return data.add(8).bitwise_and(0xF).sub(8);
    case DataType::kInt2: return data.add(2).bitwise_and(0x3).sub(2);
    default: break;
  }
  if (numeric::is_float(type) && numeric::bits_of(type) <= 8) {
    return round_to(data, type, true);
  }
  return data;
}

}  // namespace tempera::engine::aten
