#include "tempera/compress/quantize/weight_view.h"

#include <numeric>
#include <vector>

#include <gtest/gtest.h>

namespace tempera::compress {
namespace {

using graph::Dims;

Layer layer(std::string op_type, std::int64_t channel_axis, std::int64_t reduced_axis, std::int64_t group = 1) {
  Layer made;
  made.op_type = std::move(op_type);
  made.channel_axis = channel_axis;
  made.reduced_axis = reduced_axis;
  made.group = group;
  return made;
}

std::vector<float> numbered(const Dims& dims) {
  std::vector<float> values(static_cast<std::size_t>(graph::element_count(dims)));
  std::iota(values.begin(), values.end(), 0.0F);
  return values;
}

TEST(WeightView, RowsAreOutputChannels) {
  const WeightView conv = view_of(layer("Conv", 0, 1), {8, 3, 5, 5});
  EXPECT_EQ(conv.rows, 8);
  EXPECT_EQ(conv.columns, 75);
  EXPECT_TRUE(conv.is_plain());

  const WeightView transposed = view_of(layer("ConvTranspose", 1, 0, 2), {6, 4, 3, 3});
  EXPECT_EQ(transposed.rows, 4);
  EXPECT_EQ(transposed.columns, 54);
  EXPECT_EQ(transposed.row_axis(), 1);

  const WeightView depthwise = view_of(layer("ConvTranspose", 1, 0, 6), {6, 1, 3, 3});
  EXPECT_EQ(depthwise.rows, 6);
  EXPECT_EQ(depthwise.row_axis(), 0);

  const WeightView gemm = view_of(layer("Gemm", 0, 1), {10, 20});
  EXPECT_EQ(gemm.rows, 10);
  EXPECT_TRUE(gemm.is_plain());
}

TEST(WeightView, EachMatrixOfABatchHasItsOwnRows) {
  const WeightView batch = view_of(layer("MatMul", 2, 1), {8, 5, 3});
  EXPECT_EQ(batch.rows, 24);
  EXPECT_EQ(batch.columns, 5);
  EXPECT_FALSE(batch.has_row_axis());
  const WeightView one = view_of(layer("MatMul", 2, 1), {1, 5, 3});
  EXPECT_TRUE(one.has_row_axis()) << "a batch of one is no axis";
  EXPECT_EQ(one.row_axis(), 2);
}

TEST(WeightView, MatrixAndWeightGoBothWays) {
  const Dims dims = {4, 3, 2, 5};
  for (const Layer& each : {layer("Conv", 0, 1), layer("ConvTranspose", 1, 0), layer("MatMul", 3, 2), layer("MatMul", 2, 3)}) {
    const WeightView view = view_of(each, dims);
    const std::vector<float> values = numbered(dims);
    const std::vector<float> matrix = to_rows(view, values);
    EXPECT_EQ(from_rows(view, matrix), values);
    for (std::int64_t row = 0; row < view.rows; ++row) {
      for (std::int64_t column = 0; column < view.columns; ++column) {
        const Dims at = position(view, row, column);
        const std::int64_t own = ((at[0] * 3 + at[1]) * 2 + at[2]) * 5 + at[3];
        ASSERT_EQ(matrix[static_cast<std::size_t>(row * view.columns + column)], static_cast<float>(own));
      }
    }
  }
}

TEST(WeightView, RowsOfATransposedMatrixAreItsColumns) {
  const WeightView view = view_of(layer("MatMul", 1, 0), {2, 3});
  EXPECT_EQ(to_rows(view, {1, 2, 3, 4, 5, 6}), (std::vector<float>{1, 4, 2, 5, 3, 6}));
}

}  // namespace
}  // namespace tempera::compress
