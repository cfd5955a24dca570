#include "tempera/optimize/subject.h"

#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tempera::optimize {
namespace {

using ::testing::ElementsAre;

std::vector<std::size_t> first(std::size_t count) {
  std::vector<std::size_t> part(count);
  std::iota(part.begin(), part.end(), std::size_t{0});
  return part;
}

TEST(ThinOut, KeepsSamplesFromEverywhere) {
  std::vector<std::size_t> part = first(10);
  EXPECT_TRUE(thin_out(part, 4));
  EXPECT_THAT(part, ElementsAre(0, 2, 5, 7));
}

TEST(ThinOut, LeavesAPartThatFits) {
  std::vector<std::size_t> part = first(3);
  EXPECT_FALSE(thin_out(part, 3));
  EXPECT_FALSE(thin_out(part, 100));
  EXPECT_THAT(part, ElementsAre(0, 1, 2));
}

}  // namespace
}  // namespace tempera::optimize
