#include "tempera/ops/builder.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "tempera/graph/model.h"
#include "tempera/ops/access.h"

namespace tempera::ops {
namespace {

using graph::DataType;
using graph::Shape;
using graph::ValueType;

class BuilderTest : public testing::TestWithParam<std::int64_t> {
 protected:
  graph::Graph g;
  ValueId x = g.add_input("x", ValueType::tensor(DataType::kFloat32, Shape{2, 1, 6}));
  Builder build{g, GetParam(), "made"};
  NodeId node(ValueId id) { return g.producer(id); }
};

// Whatever the form, the accessors read back what was asked for.
TEST_P(BuilderTest, MakesTheFormOfItsOpset) {
  const std::int64_t opset = GetParam();
  const ValueId squeezed = build.squeeze(x, {1});
  EXPECT_EQ(g.has_attribute(node(squeezed), "axes"), opset < 13);
  EXPECT_EQ(axes_of(g, node(squeezed)), (Dims{1}));
  const ValueId mean = build.reduce("ReduceMean", x, {2}, true);
  EXPECT_EQ(g.has_attribute(node(mean), "axes"), opset < 18);
  EXPECT_EQ(axes_of(g, node(mean)), (Dims{2}));
  EXPECT_EQ(dims_of(g, mean), (Dims{2, 1, 1}));
  const ValueId sum = build.reduce("ReduceSum", x, {0}, false);
  EXPECT_EQ(g.has_attribute(node(sum), "axes"), opset < 13);
  EXPECT_EQ(dims_of(g, sum), (Dims{1, 6}));
  const std::vector<ValueId> parts = build.split(x, -1, {2, 4});
  EXPECT_EQ(split_form(g, node(parts[0]))->sizes, (Dims{2, 4}));
  EXPECT_EQ(dims_of(g, parts[1]), (Dims{2, 1, 4}));
  EXPECT_EQ(slice_form(g, node(build.slice(x, {1}, {3}, {2})))->ends, (Dims{3}));
  EXPECT_EQ(pad_form(g, node(build.pad(x, {0, 0, 1}, {0, 0, 2})))->end, (Dims{0, 0, 2}));
  const auto clipped = clip_form(g, node(build.clip(x, 0.0, std::numeric_limits<double>::infinity())));
  EXPECT_EQ(clipped->low, 0.0);
  EXPECT_TRUE(std::isinf(clipped->high));
  EXPECT_EQ(dims_of(g, build.transpose(x, {2, 0, 1})), (Dims{6, 2, 1}));
  graph::verify(g);
}

INSTANTIATE_TEST_SUITE_P(Opsets, BuilderTest, testing::Values(9, 11, 13, 18, 28));

}  // namespace
}  // namespace tempera::ops
