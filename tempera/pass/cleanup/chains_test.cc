#include "tempera/pass/cleanup/chains.h"

#include "tempera/ops/access.h"
#include "tempera/pass/testing.h"

namespace tempera::pass {
namespace {

using testing::count;
using testing::expect_untouched;
using testing::only;
using testing::parse;
using testing::run;

TEST(MergeCastsTest, ThroughAWiderType) {
  graph::Model model = parse(R"(g (float16[4] x) => (float16[4] y) { a = Cast<to = 1>(x)  y = Cast<to = 10>(a) })");
  EXPECT_EQ(run(merge_casts, model).rewrites.size(), 1U);
  EXPECT_EQ(count(model, "Cast"), 1);
}

TEST(MergeCastsTest, NotThroughATypeThatCutsOff) {
  for (const char* through : {"6", "10", "9"}) {  // int32, float16, bool
    graph::Model model = parse(std::string("g (float[4] x) => (float[4] y) { a = Cast<to = ") + through +
                               ">(x)  y = Cast<to = 1>(a) }");
    EXPECT_THAT(expect_untouched(merge_casts, model), ::testing::HasSubstr("may change"));
  }
  graph::Model big = parse("g (int64[4] x) => (int64[4] y) { a = Cast<to = 1>(x)  y = Cast<to = 7>(a) }");
  expect_untouched(merge_casts, big);
  graph::Model sign = parse("g (int8[4] x) => (int8[4] y) { a = Cast<to = 4>(x)  y = Cast<to = 3>(a) }");
  expect_untouched(merge_casts, sign);
}

TEST(MergeTransposesTest, ComposeInTheRightOrder) {
  graph::Model model = parse(R"(g (float[2,3,4] x) => (float[3,4,2] y) {
      a = Transpose<perm = [2, 0, 1]>(x)
      y = Transpose<perm = [2, 0, 1]>(a) })");
  EXPECT_EQ(run(merge_transposes, model).rewrites.size(), 1U);
  // a[i,j,k] = x[j,k,i], y[i,j,k] = a[j,k,i] = x[k,i,j].
  EXPECT_EQ(ops::permutation_of(model.graph, only(model, "Transpose")), (graph::Dims{1, 2, 0}));
}

TEST(MergeTransposesTest, TheFirstStaysForItsOtherReader) {
  graph::Model model = parse(R"(g (float[2,3] x) => (float[2,3] y, float[3,2] r) {
      a = Transpose<perm = [1, 0]>(x)
      y = Transpose<perm = [1, 0]>(a)
      r = Relu(a) })");
  run(merge_transposes, model);
  EXPECT_EQ(count(model, "Transpose"), 2);
}

TEST(MergeReshapesTest, AnyMoveThatKeepsTheOrder) {
  graph::Model model = parse(R"(g (float[2,3,4] x) => (float[6,4] y) <int64[1] one = {1}, int64[2] s = {6, 4}> {
      a = Unsqueeze(x, one)
      b = Flatten(a)
      y = Reshape(b, s) })");
  run(merge_reshapes, model);
  EXPECT_EQ(model.graph.node_count(), 1U);
}

TEST(MergeReshapesTest, KeepsADynamicBatch) {
  graph::Model model = parse(R"(g (float[N,3,4] x) => (float[N,12] y)
    <int64[3] s = {0, 4, 3}, int64[2] t = {0, 12}> {
      a = Reshape(x, s)
      y = Reshape(a, t) })");
  run(merge_reshapes, model);
  EXPECT_EQ(count(model, "Reshape"), 1);
  EXPECT_EQ(model.graph.value(model.graph.outputs()[0]).type.shape->at(0).symbol, "N");
}

TEST(MergeReshapesTest, LeavesATargetThatCopiesAMiddleDimension) {
  graph::Model model = parse(R"(g (float[N,3,M] x) => (float[A,B] y)
    <int64[2] s = {-1, 3}, int64[2] t = {0, -1}> {
      a = Reshape(x, s)
      y = Reshape(a, t) })");
  expect_untouched(merge_reshapes, model);
}

// Expected: numpy, x[::-1][1:7:2] of 0..9 = 8, 6, 4.
TEST(MergeSlicesTest, NegativeSteps) {
  graph::Model model = parse(R"(g (float[10] x) => (float[3] y)
    <int64[1] last = {-1}, int64[1] first = {-9223372036854775808}, int64[1] axis = {0}, int64[1] one = {1},
     int64[1] seven = {7}, int64[1] two = {2}> {
      a = Slice(x, last, first, axis, last)
      y = Slice(a, one, seven, axis, two) })");
  EXPECT_EQ(run(merge_slices, model).rewrites.size(), 1U);
  const auto form = ops::slice_form(model.graph, only(model, "Slice"));
  const ops::SliceRange range = ops::clamp_slice(form->starts[0], form->ends[0], form->steps[0], 10);
  EXPECT_EQ(range.start, 8);
  EXPECT_EQ(range.step, -2);
  EXPECT_EQ(range.count, 3);
}

// x[::-1][::-1] runs down to element 0 in between: an end of -1 would mean the last element.
TEST(MergeSlicesTest, DownToTheFirstElement) {
  graph::Model model = parse(R"(g (float[10] x) => (float[5] y)
    <int64[1] last = {-1}, int64[1] first = {-9223372036854775808}, int64[1] axis = {0}, int64[1] zero = {0},
     int64[1] ten = {10}, int64[1] two = {2}> {
      a = Slice(x, last, first, axis, last)
      y = Slice(a, zero, ten, axis, two) })");
  run(merge_slices, model);
  const auto form = ops::slice_form(model.graph, only(model, "Slice"));
  const ops::SliceRange range = ops::clamp_slice(form->starts[0], form->ends[0], form->steps[0], 10);
  EXPECT_EQ(range.start, 9);
  EXPECT_EQ(range.count, 5);
}

TEST(MergeSlicesTest, DifferentAxesNeedNoSize) {
  graph::Model model = parse(R"(g (float[N,M] x) => (float[A,B] y)
    <int64[1] one = {1}, int64[1] zero = {0}, int64[1] most = {9223372036854775807}> {
      a = Slice(x, one, most, zero)
      y = Slice(a, one, most, one) })");
  run(merge_slices, model);
  EXPECT_EQ(count(model, "Slice"), 1);
}

TEST(MergeSlicesTest, LeavesOneAxisOfUnknownSize) {
  graph::Model model = parse(R"(g (float[N] x) => (float[A] y)
    <int64[1] one = {1}, int64[1] zero = {0}, int64[1] most = {9223372036854775807}> {
      a = Slice(x, one, most, zero)
      y = Slice(a, one, most, zero) })");
  expect_untouched(merge_slices, model);
}

TEST(MergeConcatsTest, OneInsideAnother) {
  graph::Model model = parse(R"(g (float[1,2] a, float[1,3] b, float[1,4] c) => (float[1,9] y) {
      i = Concat<axis = 1>(a, b)
      y = Concat<axis = -1>(i, c) })");
  EXPECT_EQ(run(merge_concats, model).rewrites.size(), 1U);
  EXPECT_EQ(model.graph.node(only(model, "Concat")).inputs.size(), 3U);
}

TEST(MergeConcatsTest, LeavesOtherAxesAndSharedOnes) {
  graph::Model axes = parse(R"(g (float[1,2] a, float[1,2] b, float[2,2] c) => (float[2,4] y) {
      i = Concat<axis = 0>(a, b)
      y = Concat<axis = 1>(i, c) })");
  expect_untouched(merge_concats, axes);
  graph::Model shared = parse(R"(g (float[1,2] a, float[1,3] b) => (float[1,7] y, float[1,5] r) {
      i = Concat<axis = 1>(a, b)
      y = Concat<axis = 1>(i, a)
      r = Relu(i) })");
  expect_untouched(merge_concats, shared);
}

TEST(MergeConcatsTest, UndoesASplitInOrderOnly) {
  graph::Model model = parse(R"(g (float[4,6] x) => (float[4,6] y) {
      r = Relu(x)
      a, b = Split<axis = 1, num_outputs = 2>(r)
      y = Concat<axis = 1>(a, b) })");
  EXPECT_EQ(run(merge_concats, model).rewrites.size(), 1U);
  EXPECT_EQ(model.graph.node_count(), 1U);
  graph::Model swapped = parse(R"(g (float[4,6] x) => (float[4,6] y) {
      a, b = Split<axis = 1, num_outputs = 2>(x)
      y = Concat<axis = 1>(b, a) })");
  expect_untouched(merge_concats, swapped);
}

}  // namespace
}  // namespace tempera::pass
