#include "tempera/report/report.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace tempera::report {
namespace {

Report sample() {
  Report report;
  report.command = "tempera optimize m.onnx";
  report.summary = "2.00x faster";
  Candidate original;
  original.name = "original f32";
  original.latency.median_ms = 10;
  original.file_bytes = 2'824'749;
  Candidate rewritten;
  rewritten.name = "rewritten <bf16>";
  rewritten.chosen = true;
  rewritten.latency.median_ms = 5;
  rewritten.speedup = {2.0, 1.9, 1.02, 30, true};
  rewritten.losses.push_back({"SR", "psnr_y", "dB", 27.25, 26.0, "coffee.png", 27.28, 0.1, true});
  report.candidates = {original, rewritten};
  report.passes.push_back({"split_sliced", 1.5, {{"to_qkv", "Conv -> 3 Conv"}}, {}, 1.9, ""});
  report.pictures.push_back({"coffee.png", "", std::string("\x01\x02\x03\x04", 4), "", "", 8});
  return report;
}

TEST(ReportTest, JsonNamesSchemaVersionAndTheChosenCandidate) {
  const auto json = nlohmann::json::parse(to_json(sample()));
  EXPECT_EQ(json.at("schema"), "tempera.report");
  EXPECT_EQ(json.at("version"), kSchemaVersion);
  EXPECT_TRUE(json.at("candidates").at(1).at("chosen"));
  EXPECT_EQ(json.at("candidates").at(1).at("losses").at(0).at("worst_sample"), "coffee.png");
  EXPECT_EQ(json.at("passes").at(0).at("rewrites").at(0).at("node"), "to_qkv");
}

TEST(ReportTest, PageEscapesTextAndEmbedsPictures) {
  const std::string page = to_html(sample());
  EXPECT_EQ(page.find("<bf16>"), std::string::npos);
  EXPECT_NE(page.find("rewritten &lt;bf16&gt;"), std::string::npos);
  EXPECT_NE(page.find("data:image/png;base64,AQIDBA=="), std::string::npos);
}

TEST(ReportTest, TableMarksTheChosenRow) {
  const std::string table = to_table(sample(), false);
  EXPECT_NE(table.find("* rewritten <bf16>"), std::string::npos);
  EXPECT_NE(table.find("psnr_y 27.25 dB"), std::string::npos);
  EXPECT_EQ(table.find('\x1b'), std::string::npos);
}

TEST(ReportTest, BytesAreDecimalWithThreeDigits) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(999), "999 B");
  EXPECT_EQ(human_bytes(2'824'749), "2.82 MB");
  EXPECT_EQ(human_bytes(143'000'000), "143 MB");
}

}  // namespace
}  // namespace tempera::report
