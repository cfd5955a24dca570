#include "tempera/graph/graph.h"

#include <gtest/gtest.h>

#include "tempera/base/error.h"
#include "tempera/graph/model.h"

namespace tempera::graph {
namespace {

const ValueType kVector = ValueType::tensor(DataType::kFloat32, Shape{4});

// y = Relu(Neg(x))
struct Chain {
  Graph g;
  ValueId x = g.add_input("x", kVector);
  ValueId n = g.add_node("Neg", {x}, "n");
  ValueId y = g.add_node("Relu", {n}, "y");
  Chain() { g.add_output(y); }
};

TEST(GraphTest, UseListsFollowEveryChange) {
  Chain c;
  EXPECT_TRUE(c.g.has_single_use(c.n));
  c.g.set_input(c.g.producer(c.y), 0, c.x);
  EXPECT_TRUE(c.g.is_unused(c.n));
  EXPECT_EQ(c.g.uses(c.x).size(), 2U);
  EXPECT_EQ(c.g.remove_dead(), 1U);
  EXPECT_EQ(c.g.uses(c.x).size(), 1U);
  verify(c.g);
}

TEST(GraphTest, ReplacingAnOutputKeepsItsName) {
  Chain c;
  const ValueId abs = c.g.add_node("Abs", {c.x}, "abs");
  c.g.replace_uses(c.y, abs);
  c.g.remove_dead();
  ASSERT_EQ(c.g.outputs().size(), 1U);
  EXPECT_EQ(c.g.value(c.g.outputs()[0]).name, "y");
  EXPECT_EQ(c.g.node(c.g.producer(c.g.outputs()[0])).op_type, "Abs");
  verify(c.g);
}

TEST(GraphTest, ReplacingAnOutputByAnInputPutsAnIdentityBetween) {
  Chain c;
  c.g.replace_uses(c.y, c.x);
  c.g.remove_dead();
  EXPECT_EQ(c.g.value(c.g.outputs()[0]).name, "y");
  EXPECT_EQ(c.g.node(c.g.producer(c.g.outputs()[0])).op_type, "Identity");
  verify(c.g);
}

TEST(GraphTest, NamesStayApart) {
  Graph g;
  const ValueId b = g.add_value("b");
  const ValueId b_1 = g.add_value("b_1");
  const ValueId again = g.add_value("b");
  EXPECT_EQ(g.value(b).name, "b");
  EXPECT_EQ(g.value(b_1).name, "b_1");
  EXPECT_NE(g.value(again).name, "b");
  EXPECT_NE(g.value(again).name, "b_1");
  EXPECT_THROW(g.rename(again, "b"), Error);
}

TEST(GraphTest, SortOrdersByDependencyAndKeepsTheRest) {
  Graph g;
  const ValueId x = g.add_input("x", kVector);
  const ValueId late = g.add_value("late");
  Node early;
  early.op_type = "Relu";
  early.inputs = {late};
  early.outputs = {g.add_value("y")};
  const NodeId relu = g.add_node(early);
  Node source;
  source.op_type = "Neg";
  source.inputs = {x};
  source.outputs = {late};
  const NodeId neg = g.add_node(source);
  g.add_output(early.outputs[0]);
  g.sort();
  EXPECT_EQ(g.nodes(), (std::vector<NodeId>{neg, relu}));
  verify(g);
}

TEST(GraphTest, SortNamesANodeOnACycle) {
  Chain c;
  c.g.set_input(c.g.producer(c.n), 0, c.y);
  try {
    c.g.sort();
    FAIL() << "the cycle went unseen";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kBadModel);
    EXPECT_EQ(error.context().at(0), "node 'n' (Neg)");
  }
}

// if (cond) { y = Neg(t) } else { y = t2 } with t captured by the first body.
struct Branch {
  Graph g;
  ValueId cond = g.add_input("cond", ValueType::tensor(DataType::kBool, Shape{}));
  ValueId x = g.add_input("x", kVector);
  ValueId t = g.add_node("Abs", {x}, "t");
  NodeId branch;
  Branch() {
    Graph then;
    const ValueId seen = then.add_capture(t, "t");
    then.add_output(then.add_node("Neg", {seen}, "then_y"));
    Graph otherwise;
    otherwise.add_output(otherwise.add_initializer("else_y", Tensor::from<float>({4}, {0, 0, 0, 0})));
    Node node;
    node.op_type = "If";
    node.inputs = {cond};
    node.outputs = {g.add_value("y", kVector)};
    node.attributes.emplace("then_branch", Body(then));
    node.attributes.emplace("else_branch", Body(otherwise));
    branch = g.add_node(node);
    g.add_output(node.outputs[0]);
  }
};

TEST(GraphTest, ACapturedValueIsPinned) {
  Branch b;
  EXPECT_TRUE(b.g.is_captured_by_body(b.t));
  EXPECT_TRUE(b.g.is_pinned(b.t));
  EXPECT_FALSE(b.g.is_unused(b.t));
  EXPECT_EQ(b.g.remove_dead(), 0U);
  verify(b.g);
}

TEST(GraphTest, ReplacingACapturedValueReachesTheBody) {
  Branch b;
  b.g.replace_uses(b.t, b.x);
  EXPECT_EQ(b.g.remove_dead(), 1U);
  EXPECT_EQ(b.g.body(b.branch, "then_branch").captures().at(0).outer, b.x);
  verify(b.g);
}

TEST(GraphTest, ACopyIsIndependentAndEqual) {
  Branch b;
  Graph copy = b.g;
  EXPECT_TRUE(same_graph(b.g, copy, true));
  Graph& body = copy.body(b.branch, "then_branch");
  body.set_operator(body.nodes().at(0), "Abs");
  EXPECT_FALSE(same_graph(b.g, copy));
  EXPECT_EQ(b.g.body(b.branch, "then_branch").node(body.nodes().at(0)).op_type, "Neg");
}

TEST(GraphTest, AnInputWithADefaultIsNoConstant) {
  Graph g;
  const ValueId x = g.add_input("x", kVector);
  g.set_constant(x, Tensor::from<float>({4}, {1, 2, 3, 4}));
  EXPECT_FALSE(g.constant(x).has_value());
  const ValueId w = g.add_initializer("w", Tensor::scalar(2.0F));
  EXPECT_TRUE(g.constant(w).has_value());
  const ValueId c = g.add_node("Constant", {}, "c", {{"value_ints", std::vector<std::int64_t>{1, 2}}});
  EXPECT_EQ(to_int64s(*g.constant(c)), (std::vector<std::int64_t>{1, 2}));
}

}  // namespace
}  // namespace tempera::graph
