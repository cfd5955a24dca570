#include "tempera/numeric/blocks.h"

#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "tempera/base/error.h"

namespace tempera::numeric {
namespace {

using Dims = std::vector<std::int64_t>;

// The definition, element by element: the scale's index is the element's with the coordinate along the axis divided.
std::int64_t scale_by_definition(const Dims& dims, std::size_t axis, std::int64_t block, std::int64_t element) {
  Dims at(dims.size());
  for (std::size_t i = dims.size(); i-- > 0;) {
    at[i] = element % dims[i];
    element /= dims[i];
  }
  at[axis] /= block;
  std::int64_t index = 0;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    index = index * (i == axis ? (dims[i] + block - 1) / block : dims[i]) + at[i];
  }
  return index;
}

TEST(Blocks, EveryElementHasTheScaleOfTheDefinitionAlongEveryAxis) {
  for (const Dims& dims : {Dims{7}, Dims{5, 70}, Dims{70, 5}, Dims{3, 65, 2, 4}, Dims{130, 1, 3}}) {
    for (std::size_t axis = 0; axis < dims.size(); ++axis) {
      for (const std::int64_t block : {1, 2, 32, 64, 128}) {
        const BlockLayout layout = block_layout(dims, static_cast<std::int64_t>(axis), block);
        const Dims scales = scale_dims(dims, static_cast<std::int64_t>(axis), block);
        EXPECT_EQ(layout.count(), std::accumulate(scales.begin(), scales.end(), std::int64_t{1}, std::multiplies<>()));
        const std::int64_t elements = std::accumulate(dims.begin(), dims.end(), std::int64_t{1}, std::multiplies<>());
        std::vector<int> seen(static_cast<std::size_t>(elements));
        for (std::int64_t i = 0; i < elements; ++i) {
          ASSERT_EQ(layout.scale_of(i), scale_by_definition(dims, axis, block, i)) << i;
        }
        for (std::int64_t scale = 0; scale < layout.count(); ++scale) {
          const BlockLayout::Members members = layout.members(scale);
          for (std::int64_t i = 0; i < members.count; ++i) {
            const std::int64_t element = members.first + i * members.stride;
            ASSERT_EQ(layout.scale_of(element), scale);
            ++seen[static_cast<std::size_t>(element)];
          }
        }
        EXPECT_EQ(seen, std::vector<int>(seen.size(), 1)) << "the blocks part the elements";
      }
    }
  }
}

TEST(Blocks, TheLastBlockIsShorter) {
  const BlockLayout layout = block_layout(Dims{70, 2}, 0, 32);
  EXPECT_EQ(layout.along(), 3);
  EXPECT_EQ(layout.members(5).count, 6);
  EXPECT_EQ(layout.members(5).first, 64 * 2 + 1);
}

TEST(Blocks, RefusesWhatIsNoAxisOrNoBlock) {
  EXPECT_THROW((void)block_layout(Dims{4, 4}, 2, 32), Error);
  EXPECT_THROW((void)block_layout(Dims{4, 4}, -1, 32), Error);
  EXPECT_THROW((void)block_layout(Dims{4, 4}, 0, 0), Error);
}

}  // namespace
}  // namespace tempera::numeric
