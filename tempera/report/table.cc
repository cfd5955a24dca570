#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tempera/report/report.h"

namespace tempera::report {
namespace {

std::string measure(const Loss& loss) {
  const std::string unit = loss.unit.empty() ? "" : " " + loss.unit;
  const std::string value = std::fabs(loss.value) != 0.0 && std::fabs(loss.value) < 1e-3
                                ? fmt::format("{:.1e}", loss.value)
                                : fmt::format("{:.4g}", loss.value);
  const std::string before =
      loss.baseline.has_value() ? fmt::format(" (original {:.4g})", *loss.baseline) : "";
  return fmt::format("{} {}{}{}", loss.metric, value, unit, before);
}

// The loss that stands for the candidate in one line: the first out of budget, else the first.
std::string headline_loss(const Candidate& candidate) {
  if (candidate.losses.empty()) {
    return "not measured";
  }
  const auto over =
      std::find_if(candidate.losses.begin(), candidate.losses.end(), [](const Loss& l) { return !l.within; });
  return measure(over != candidate.losses.end() ? *over : candidate.losses.front());
}

// Columns padded to their widest cell; the first is left-aligned, the others right.
std::string layout(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()), 0);
    for (std::size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], row[i].size());
    }
  }
  std::string out;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const bool left = i == 0 || i + 1 == row.size();
      line += left ? fmt::format("{:<{}}", row[i], widths[i]) : fmt::format("{:>{}}", row[i], widths[i]);
      line += i + 1 < row.size() ? "  " : "";
    }
    out += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return out;
}

}  // namespace

std::string human_bytes(std::int64_t bytes) {
  constexpr std::array<const char*, 5> kUnits = {"B", "kB", "MB", "GB", "TB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 999.5 && unit + 1 < kUnits.size()) {
    value /= 1000.0;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.3g} {}", value, kUnits[unit]);
}

std::string human_figure(double value, const std::string& unit) {
  if (unit == "bytes") {
    return human_bytes(static_cast<std::int64_t>(value));
  }
  constexpr std::array<const char*, 5> kPrefixes = {"", " k", " M", " G", " T"};
  std::size_t prefix = 0;
  while (std::fabs(value) >= 999.5 && prefix + 1 < kPrefixes.size()) {
    value /= 1000.0;
    ++prefix;
  }
  return fmt::format("{:.3g}{}{}", value, kPrefixes[prefix], unit.empty() ? "" : (prefix == 0 ? " " : "") + unit);
}

namespace {

// "52 x int8 x int8, 3 x float", most frequent first.
std::string layer_summary(const Report& report) {
  std::map<std::string, std::vector<const LayerRecord*>> by_format;
  for (const LayerRecord& layer : report.layers) {
    by_format[layer.format].push_back(&layer);
  }
  std::vector<std::pair<std::string, std::vector<const LayerRecord*>>> sorted(by_format.begin(), by_format.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second.size() > b.second.size(); });
  std::string out;
  for (const auto& [format, layers] : sorted) {
    out += fmt::format("{}{} x {}", out.empty() ? "" : ", ", layers.size(), format);
  }
  return out;
}

}  // namespace

std::string to_table(const Report& report, bool color) {
  const auto paint = [&](const char* code, const std::string& text) {
    return color ? fmt::format("\x1b[{}m{}\x1b[0m", code, text) : text;
  };
  std::vector<std::vector<std::string>> rows = {
      {"", "median ms", "p95 ms", "speed-up", "at least", "file", "memory", "loss on held-out data"}};
  for (const Candidate& c : report.candidates) {
    const bool baseline = &c == &report.candidates.front();
    rows.push_back({(c.chosen ? "* " : "  ") + c.name, fmt::format("{:.2f}", c.latency.median_ms),
                    fmt::format("{:.2f}", c.latency.p95_ms),
                    baseline ? "1" : fmt::format("{:.2f}x", c.speedup.median),
                    baseline ? "" : fmt::format("{:.2f}x", c.speedup.lower95), human_bytes(c.file_bytes),
                    c.peak_memory_bytes > 0 ? human_bytes(c.peak_memory_bytes) : "-",
                    baseline && c.losses.empty() ? "reference" : headline_loss(c)});
  }
  std::string out = paint("1", report.summary) + "\n\n" + layout(rows);
  for (const Candidate& c : report.candidates) {
    out += c.verdict.empty() ? "" : fmt::format("  {}: {}\n", c.name, c.verdict);
  }
  if (report.history.size() > 1) {
    out += fmt::format("steps: {}\n", fmt::join(report.history, "; then "));
  }
  for (const Figure& figure : report.figures) {
    out += fmt::format("{}: {} -> {}\n", figure.name, human_figure(figure.before, figure.unit),
                       human_figure(figure.after, figure.unit));
  }
  std::size_t fired = 0;
  std::string list;
  for (const PassRecord& pass : report.passes) {
    if (!pass.rewrites.empty()) {
      fired += pass.rewrites.size();
      list += fmt::format("{}{} x{}{}", list.empty() ? "" : ", ", pass.name, pass.rewrites.size(),
                          pass.reverted.empty() ? "" : " (reverted)");
    }
  }
  if (fired > 0) {
    out += fmt::format("rewrites: {}\n", list);
  }
  if (!report.layers.empty()) {
    out += fmt::format("layers of {}: {}\n", report.layers_of.empty() ? "the best mix found" : report.layers_of, layer_summary(report));
  }
  for (const std::string& note : report.notes) {
    out += paint("33", "note: ") + note + "\n";
  }
  return out;
}

}  // namespace tempera::report
