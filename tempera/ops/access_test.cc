#include "tempera/ops/access.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "tempera/base/error.h"

namespace tempera::ops {
namespace {

using graph::DataType;
using graph::Shape;
using graph::Tensor;
using graph::ValueType;

struct One {
  Graph g;
  ValueId x = g.add_input("x", ValueType::tensor(DataType::kFloat32, Shape{2, 3, 10}));
  ValueId ints(std::vector<std::int64_t> v) {
    return g.add_initializer("c", Tensor::from<std::int64_t>({static_cast<std::int64_t>(v.size())},
                                                             std::span<const std::int64_t>(v)));
  }
  NodeId add(std::string_view op, std::vector<ValueId> inputs,
             std::map<std::string, graph::Attribute, std::less<>> attributes = {}) {
    return g.producer(g.add_node(op, std::move(inputs), "n", std::move(attributes)));
  }
};

TEST(AccessTest, AxesComeFromTheAttributeOrTheInput) {
  One t;
  EXPECT_EQ(axes_of(t.g, t.add("ReduceSum", {t.x}, {{"axes", std::vector<std::int64_t>{-1, 0}}})), (Dims{0, 2}));
  EXPECT_EQ(axes_of(t.g, t.add("ReduceSum", {t.x, t.ints({-1})})), (Dims{2}));
  EXPECT_EQ(axes_of(t.g, t.add("ReduceSum", {t.x})), (Dims{0, 1, 2}));
  EXPECT_EQ(axes_of(t.g, t.add("ReduceSum", {t.x}, {{"noop_with_empty_axes", std::int64_t{1}}})), (Dims{}));
  EXPECT_EQ(axes_of(t.g, t.add("Unsqueeze", {t.x, t.ints({-1})})), (Dims{3}));
  const ValueId varying = t.g.add_input("axes", ValueType::tensor(DataType::kInt64, Shape{1}));
  EXPECT_EQ(axes_of(t.g, t.add("ReduceSum", {t.x, varying})), std::nullopt);
  EXPECT_THROW((void)axes_of(t.g, t.add("ReduceSum", {t.x, t.ints({3})})), Error);
}

TEST(AccessTest, SoftmaxBeforeOpset13FlattensTheAxesBehind) {
  One t;
  EXPECT_EQ(axis_of(t.g, t.add("Softmax", {t.x}), 13), 2);
  EXPECT_EQ(axis_of(t.g, t.add("Softmax", {t.x}), 11), std::nullopt);
  EXPECT_EQ(axis_of(t.g, t.add("Softmax", {t.x}, {{"axis", std::int64_t{2}}}), 11), 2);
}

TEST(AccessTest, SlicesOfEveryOpset) {
  One t;
  const auto old = slice_form(
      t.g, t.add("Slice", {t.x}, {{"starts", std::vector<std::int64_t>{1}}, {"ends", std::vector<std::int64_t>{3}}}));
  ASSERT_TRUE(old.has_value());
  EXPECT_EQ(old->axes, (Dims{0}));
  EXPECT_EQ(old->steps, (Dims{1}));
  const auto back = slice_form(t.g, t.add("Slice", {t.x, t.ints({-1}), t.ints({-100}), t.ints({-1}), t.ints({-2})}));
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(back->axes, (Dims{2}));
  EXPECT_THROW((void)slice_form(t.g, t.add("Slice", {t.x, t.ints({0}), t.ints({1}), t.ints({0}), t.ints({0})})),
               Error);
}

// Expected: numpy's x[start:end:step], where ONNX's out-of-range end for a negative step stands for "before the first".
TEST(AccessTest, SliceRangesAreClampedAsNumpyDoes) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
  const auto check = [](SliceRange r, std::int64_t start, std::int64_t count) {
    EXPECT_EQ(r.count, count);
    if (count > 0) {
      EXPECT_EQ(r.start, start);
    }
  };
  check(clamp_slice(0, kMost, 1, 10), 0, 10);
  check(clamp_slice(-3, kMost, 1, 10), 7, 3);
  check(clamp_slice(2, 9, 3, 10), 2, 3);
  check(clamp_slice(-1, kLeast, -1, 10), 9, 10);
  check(clamp_slice(8, 2, -4, 10), 8, 2);
  check(clamp_slice(kMost, kLeast, kLeast, 10), 9, 1);
  check(clamp_slice(5, 5, 1, 10), 0, 0);
  check(clamp_slice(0, kMost, 1, 0), 0, 0);
  check(clamp_slice(-1, kLeast, -1, 0), 0, 0);
}

TEST(AccessTest, SplitsInEqualPartsOrByTheGivenSizes) {
  One t;
  graph::Node node;
  node.op_type = "Split";
  node.inputs = {t.x};
  node.attributes.emplace("axis", std::int64_t{-1});
  for (int i = 0; i < 3; ++i) {
    node.outputs.push_back(t.g.add_value("part"));
  }
  const NodeId id = t.g.add_node(node);
  const auto equal = split_form(t.g, id);
  ASSERT_TRUE(equal.has_value());
  EXPECT_EQ(equal->axis, 2);
  EXPECT_EQ(equal->sizes, (Dims{4, 4, 2}));
  t.g.set_input(id, 1, t.ints({1, 2, 7}));
  EXPECT_EQ(split_form(t.g, id)->sizes, (Dims{1, 2, 7}));
}

TEST(AccessTest, PadsMayNameAxes) {
  One t;
  const auto form = pad_form(t.g, t.add("Pad", {t.x, t.ints({1, 2}), ValueId{}, t.ints({-1})}));
  ASSERT_TRUE(form.has_value());
  EXPECT_EQ(form->begin, (Dims{0, 0, 1}));
  EXPECT_EQ(form->end, (Dims{0, 0, 2}));
}

TEST(AccessTest, ClipWithoutLimitsIsUnlimited) {
  One t;
  const auto form = clip_form(t.g, t.add("Clip", {t.x, ValueId{}, t.g.add_initializer("six", Tensor::scalar(6.0F))}));
  ASSERT_TRUE(form.has_value());
  EXPECT_TRUE(std::isinf(form->low));
  EXPECT_EQ(form->high, 6.0);
  EXPECT_EQ(clip_form(t.g, t.add("Clip", {t.x}, {{"min", 0.5F}}))->low, 0.5);
}

TEST(AccessTest, DropoutTrainsOnlyWhenToldOrUnknown) {
  One t;
  EXPECT_FALSE(is_training(t.g, t.add("Dropout", {t.x})));
  const ValueId yes = t.g.add_initializer("yes", Tensor::scalar(true));
  const ValueId no = t.g.add_initializer("no", Tensor::scalar(false));
  EXPECT_TRUE(is_training(t.g, t.add("Dropout", {t.x, ValueId{}, yes})));
  EXPECT_FALSE(is_training(t.g, t.add("Dropout", {t.x, ValueId{}, no})));
  EXPECT_TRUE(is_training(t.g, t.add("Dropout", {t.x, ValueId{}, t.g.add_input("mode", {})})));
}

}  // namespace
}  // namespace tempera::ops
