#include "tempera/report/report.h"

#include <limits>

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

Report searched() {
  Report report = sample();
  report.layers = {{"conv_1", "Conv", "int8 x int8", "", "brgconv_avx512_amx_u8", 0.012, 1.3, 0.004, 4000, 1040},
                   {"head", "Conv", "float", "loss alone is 9 %", "brgconv_bf16", 0.09, std::nullopt, 0.0, 400, 400}};
  report.trials = {{"float", 0.001, 10.0, 4'000'000, true, false},
                   {"all int8", 0.09, 4.0, 1'000'000, false, false},
                   {"int8 but <head>", 0.02, 5.0, 1'100'000, true, true}};
  report.layers_of = "int8 but <head>";
  report.loss_name = "relative L2";
  report.loss_limit = 0.05;
  return report;
}

TEST(ReportTest, ValuesOfAnOutputAreDrawnAgainstTheOriginal) {
  Report report = sample();
  EXPECT_EQ(to_html(report).find("Outputs against the original"), std::string::npos);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  report.scatters.push_back({"score <1>", {0.0, 1.0, nan, 3.0}, {0.5, 1.0, 2.0, 2.5}, 0.98, nan});
  const std::string page = to_html(report);
  EXPECT_NE(page.find("score &lt;1&gt;: 4 values, correlation 0.98000"), std::string::npos);
  std::size_t dots = 0;
  for (std::size_t at = page.find("class=dot"); at != std::string::npos; at = page.find("class=dot", at + 1)) {
    ++dots;
  }
  EXPECT_EQ(dots, 3U) << "a value that is not a number has no place";
  const auto json = nlohmann::json::parse(to_json(report));
  EXPECT_EQ(json.at("correlations").at(0).at("values"), 4);
  EXPECT_EQ(json.at("correlations").at(0).at("pearson"), 0.98);
  EXPECT_TRUE(json.at("correlations").at(0).at("spearman").is_null());
}

TEST(ReportTest, AConstantOutputIsDrawnToo) {
  Report report = sample();
  report.scatters.push_back({"score", {2.0, 2.0}, {2.0, 2.0}, 1.0, 1.0});
  EXPECT_NE(to_html(report).find("class=dot"), std::string::npos);
}

TEST(ReportTest, StepsAreToldInTheirOrderWhereThereAreSeveral) {
  Report report = sample();
  report.history = {"prune: channels"};
  EXPECT_EQ(to_table(report, false).find("steps:"), std::string::npos);
  report.history.emplace_back("quantize: int8 x int8");
  EXPECT_NE(to_table(report, false).find("steps: prune: channels; then quantize: int8 x int8\n"), std::string::npos);
  EXPECT_NE(to_html(report).find("prune: channels; then quantize: int8 x int8"), std::string::npos);
  EXPECT_EQ(nlohmann::json::parse(to_json(report)).at("history").size(), 2U);
}

TEST(ReportTest, FiguresStandSideBySide) {
  Report report = sample();
  report.figures = {{"parameters", "", 35.7e6, 912}, {"weights", "bytes", 1000, 999}, {"work", "FLOP", 2.5e9, 40}};
  const std::string table = to_table(report, false);
  EXPECT_NE(table.find("parameters: 35.7 M -> 912\n"), std::string::npos) << table;
  EXPECT_NE(table.find("weights: 1 kB -> 999 B\n"), std::string::npos) << table;
  EXPECT_NE(table.find("work: 2.5 GFLOP -> 40 FLOP\n"), std::string::npos) << table;
  EXPECT_NE(to_json(report).find("\"before\": 35700000.0"), std::string::npos);
  EXPECT_NE(to_html(report).find("<td>parameters<td>35.7 M<td>912<td>0.0 %"), std::string::npos);
}

TEST(ReportTest, LayersAndTrialsAreInTheJson) {
  const auto json = nlohmann::json::parse(to_json(searched()));
  EXPECT_EQ(json.at("layers").at(0).at("format"), "int8 x int8");
  EXPECT_EQ(json.at("layers").at(1).at("speedup"), nullptr);
  EXPECT_EQ(json.at("trials").at(2).at("chosen"), true);
  EXPECT_EQ(json.at("loss_limit"), 0.05);
}

TEST(ReportTest, PageDrawsEveryTrialOnBothCurves) {
  const std::string page = to_html(searched());
  const auto count = [&](const std::string& text) {
    std::size_t found = 0;
    for (std::size_t at = page.find(text); at != std::string::npos; at = page.find(text, at + 1)) {
      ++found;
    }
    return found;
  };
  EXPECT_EQ(count("<svg"), 2U);
  EXPECT_EQ(count("<circle class=pick"), 2U);
  EXPECT_EQ(count("<circle class=over"), 2U);
  EXPECT_EQ(count("int8 but &lt;head&gt;"), 3U);  // a point on either curve, and the layers' heading
  EXPECT_EQ(count("class=budget"), 2U);
}

TEST(ReportTest, TableCountsLayersByFormat) {
  EXPECT_NE(to_table(searched(), false).find("layers of int8 but <head>: 1 x float, 1 x int8 x int8"), std::string::npos);
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
