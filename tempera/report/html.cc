#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tempera/report/html_text.h"
#include "tempera/report/report.h"
#include "tempera/report/scatter_chart.h"
#include "tempera/report/trial_chart.h"

namespace tempera::report {
namespace {

// RFC 4648, section 4.
std::string base64(const std::string& bytes) {
  constexpr const char* kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const auto at = [&](std::size_t k) {
      return k < bytes.size() ? static_cast<unsigned char>(bytes[k]) : 0U;
    };
    const unsigned group = (at(i) << 16U) | (at(i + 1) << 8U) | at(i + 2);
    out += kAlphabet[(group >> 18U) & 63U];
    out += kAlphabet[(group >> 12U) & 63U];
    out += i + 1 < bytes.size() ? kAlphabet[(group >> 6U) & 63U] : '=';
    out += i + 2 < bytes.size() ? kAlphabet[group & 63U] : '=';
  }
  return out;
}

std::string number(double value) {
  return value != 0.0 && std::fabs(value) < 1e-3 ? fmt::format("{:.1e}", value)
                                                 : fmt::format("{:.4g}", value);
}

const Candidate* chosen(const Report& report) {
  const auto found = std::find_if(report.candidates.begin(), report.candidates.end(),
                                  [](const Candidate& c) { return c.chosen; });
  return found == report.candidates.end() ? nullptr : &*found;
}

std::string card(const std::string& value, const std::string& caption) {
  return fmt::format("<div class=card><b>{}</b><span>{}</span></div>\n", escape(value), escape(caption));
}

std::string cards(const Report& report) {
  const Candidate* pick = chosen(report);
  if (pick == nullptr || report.candidates.empty()) {
    return {};
  }
  const Candidate& base = report.candidates.front();
  std::string out = "<div class=cards>\n";
  out += card(fmt::format("{:.2f}x", pick->speedup.median),
              fmt::format("faster (at least {:.2f}x, {} pairs)", pick->speedup.lower95, pick->speedup.pairs));
  out += card(fmt::format("{:.2f} ms", pick->latency.median_ms),
              fmt::format("median, was {:.2f} ms", base.latency.median_ms));
  out += card(human_bytes(pick->file_bytes), fmt::format("file, was {}", human_bytes(base.file_bytes)));
  if (pick->peak_memory_bytes > 0) {
    out += card(human_bytes(pick->peak_memory_bytes),
                fmt::format("peak memory, was {}", human_bytes(base.peak_memory_bytes)));
  }
  if (!pick->losses.empty()) {
    const Loss& loss = pick->losses.front();
    out += card(number(loss.value) + (loss.unit.empty() ? "" : " " + loss.unit),
                fmt::format("{} of '{}' on held-out data", loss.metric, loss.output));
  }
  return out + "</div>\n";
}

std::string loss_cell(const Candidate& candidate) {
  std::string out;
  for (const Loss& loss : candidate.losses) {
    out +=
        fmt::format("<div class={}>{}: {} {}{}</div>", loss.within ? "good" : "bad",
                    escape(loss.output + " " + loss.metric), number(loss.value), escape(loss.unit),
                    loss.worst_sample.empty() ? ""
                                              : fmt::format(" <span class=soft>(worst {}, {})</span>",
                                                            number(loss.worst), escape(loss.worst_sample)));
    if (loss.baseline.has_value()) {
      out += fmt::format("<div class=soft>original {}</div>", number(*loss.baseline));
    }
  }
  return out.empty() ? "<span class=soft>not measured</span>" : out;
}

std::string candidate_table(const Report& report) {
  double slowest = 1e-9;
  for (const Candidate& c : report.candidates) {
    slowest = std::max(slowest, c.latency.median_ms);
  }
  std::string out =
      "<h2>Candidates</h2>\n<div class=scroll><table><tr><th>as measured<th>median ms<th>p95 ms<th "
      "class=text><th>speed-up"
      "<th>at least<th>file<th>peak memory<th class=text>loss on held-out data<th class=text>verdict</tr>\n";
  for (const Candidate& c : report.candidates) {
    out += fmt::format(
        "<tr{}><td>{}<td>{:.2f}<td>{:.2f}<td class=bars style=\"width:14%;min-width:90px\"><div class=bar "
        "style=\"width:{:.1f}%\"></div><td>{:.2f}x<td>{:.2f}x<td>{}"
        "<td>{}<td class=text>{}<td class=text>{}</tr>\n",
        c.chosen ? " class=chosen" : "", escape(c.name), c.latency.median_ms, c.latency.p95_ms,
        100.0 * c.latency.median_ms / slowest, c.speedup.median, c.speedup.lower95, human_bytes(c.file_bytes),
        c.peak_memory_bytes > 0 ? human_bytes(c.peak_memory_bytes) : "-", loss_cell(c), escape(c.verdict));
  }
  return out +
         "</table></div>\n<p class=soft>Speed-ups are medians of interleaved pairs against the first row; "
         "\"at least\" is the lower 95 % bound.</p>\n";
}

std::string figure_table(const Report& report) {
  if (report.figures.empty()) {
    return {};
  }
  std::string out = "<h2>Before and after</h2>\n<table><tr><th>figure<th>before<th>after<th>share left</tr>\n";
  for (const Figure& figure : report.figures) {
    out += fmt::format("<tr><td>{}<td>{}<td>{}<td>{}</tr>\n", escape(figure.name),
                       escape(human_figure(figure.before, figure.unit)), escape(human_figure(figure.after, figure.unit)),
                       figure.before > 0 ? fmt::format("{:.1f} %", 100.0 * figure.after / figure.before) : "-");
  }
  return out + "</table>\n";
}

std::string picture_rows(const Report& report) {
  if (report.pictures.empty()) {
    return {};
  }
  const auto figure = [](const std::string& png, const std::string& caption) {
    return png.empty() ? std::string()
                       : fmt::format(
                             "<figure><img alt=\"{0}\" "
                             "src=\"data:image/png;base64,{1}\"><figcaption>{0}</figcaption></figure>\n",
                             escape(caption), base64(png));
  };
  std::string out = "<h2>Pictures before and after</h2>\n";
  for (const Picture& p : report.pictures) {
    out += fmt::format("<p class=soft>{}</p>\n<div class=pictures>\n", escape(p.sample));
    out += figure(p.input_png, "input");
    out += figure(p.before_png, "original model");
    out += figure(p.after_png, "optimised model");
    out += figure(p.difference_png, fmt::format("difference, {:g} times magnified", p.difference_gain));
    out += "</div>\n";
  }
  return out;
}

std::string scatter_section(const Report& report) {
  if (report.scatters.empty()) {
    return {};
  }
  std::string out = "<h2>Outputs against the original</h2>\n<div class=charts>\n";
  for (const Scatter& scatter : report.scatters) {
    out += fmt::format("<figure>{}<figcaption>{}: {} values, correlation {:.5f}, of the ranks {:.5f}</figcaption></figure>\n",
                       scatter_chart(scatter), escape(scatter.output), scatter.before.size(), scatter.pearson,
                       scatter.spearman);
  }
  return out + "</div>\n<p class=soft>Held-out samples; the new model upwards, the original to the right, the dashed line where "
               "both agree.</p>\n";
}

std::string pass_list(const Report& report) {
  std::string out = "<h2>Rewrites</h2>\n";
  bool any = false;
  for (const PassRecord& pass : report.passes) {
    if (pass.rewrites.empty() && pass.skipped.empty()) {
      continue;
    }
    any = true;
    out += fmt::format(
        "<details><summary><code>{}</code> fired {} times, declined {}{}{} <span class=soft>({:.1f} "
        "ms)</span></summary><ul>\n",
        escape(pass.name), pass.rewrites.size(), pass.skipped.size(),
        pass.effect > 0 ? fmt::format("; the model is {:.2f} times as fast with it", pass.effect) : "",
        pass.reverted.empty() ? "" : fmt::format(" <b class=bad>reverted: {}</b>", escape(pass.reverted)),
        pass.time_ms);
    for (const Site& site : pass.rewrites) {
      out += fmt::format("<li><code>{}</code> {}</li>\n", escape(site.node), escape(site.text));
    }
    for (const Site& site : pass.skipped) {
      out += fmt::format("<li class=soft><code>{}</code> left alone: {}</li>\n", escape(site.node),
                         escape(site.text));
    }
    out += "</ul></details>\n";
  }
  return any ? out : out + "<p class=soft>none fired</p>\n";
}

std::string node_table(const Report& report) {
  if (report.nodes.empty()) {
    return {};
  }
  double longest = 1e-9;
  for (const NodeRecord& node : report.nodes) {
    longest = std::max({longest, node.before_us.value_or(0.0), node.after_us.value_or(0.0)});
  }
  constexpr std::size_t kShown = 40;
  std::string out =
      "<h2>Time per node</h2>\n<div class=scroll><table><tr><th>node<th class=text>operator<th "
      "class=text>kernel"
      "<th>before &micro;s<th>after &micro;s<th class=text></tr>\n";
  for (std::size_t i = 0; i < report.nodes.size() && i < kShown; ++i) {
    const NodeRecord& node = report.nodes[i];
    const auto cell = [](const std::optional<double>& us) {
      return us ? fmt::format("{:.0f}", *us) : std::string("-");
    };
    out += fmt::format(
        "<tr><td><code>{}</code><td class=text>{}<td class=text><span class=soft>{}</span><td>{}<td>{}<td "
        "class=bars>"
        "<div class=\"bar before\" style=\"width:{:.1f}%\"></div><div class=bar "
        "style=\"width:{:.1f}%\"></div></tr>\n",
        escape(node.node), escape(node.op_type), escape(node.kernel), cell(node.before_us),
        cell(node.after_us), 100.0 * node.before_us.value_or(0.0) / longest,
        100.0 * node.after_us.value_or(0.0) / longest);
  }
  out += "</table></div>\n";
  if (report.nodes.size() > kShown) {
    out += fmt::format("<p class=soft>the {} longest of {}; all are in report.json</p>\n", kShown,
                       report.nodes.size());
  }
  return out;
}

std::string trial_section(const Report& report) {
  if (report.trials.empty()) {
    return {};
  }
  std::string out = "<h2>Loss against speed and size</h2>\n<div class=charts>\n";
  out += trial_chart(report, TrialAxis::kLatency) + trial_chart(report, TrialAxis::kSize);
  return out + fmt::format(
                   "</div>\n<p class=soft>Each point is a mix of number formats that was measured. The solid line is the "
                   "Pareto front (no other mix beats its points in both), the dashed line the budget. Loss: {}.</p>\n",
                   escape(report.loss_name));
}

std::string layer_table(const Report& report) {
  if (report.layers.empty()) {
    return {};
  }
  std::string out = fmt::format(
      "<h2>Layers</h2>\n<p class=soft>of {}</p>\n",
      report.layers_of.empty() ? "the best mix found, which no candidate holds" : escape(report.layers_of));
  out +=
      "<div class=scroll><table><tr><th>layer<th class=text>operator<th class=text>format<th "
      "class=text>ran as<th>loss alone<th>weight error<th>bytes<th>were<th class=text>why</tr>\n";
  for (const LayerRecord& layer : report.layers) {
    out += fmt::format(
        "<tr><td><code>{}</code><td class=text>{}<td class=text>{}<td class=text><span "
        "class=soft>{}</span><td>{}<td>{}<td>{}<td>{}<td class=text>{}</tr>\n",
        escape(layer.layer), escape(layer.op_type), escape(layer.format), escape(layer.kernel),
        layer.sensitivity ? number(*layer.sensitivity) : "-", layer.weight_error > 0 ? number(layer.weight_error) : "-",
        human_bytes(layer.bytes_after), human_bytes(layer.bytes_before), escape(layer.reason));
  }
  return out + "</table></div>\n";
}

std::string facts(const std::string& title, const std::map<std::string, std::string>& entries) {
  if (entries.empty()) {
    return {};
  }
  std::string out = fmt::format("<h2>{}</h2>\n<dl>\n", escape(title));
  for (const auto& [key, value] : entries) {
    out += fmt::format("<dt>{}</dt><dd><code>{}</code></dd>\n", escape(key), escape(value));
  }
  return out + "</dl>\n";
}

}  // namespace

std::string to_html(const Report& report) {
  std::string out = fmt::format("<p class=lead>{}</p>\n", escape(report.summary));
  if (report.history.size() > 1) {
    out += fmt::format("<p class=soft>Steps: {}</p>\n", escape(fmt::format("{}", fmt::join(report.history, "; then "))));
  }
  for (const std::string& note : report.notes) {
    out += fmt::format("<div class=note>{}</div>\n", escape(note));
  }
  out +=
      cards(report) + candidate_table(report) + figure_table(report) + picture_rows(report) + scatter_section(report) + trial_section(report) +
      layer_table(report) + pass_list(report) + node_table(report);
  std::map<std::string, std::string> files = {
      {"model", fmt::format("{} (sha256 {})", report.model.path, report.model.sha256)},
      {"settings", "sha256 " + report.settings_sha256}};
  if (!report.data.path.empty()) {
    files["data"] = fmt::format("{} (sha256 {})", report.data.path, report.data.sha256);
  }
  if (!report.output.path.empty()) {
    files["result"] = fmt::format("{} (sha256 {})", report.output.path, report.output.sha256);
  }
  for (const auto& [part, count] : report.samples) {
    files["samples for " + part] = std::to_string(count);
  }
  out += facts("How to run the result", report.deploy) + facts("Files and data", files) +
         facts("Settings", report.settings) + facts("Machine", report.machine) +
         facts("Versions", report.versions);
  return page("Tempera report", report.command, report.created, out);
}

}  // namespace tempera::report
