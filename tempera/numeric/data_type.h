#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace tempera::numeric {

/// Element types of tensors. The numbers are those of ONNX's TensorProto.DataType (onnx 1.23).
enum class DataType : std::uint8_t {
  kUndefined = 0,
  kFloat32 = 1,
  kUint8 = 2,
  kInt8 = 3,
  kUint16 = 4,
  kInt16 = 5,
  kInt32 = 6,
  kInt64 = 7,
  kString = 8,
  kBool = 9,
  kFloat16 = 10,
  kFloat64 = 11,
  kUint32 = 12,
  kUint64 = 13,
  kComplex64 = 14,
  kComplex128 = 15,
  kBfloat16 = 16,
  kFloat8E4M3FN = 17,
  kFloat8E4M3FNUZ = 18,
  kFloat8E5M2 = 19,
  kFloat8E5M2FNUZ = 20,
  kUint4 = 21,
  kInt4 = 22,
  kFloat4E2M1 = 23,
  kFloat8E8M0 = 24,
  kUint2 = 25,
  kInt2 = 26,
  kFloat6E2M3 = 27,
  kFloat6E3M2 = 28,
};

/// Bits one element takes in memory; 0 for kUndefined and kString.
/// 2- and 4-bit elements are packed low bits first as in ONNX; 6-bit ones four to three bytes.
[[nodiscard]] int bits_of(DataType type);

/// Bytes that `count` elements take, sub-byte types packed and rounded up to a whole byte.
/// \throws Error{kInvalidArgument} for kUndefined and kString, or when the size overflows 63 bits.
[[nodiscard]] std::size_t bytes_of(DataType type, std::int64_t count);

/// ONNX's own lower-case name: "float", "float16", "bfloat16", "double", "int4", "float8e4m3fn", ...
[[nodiscard]] std::string_view to_string(DataType type);
[[nodiscard]] std::optional<DataType> data_type_from_string(std::string_view name);

[[nodiscard]] bool is_float(DataType type);    ///< any real floating-point type, the 4-, 6- and 8-bit ones included
[[nodiscard]] bool is_integer(DataType type);  ///< signed or unsigned integers of any width; not bool
[[nodiscard]] bool is_known(int onnx_number);  ///< whether the number names a type above

template <typename T>
struct DataTypeOf;  // specialised below for the C++ types that have one
template <> struct DataTypeOf<float> { static constexpr DataType value = DataType::kFloat32; };
template <> struct DataTypeOf<double> { static constexpr DataType value = DataType::kFloat64; };
template <> struct DataTypeOf<std::int8_t> { static constexpr DataType value = DataType::kInt8; };
template <> struct DataTypeOf<std::int16_t> { static constexpr DataType value = DataType::kInt16; };
template <> struct DataTypeOf<std::int32_t> { static constexpr DataType value = DataType::kInt32; };
template <> struct DataTypeOf<std::int64_t> { static constexpr DataType value = DataType::kInt64; };
template <> struct DataTypeOf<std::uint8_t> { static constexpr DataType value = DataType::kUint8; };
template <> struct DataTypeOf<std::uint16_t> { static constexpr DataType value = DataType::kUint16; };
template <> struct DataTypeOf<std::uint32_t> { static constexpr DataType value = DataType::kUint32; };
template <> struct DataTypeOf<std::uint64_t> { static constexpr DataType value = DataType::kUint64; };
template <> struct DataTypeOf<bool> { static constexpr DataType value = DataType::kBool; };

}  // namespace tempera::numeric
