#pragma once

#include <cstdint>
#include <vector>

#include "tempera/compress/quantize/layers.h"
#include "tempera/graph/tensor.h"

namespace tempera::compress {

/// A weight seen as a matrix: a row for each output channel, a column for each product summed into it.
///
///   Conv           [M, C/g, k..]  rows M          columns C/g k..
///   ConvTranspose  [C, M/g, k..]  rows M/g        columns C k..      (depthwise, M/g = 1: rows C)
///   Gemm, MatMul   [.., K, N]     rows .. N       columns K          (whichever way round the weight lies)
struct WeightView {
  graph::Dims dims;                ///< of the weight
  std::vector<std::int64_t> perm;  ///< the weight's axes: those of the rows, then those of the columns
  std::size_t row_axes = 1;        ///< how many of `perm` are of the rows
  std::int64_t rows = 1;
  std::int64_t columns = 1;

  /// The weight's own axis that the rows are, when it is just one.
  [[nodiscard]] bool has_row_axis() const { return row_axes == 1; }
  [[nodiscard]] std::int64_t row_axis() const { return perm.front(); }
  /// The matrix is the weight reshaped: no axis moves.
  [[nodiscard]] bool is_plain() const;
  /// Dimensions in the order of `perm`.
  [[nodiscard]] graph::Dims permuted_dims() const;
  /// For each axis of the weight its place in `perm`: the permutation back.
  [[nodiscard]] std::vector<std::int64_t> inverse() const;
};

/// \param dims  of the constant that `layer.weight` is
[[nodiscard]] WeightView view_of(const Layer& layer, const graph::Dims& dims);

/// Elements of the weight, row-major in its own dimensions, as the matrix [rows, columns]; and back.
[[nodiscard]] std::vector<float> to_rows(const WeightView& view, const std::vector<float>& values);
[[nodiscard]] std::vector<float> from_rows(const WeightView& view, const std::vector<float>& matrix);
[[nodiscard]] std::vector<std::uint8_t> from_rows(const WeightView& view, const std::vector<std::uint8_t>& matrix);

/// Index within the weight's own dimensions of element `row`, `column` of the matrix, one number for each axis.
[[nodiscard]] graph::Dims position(const WeightView& view, std::int64_t row, std::int64_t column);

}  // namespace tempera::compress
