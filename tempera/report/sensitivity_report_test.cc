#include "tempera/report/sensitivity_report.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace tempera::report {
namespace {

SensitivityReport sample() {
  SensitivityReport report;
  report.precision = "f32";
  report.formats = {"int8", "int4-weights"};
  report.rows = {{"conv_a", "Conv", 100, 400, {{1e-3, ""}, {1e-2, ""}}},
                 {"conv_b", "Conv", 100, 400, {{2e-2, ""}, {1e-1, ""}}},
                 {"scores", "MatMul", 100, 0, {{5e-3, ""}, {std::nullopt, "no <weights>"}}}};
  return report;
}

TEST(SensitivityReportTest, TableListsTheMostSensitiveFirst) {
  const std::string table = to_table(sample());
  EXPECT_LT(table.find("conv_b"), table.find("scores"));
  EXPECT_LT(table.find("scores"), table.find("conv_a"));
}

TEST(SensitivityReportTest, JsonKeepsTheGraphsOrderAndNullForTheImpossible) {
  const auto json = nlohmann::json::parse(to_json(sample()));
  EXPECT_EQ(json.at("layers").at(0).at("layer"), "conv_a");
  EXPECT_EQ(json.at("layers").at(2).at("formats").at("int4-weights").at("loss"), nullptr);
  EXPECT_EQ(json.at("layers").at(2).at("formats").at("int4-weights").at("reason"), "no <weights>");
}

// Decades run from 1e-3 to 1e-1 rounded outwards: the greatest loss fills its bar, the least leaves it empty.
TEST(SensitivityReportTest, BarsAreLogarithmic) {
  const std::string page = to_html(sample());
  EXPECT_NE(page.find("width:100.0%"), std::string::npos);
  EXPECT_NE(page.find("width:50.0%"), std::string::npos);  // 1e-2
  EXPECT_NE(page.find("no &lt;weights&gt;"), std::string::npos);
}

}  // namespace
}  // namespace tempera::report
