#include "tempera/pass/layout/pool_by_planes.h"

#include <random>

#include <fmt/format.h>

#include "tempera/pass/testing.h"

namespace tempera::pass {
namespace {

using testing::count;
using testing::expect_untouched;
using testing::only;
using testing::parse;

PassContext openvino() {
  PassContext context;
  context.target_engine = "openvino";
  return context;
}

PassResult run(graph::Model& model) { return testing::run(pool_by_planes, model, openvino()); }

graph::Model volumes(const std::string& pool, std::string_view outputs = "y") {
  return parse(fmt::format("g (float[2,3,6,5,4] x) => ({}) {{ {} }}", outputs, pool));
}

TEST(PoolByPlanesTest, BecomesTwoPools) {
  graph::Model model = volumes("y = MaxPool<kernel_shape = [2, 3, 2], strides = [2, 1, 2]>(x)");
  EXPECT_EQ(run(model).rewrites.size(), 1U);
  EXPECT_EQ(count(model, "MaxPool"), 2);
  EXPECT_EQ(count(model, "Reshape"), 3);
}

TEST(PoolByPlanesTest, TheBatchMayBeDynamic) {
  graph::Model model =
      parse("g (float[N,3,6,5,4] x) => (float[N,3,3,2,2] y) { y = MaxPool<kernel_shape = [2, 2, 2], strides = [2, 2, 2]>(x) }");
  EXPECT_EQ(run(model).rewrites.size(), 1U);
}

TEST(PoolByPlanesTest, RandomWindows) {
  std::mt19937 generator(5);
  const auto pick = [&](std::size_t low, std::size_t high) { return low + generator() % (high - low + 1); };
  for (int i = 0; i < 40; ++i) {
    const std::size_t kernel[] = {pick(2, 3), pick(1, 3), pick(2, 3)};
    const auto pad = [&](std::size_t axis) { return pick(0, kernel[axis] - 1); };
    graph::Model model = volumes(fmt::format(
        "y = MaxPool<kernel_shape = [{}, {}, {}], strides = [{}, {}, {}], pads = [{}, {}, {}, {}, {}, {}]>(x)",
        kernel[0], kernel[1], kernel[2], pick(1, 3), pick(1, 2), pick(1, 2), pad(0), pad(1), pad(2), pad(0), pad(1), pad(2)));
    EXPECT_EQ(run(model).rewrites.size(), 1U);
  }
  graph::Model dilated = volumes("y = MaxPool<kernel_shape = [2, 2, 2], dilations = [3, 2, 1]>(x)");
  EXPECT_EQ(run(dilated).rewrites.size(), 1U);
}

TEST(PoolByPlanesTest, LeavesOthers) {
  graph::Model elsewhere = volumes("y = MaxPool<kernel_shape = [2, 2, 2]>(x)");
  EXPECT_EQ(expect_untouched(pool_by_planes, elsewhere), "") << "another target";
  for (const std::string pool : {"y = MaxPool<kernel_shape = [1, 2, 2]>(x)", "y = MaxPool<kernel_shape = [2, 1, 1]>(x)",
                                 "y = AveragePool<kernel_shape = [2, 2, 2]>(x)",
                                 "r = Relu(x)  y = MaxPool<kernel_shape = [2, 2, 2]>(r)"}) {
    graph::Model model = volumes(pool);
    EXPECT_EQ(expect_untouched(pool_by_planes, model, openvino()), "") << pool;
  }
  graph::Model indices = volumes("y, i = MaxPool<kernel_shape = [2, 2, 2]>(x)", "y, int64[2,3,5,4,3] i");
  EXPECT_EQ(expect_untouched(pool_by_planes, indices, openvino()), "it also gives the places of the maxima");
  graph::Model same = volumes("y = MaxPool<kernel_shape = [2, 2, 2], auto_pad = \"SAME_UPPER\">(x)");
  EXPECT_EQ(expect_untouched(pool_by_planes, same, openvino()), "its padding is left to the engine");
  graph::Model ceiled = volumes("y = MaxPool<kernel_shape = [2, 2, 2], strides = [2, 2, 2], ceil_mode = 1>(x)");
  EXPECT_EQ(expect_untouched(pool_by_planes, ceiled, openvino()),
            "its last windows may lie in the padding, which engines count in different ways");
  graph::Model dynamic =
      parse("g (float[1,3,D,5,4] x) => (float[1,3,E,4,3] y) { y = MaxPool<kernel_shape = [2, 2, 2]>(x) }");
  EXPECT_EQ(expect_untouched(pool_by_planes, dynamic, openvino()), "");
}

}  // namespace
}  // namespace tempera::pass
