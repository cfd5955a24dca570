#include "tempera/compress/prune/reshape_map.h"

#include <random>

#include <gtest/gtest.h>

namespace tempera::compress {
namespace {

graph::Shape shape(const graph::Dims& dims) {
  graph::Shape made;
  for (const std::int64_t dim : dims) {
    made.push_back(dim < 0 ? graph::Dim(std::string(1, static_cast<char>('a' - dim))) : graph::Dim(dim));
  }
  return made;
}

const AxisRelation* find(const std::vector<AxisRelation>& relations, std::size_t before, std::size_t after) {
  for (const AxisRelation& relation : relations) {
    if (relation.before == before && relation.after == after) {
      return &relation;
    }
  }
  return nullptr;
}

TEST(ReshapeMapTest, GroupsOfANormalisationWithoutKnowingThePicture) {
  const auto relations = relate_axes(shape({-1, 64, -2, -3}), shape({-1, 8, -4}));
  const AxisRelation* groups = find(relations, 1, 1);
  ASSERT_NE(groups, nullptr);
  EXPECT_FALSE(groups->merge);
  EXPECT_EQ(groups->step, 8);  // channel i lies in group i / 8
  EXPECT_EQ(groups->count, 8);
}

TEST(ReshapeMapTest, HeadsMergedWithAnUnknownBatchLeaveTheirInnerAxis) {
  const auto relations = relate_axes(shape({-1, 64, 1024}), shape({-5, 32, 1024}));
  EXPECT_EQ(find(relations, 1, 0), nullptr);
  const AxisRelation* inner = find(relations, 1, 1);
  ASSERT_NE(inner, nullptr);
  EXPECT_EQ(inner->step, 1);  // channel i is number i mod 32 of its head
  EXPECT_EQ(inner->count, 32);
}

TEST(ReshapeMapTest, PartlyOverlappingAxesAreNotRelated) {
  EXPECT_EQ(find(relate_axes(shape({6, 4}), shape({4, 6})), 0, 0), nullptr);
}

// The definition: element number L of the run of elements has index L / stride mod size along an axis.
TEST(ReshapeMapTest, RelationsHoldForEveryElement) {
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    graph::Dims dims[2];
    for (graph::Dims& side : dims) {
      std::int64_t left = 144;
      while (left > 1 && side.size() < 4) {
        const std::int64_t choices[] = {1, 2, 3, 4, 6, 8, 9, 12};
        const std::int64_t pick = choices[random() % 8];
        if (left % pick == 0) {
          side.push_back(pick);
          left /= pick;
        }
      }
      side.push_back(left);
    }
    const auto index = [](const graph::Dims& side, std::size_t axis, std::int64_t element) {
      for (std::size_t i = side.size() - 1; i > axis; --i) {
        element /= side[i];
      }
      return element % side[axis];
    };
    for (const AxisRelation& relation : relate_axes(shape(dims[0]), shape(dims[1]))) {
      for (std::int64_t element = 0; element < 144; ++element) {
        const std::int64_t before = index(dims[0], relation.before, element);
        const std::int64_t after = index(dims[1], relation.after, element);
        if (relation.merge) {
          ASSERT_EQ(before, after / relation.step % relation.count) << "round " << round;
        } else {
          ASSERT_EQ(after, before / relation.step % relation.count) << "round " << round;
        }
      }
    }
  }
}

}  // namespace
}  // namespace tempera::compress
