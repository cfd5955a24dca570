#include "tempera/pass/layout/einsum_to_matmul.h"

#include "tempera/ops/access.h"
#include "tempera/pass/testing.h"

namespace tempera::pass {
namespace {

using testing::count;
using testing::expect_untouched;
using testing::parse;
using testing::run;

graph::Model einsum(const std::string& a, const std::string& b, const std::string& equation, const std::string& y) {
  return parse("g (float[" + a + "] x, float[" + b + "] z) => (float[" + y + "] y) { y = Einsum<equation = \"" + equation +
               "\">(x, z) }");
}

struct Case {
  const char* a;
  const char* b;
  const char* equation;
  const char* result;
  int transposes;
};

TEST(EinsumToMatMulTest, EveryMatrixProduct) {
  const Case cases[] = {
      {"2,3,4,5", "2,3,6,5", "b h i d, b h j d -> b h i j", "2,3,4,6", 1},
      {"2,3,4,6", "2,3,6,5", "bhij,bhjd->bhid", "2,3,4,5", 0},
      {"2,4,5", "2,4,6", "bct,bcs->bts", "2,5,6", 1},
      {"2,5,6", "2,4,6", "bts,bcs->bct", "2,4,5", 1},  // operands change places: v w^T
      {"3,4", "4,5", "ij,jk", "3,5", 0},
      {"2,3,4", "4,5,6", "abc,cde->abde", "2,3,5,6", 0},
      {"2,3,4", "3,4,5", "abc,bcd->ad", "2,5", 0},
      {"3", "4", "i,j->ij", "3,4", 0},
      {"5", "5", "i,i->", "", 0},
      {"2,3", "2,3", "ab,ab->ab", "2,3", 0},
      {"2,3,4", "5,4,2", "abc,dca->dab", "5,2,3", -1},
  };
  for (const Case& one : cases) {
    graph::Model model = one.result[0] == '\0'
                             ? parse(std::string("g (float[5] x, float[5] z) => (float y) { y = Einsum<equation = \"") +
                                     one.equation + "\">(x, z) }")
                             : einsum(one.a, one.b, one.equation, one.result);
    const auto dims = ops::dims_of(model.graph, model.graph.outputs()[0]);
    EXPECT_EQ(run(einsum_to_matmul, model).rewrites.size(), 1U) << one.equation;
    EXPECT_EQ(count(model, "MatMul"), 1) << one.equation;
    EXPECT_EQ(ops::dims_of(model.graph, model.graph.outputs()[0]), dims) << one.equation;
    if (one.transposes >= 0) {
      EXPECT_EQ(count(model, "Transpose"), one.transposes) << one.equation;
    }
  }
}

TEST(EinsumToMatMulTest, DynamicSizesThatNeedNotBeMerged) {
  graph::Model model = einsum("B,3,N,5", "B,3,M,5", "bhid,bhjd->bhij", "B,3,N,M");
  run(einsum_to_matmul, model);
  EXPECT_EQ(count(model, "Reshape"), 0);
  EXPECT_EQ(count(model, "MatMul"), 1);
}

TEST(EinsumToMatMulTest, LeavesOthers) {
  graph::Model merged = einsum("A,B,4", "4,C,D", "abc,cde->abde", "A,B,C,D");
  EXPECT_THAT(expect_untouched(einsum_to_matmul, merged), ::testing::HasSubstr("merged"));
  graph::Model diagonal = einsum("3,3", "3,4", "ii,ij->j", "4");
  EXPECT_NE(expect_untouched(einsum_to_matmul, diagonal), "");
  graph::Model summed = einsum("3,4", "5", "ij,k->ik", "3,5");
  EXPECT_THAT(expect_untouched(einsum_to_matmul, summed), ::testing::HasSubstr("within one operand"));
  graph::Model ellipsis = einsum("2,3,4", "2,4,5", "...ij,...jk->...ik", "2,3,5");
  EXPECT_NE(expect_untouched(einsum_to_matmul, ellipsis), "");
  graph::Model one = parse("g (float[3,4] x) => (float[4,3] y) { y = Einsum<equation = \"ij->ji\">(x) }");
  EXPECT_NE(expect_untouched(einsum_to_matmul, one), "");
}

}  // namespace
}  // namespace tempera::pass
