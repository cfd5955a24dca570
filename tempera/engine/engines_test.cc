#include "tempera/engine/engines.h"

#include <algorithm>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tempera/base/error.h"

namespace tempera::engine {
namespace {

TEST(EnginesTest, EveryEngineStartsUnderItsName) {
  for (const EngineEntry& entry : engines()) {
    EXPECT_EQ(find_engine(entry.name).make()->attributes().name, entry.name);
    EXPECT_FALSE(entry.summary.empty());
  }
}

TEST(EnginesTest, NamesAreUnique) {
  std::vector<std::string> names = engine_names();
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
}

TEST(EnginesTest, AnUnknownNameListsTheNearest) {
  try {
    (void)make_engine("openvno");
    FAIL() << "expected an error";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kNotFound);
    EXPECT_THAT(e.what(), testing::HasSubstr("'openvino'"));
  }
}

}  // namespace
}  // namespace tempera::engine
