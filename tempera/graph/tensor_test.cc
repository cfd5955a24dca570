#include "tempera/graph/tensor.h"

#include <array>
#include <limits>

#include <gtest/gtest.h>

#include "tempera/base/error.h"

namespace tempera::graph {
namespace {

TEST(TensorTest, CopiesShareBytes) {
  const Tensor a = Tensor::from<float>({2, 2}, {1, 2, 3, 4});
  const Tensor b = a;
  EXPECT_EQ(a.bytes().data(), b.bytes().data());
  EXPECT_EQ(b.reshaped({4}).values<float>()[3], 4.0F);
}

TEST(TensorTest, WrongNumberOfValuesIsRefused) {
  EXPECT_THROW((void)Tensor::from<float>({2, 2}, {1, 2, 3}), Error);
  EXPECT_THROW((void)Tensor::from<float>({-1}, {}), Error);
}

TEST(TensorTest, OverflowingDimensionsAreRefused) {
  EXPECT_THROW((void)element_count(Dims{std::int64_t{1} << 40, std::int64_t{1} << 40}), Error);
  EXPECT_THROW((void)Tensor::allocate(DataType::kFloat64, {std::numeric_limits<std::int64_t>::max()}), Error);
}

TEST(TensorTest, ReadingAsAnotherTypeIsRefused) {
  const Tensor a = Tensor::scalar<std::int64_t>(3);
  EXPECT_THROW((void)a.values<float>(), Error);
  EXPECT_EQ(to_int64s(a), std::vector<std::int64_t>{3});
}

TEST(TensorTest, ViewOfUnalignedBytesIsCopied) {
  const auto storage = std::make_shared<std::array<std::byte, 9>>();
  const std::shared_ptr<const std::byte> odd(storage, storage->data() + 1);
  const Tensor a = Tensor::view(DataType::kFloat64, {1}, odd);
  EXPECT_NE(a.bytes().data(), odd.get());
  EXPECT_EQ(a.values<double>()[0], 0.0);
}

TEST(TensorTest, SubByteTypesPackTwoOrFourToAByte) {
  const Tensor a = Tensor::from_bytes(DataType::kInt4, {3}, std::as_bytes(std::span("\x81\x07", 2)));
  EXPECT_EQ(to_doubles(a), (std::vector<double>{1, -8, 7}));
}

}  // namespace
}  // namespace tempera::graph
