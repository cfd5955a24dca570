#include "tempera/ops/flops.h"

#include <gtest/gtest.h>

namespace tempera::ops {
namespace {

using graph::DataType;
using graph::Graph;
using graph::Shape;
using graph::ValueId;
using graph::ValueType;

ValueType floats(Shape shape) { return ValueType::tensor(DataType::kFloat32, std::move(shape)); }

std::optional<std::int64_t> count(Graph& g, std::string_view op, std::vector<ValueId> inputs, Shape result,
                                  std::map<std::string, graph::Attribute, std::less<>> attributes = {}) {
  const ValueId out = g.add_node(op, std::move(inputs), "out", std::move(attributes));
  g.set_type(out, floats(std::move(result)));
  return flops(g, g.producer(out));
}

TEST(FlopsTest, TwoForEachMultiplyAccumulate) {
  Graph g;
  const auto in = [&](Shape shape) { return g.add_input("x", floats(std::move(shape))); };
  // 8 x 5 x 5 outputs, each 4 / 2 channels x 3 x 3 products.
  EXPECT_EQ(count(g, "Conv", {in({1, 4, 7, 7}), in({8, 2, 3, 3})}, {1, 8, 5, 5}, {{"group", std::int64_t{2}}}),
            2 * 8 * 25 * 18);
  // 4 x 7 x 7 inputs, each spread over 6 channels x 2 x 2.
  EXPECT_EQ(count(g, "ConvTranspose", {in({1, 4, 7, 7}), in({4, 6, 2, 2})}, {1, 6, 8, 8}), 2 * 4 * 49 * 24);
  EXPECT_EQ(count(g, "MatMul", {in({5, 2, 3}), in({3, 7})}, {5, 2, 7}), 2 * 5 * 2 * 3 * 7);
  EXPECT_EQ(count(g, "Gemm", {in({3, 2}), in({3, 7})}, {2, 7}, {{"transA", std::int64_t{1}}}), 2 * 2 * 3 * 7);
  EXPECT_EQ(count(g, "Einsum", {in({1, 4, 5, 6}), in({1, 4, 7, 6})}, {1, 4, 5, 7},
                  {{"equation", std::string("bhid, bhjd -> bhij")}}),
            2 * 4 * 5 * 7 * 6);
  // Q K^T: 3 x 5 x 8 products; times V: 3 x 5 x 9.
  EXPECT_EQ(count(g, "Attention", {in({1, 2, 3, 8}), in({1, 2, 5, 8}), in({1, 2, 5, 9})}, {1, 2, 3, 9}),
            2 * 2 * 3 * 5 * (8 + 9));
  EXPECT_EQ(count(g, "Relu", {in({1000})}, {1000}), 0);
}

TEST(FlopsTest, UnknownShapesAreCountedApart) {
  Graph g;
  const ValueId x = g.add_input("x", floats({graph::Dim("n"), 3}));
  const ValueId w = g.add_input("w", floats({3, 4}));
  EXPECT_EQ(count(g, "MatMul", {x, w}, {graph::Dim("n"), 4}), std::nullopt);
  EXPECT_EQ(count_flops(g).unknown_nodes, 1);
}

TEST(FlopsTest, HostileShapesDoNotOverflow) {
  Graph g;
  constexpr std::int64_t kHuge = std::int64_t{1} << 40;
  const ValueId x = g.add_input("x", floats({kHuge, kHuge}));
  EXPECT_EQ(count(g, "MatMul", {x, x}, {kHuge, kHuge}), std::nullopt);
}

}  // namespace
}  // namespace tempera::ops
