#include "tempera/ops/operators.h"

#include <algorithm>
#include <set>

#include <gtest/gtest.h>
#include <onnx/defs/schema.h>

namespace tempera::ops {
namespace {

TEST(OperatorsTest, ListsEveryStandardOperatorOfTheOnnxLibrary) {
  std::set<std::string> known;
  for (const onnx::OpSchema& schema : onnx::OpSchemaRegistry::get_all_schemas_with_history()) {
    if (schema.domain().empty()) {
      known.insert(schema.Name());
    }
  }
  std::set<std::string> listed;
  for (const Operator& row : operators()) {
    EXPECT_TRUE(listed.insert(std::string(row.op_type)).second) << row.op_type << " is listed twice";
  }
  EXPECT_EQ(listed, known);
}

TEST(OperatorsTest, IsSortedSoThatItCanBeSearched) {
  EXPECT_TRUE(std::is_sorted(operators().begin(), operators().end(),
                             [](const Operator& a, const Operator& b) { return a.op_type < b.op_type; }));
  for (const Operator& row : operators()) {
    EXPECT_EQ(find_operator(row.op_type), &row);
  }
}

TEST(OperatorsTest, OtherDomainsAreUnknownAndNeverPure) {
  EXPECT_EQ(find_operator("Add", "com.example"), nullptr);
  graph::Node custom;
  custom.op_type = "Add";
  custom.domain = "com.example";
  EXPECT_FALSE(is_pure(custom));
  graph::Node random;
  random.op_type = "RandomNormal";
  EXPECT_FALSE(is_pure(random));
}

}  // namespace
}  // namespace tempera::ops
