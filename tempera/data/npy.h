#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "tempera/graph/tensor.h"

namespace tempera::data {

/// What the header of a .npy array says.
struct NpyHeader {
  graph::DataType type = graph::DataType::kUndefined;  ///< type of the tensor it becomes
  graph::Dims dims;
  std::string descr;           ///< numpy's own name, "<f2"
  bool fortran_order = false;  ///< stored column by column; tensors are always row-major
  std::size_t data_offset = 0;
};

/// Reads a NumPy array (format 1.0 to 3.0): ?, i1-i8, u1-u8, f2, f4, f8, c8, c16 in either byte order, in C
/// or Fortran order; S and U become strings (UTF-8); f16 (long double) is rounded to f8. Pickled objects,
/// records and times are refused by name. Nothing the bytes say makes it read out of bounds or allocate more
/// than they hold.
///
/// \throws Error{kInvalidArgument} when the bytes are not such an array
/// Source: numpy.lib.format, "NPY format", version 3.0.
[[nodiscard]] graph::Tensor decode_npy(std::span<const std::byte> bytes);
[[nodiscard]] NpyHeader decode_npy_header(std::span<const std::byte> bytes);
/// \throws also Error{kNotFound, kIo}
[[nodiscard]] graph::Tensor read_npy(const std::filesystem::path& path);

/// Writes format 1.0, little-endian, C order. Types that NumPy lacks are widened exactly: bfloat16, fp8, fp6
/// and fp4 to f4; 4- and 2-bit integers to i1 or u1. Strings become U.
[[nodiscard]] std::vector<std::byte> encode_npy(const graph::Tensor& tensor);
void write_npy(const std::filesystem::path& path, const graph::Tensor& tensor);

}  // namespace tempera::data
