#include "tempera/graph/tensor_error.h"

#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "tempera/base/error.h"

namespace tempera::graph {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

TEST(TensorErrorTest, MatchesHandWorkedNumbers) {
  const TensorError error = tensor_error(Tensor::from<float>({2, 2}, {3, 0, 4, 0}), Tensor::from<float>({2, 2}, {3, 0, 4.5F, 0}));
  EXPECT_EQ(error.elements, 4);
  EXPECT_EQ(error.max_abs, 0.5);
  EXPECT_EQ(error.relative_l2, 0.1);  // 0.5 / 5
  EXPECT_NEAR(error.sqnr_db, 20.0, 1e-12);
  EXPECT_EQ(error.worst_index, (Dims{1, 0}));
  EXPECT_EQ(error.worst_a, 4.0);
  EXPECT_EQ(error.worst_b, 4.5);
}

// a = (3, 4), b = (3, 3): <a, b> = 21, |a| = 5, |b| = sqrt(18)
TEST(TensorErrorTest, CosineOfAHandWorkedExample) {
  const TensorError error = tensor_error(Tensor::from<float>({2}, {3, 4}), Tensor::from<float>({2}, {3, 3}));
  EXPECT_DOUBLE_EQ(error.cosine, 21.0 / (5.0 * std::sqrt(18.0)));
}

TEST(TensorErrorTest, EqualTensorsHaveNoError) {
  const Tensor a = Tensor::from<float>({3}, {1, kNan, kInf});
  const TensorError error = tensor_error(a, a);
  EXPECT_TRUE(error.comparable());
  EXPECT_EQ(error.max_abs, 0.0);
  EXPECT_EQ(error.relative_l2, 0.0);
  EXPECT_EQ(error.sqnr_db, std::numeric_limits<double>::infinity());
  EXPECT_EQ(error.cosine, 1.0);
  EXPECT_EQ(error.non_finite_a, 2);
  EXPECT_EQ(error.non_finite_pairs, 0);
}

TEST(TensorErrorTest, ANaNAgainstANumberIsNeverNear) {
  const TensorError error = tensor_error(Tensor::from<float>({3}, {1, 2, 3}), Tensor::from<float>({3}, {1, kNan, 9}));
  EXPECT_FALSE(error.comparable());
  EXPECT_EQ(error.non_finite_pairs, 1);
  EXPECT_EQ(error.relative_l2, std::numeric_limits<double>::infinity());
  EXPECT_EQ(error.sqnr_db, -std::numeric_limits<double>::infinity());
  EXPECT_EQ(error.cosine, 0.0);
  EXPECT_EQ(error.worst_index, (Dims{1}));
}

TEST(TensorErrorTest, OppositeInfinitiesDiffer) {
  EXPECT_EQ(tensor_error(Tensor::from<float>({1}, {kInf}), Tensor::from<float>({1}, {-kInf})).non_finite_pairs, 1);
}

TEST(TensorErrorTest, AnythingAgainstZeroIsInfinitelyFar) {
  const Tensor zero = Tensor::from<float>({1}, {0});
  EXPECT_EQ(tensor_error(zero, zero).relative_l2, 0.0);
  EXPECT_EQ(tensor_error(zero, zero).cosine, 1.0);
  const TensorError error = tensor_error(zero, Tensor::from<float>({1}, {1e-30F}));
  EXPECT_EQ(error.relative_l2, std::numeric_limits<double>::infinity());
  EXPECT_EQ(error.sqnr_db, -std::numeric_limits<double>::infinity());
  EXPECT_EQ(error.cosine, 0.0);
}

TEST(TensorErrorTest, LargeNumbersDoNotOverflow) {
  constexpr float kMax = std::numeric_limits<float>::max();
  EXPECT_EQ(tensor_error(Tensor::from<float>({1}, {kMax}), Tensor::from<float>({1}, {-kMax})).relative_l2, 2.0);
}

TEST(TensorErrorTest, ShapesThatDifferAreSaid) {
  const TensorError error = tensor_error(Tensor::from<float>({2, 1}, {1, 2}), Tensor::from<float>({1, 2}, {1, 2}));
  EXPECT_EQ(error.mismatch, "shape [2,1] against [1,2]");
  EXPECT_FALSE(error.comparable());
  EXPECT_THROW((void)checked_tensor_error(Tensor::from<float>({2}, {1, 2}), Tensor::from<float>({2, 1}, {1, 2})), Error);
}

TEST(TensorErrorTest, TypesMayDiffer) {
  const TensorError error =
      tensor_error(Tensor::from<double>({2}, {1, 2}), Tensor::from<std::int64_t>({2}, {1, 3}));
  EXPECT_EQ(error.max_abs, 1.0);
}

TEST(TensorErrorTest, PackedTypesAreReadAcrossChunks) {
  constexpr std::int64_t kCount = 10001;  // more than two chunks, an odd number of nibbles
  std::vector<std::byte> bytes(numeric::bytes_of(DataType::kUint4, kCount), std::byte(0x21));
  const Tensor a = Tensor::from_bytes(DataType::kUint4, {kCount}, bytes);
  bytes[5000] = std::byte(0x25);  // the low nibble: element 10000
  const TensorError error = tensor_error(a, Tensor::from_bytes(DataType::kUint4, {kCount}, bytes));
  EXPECT_EQ(error.worst_index, (Dims{10000}));
  EXPECT_EQ(error.max_abs, 4.0);
}

TEST(TensorErrorTest, EmptyTensorsAreEqual) {
  const Tensor empty = Tensor::from<float>({0, 3}, {});
  EXPECT_EQ(tensor_error(empty, empty).relative_l2, 0.0);
}

TEST(TensorErrorTest, StringsCannotBeCompared) {
  const Tensor words = Tensor::strings({1}, {"a"});
  EXPECT_THROW((void)tensor_error(words, words), Error);
}

}  // namespace
}  // namespace tempera::graph
