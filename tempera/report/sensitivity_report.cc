#include "tempera/report/sensitivity_report.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tempera/report/html_text.h"

namespace tempera::report {
namespace {

using Json = nlohmann::ordered_json;

// Rows by the loss in the first format, largest first; rows without one come last.
std::vector<const SensitivityRow*> most_sensitive_first(const SensitivityReport& report) {
  std::vector<const SensitivityRow*> rows;
  for (const SensitivityRow& row : report.rows) {
    rows.push_back(&row);
  }
  const auto key = [](const SensitivityRow* row) {
    return row->cells.empty() || !row->cells.front().loss.has_value() ? -1.0 : *row->cells.front().loss;
  };
  std::stable_sort(rows.begin(), rows.end(), [&](const auto* a, const auto* b) { return key(a) > key(b); });
  return rows;
}

std::string loss_text(const SensitivityCell& cell) {
  return cell.loss.has_value() ? fmt::format("{:.2e}", *cell.loss) : "-";
}

// Decades that the bars span: from the least loss, or 1e-6, to the greatest.
struct Decades {
  double low = 0.0;
  double high = -6.0;
};

Decades decades_of(const SensitivityReport& report) {
  Decades decades;
  for (const SensitivityRow& row : report.rows) {
    for (const SensitivityCell& cell : row.cells) {
      if (cell.loss.value_or(0.0) > 0.0 && std::isfinite(*cell.loss)) {
        decades.low = std::min(decades.low, std::log10(*cell.loss));
        decades.high = std::max(decades.high, std::log10(*cell.loss));
      }
    }
  }
  decades.low = std::max(std::floor(decades.low), -6.0);
  decades.high = std::max(std::ceil(decades.high), decades.low + 1.0);
  return decades;
}

double bar_percent(const SensitivityCell& cell, const Decades& decades) {
  if (cell.loss.value_or(0.0) <= 0.0) {
    return 0.0;
  }
  const double log = std::isfinite(*cell.loss) ? std::log10(*cell.loss) : decades.high;
  return 100.0 * std::clamp((log - decades.low) / (decades.high - decades.low), 0.0, 1.0);
}

}  // namespace

std::string to_json(const SensitivityReport& report) {
  Json rows = Json::array();
  for (const SensitivityRow& row : report.rows) {
    Json cells = Json::object();
    for (std::size_t i = 0; i < row.cells.size(); ++i) {
      cells[report.formats[i]] = {{"loss", row.cells[i].loss.has_value() ? Json(*row.cells[i].loss) : Json(nullptr)},
                                  {"reason", row.cells[i].reason}};
    }
    rows.push_back({{"layer", row.layer},
                    {"op_type", row.op_type},
                    {"multiplications", row.multiplications},
                    {"weight_bytes", row.weight_bytes},
                    {"formats", std::move(cells)}});
  }
  const auto file = [](const Fingerprint& f) {
    return Json{{"path", f.path}, {"sha256", f.sha256}, {"bytes", f.bytes}};
  };
  const Json json = {{"schema", "tempera.sensitivity"},
                     {"version", 1},
                     {"command", report.command},
                     {"created", report.created},
                     {"model", file(report.model)},
                     {"data", file(report.data)},
                     {"random_data", report.random_data},
                     {"samples", report.samples},
                     {"engine", report.engine},
                     {"precision", report.precision},
                     {"float_loss", report.float_loss},
                     {"layers", std::move(rows)}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string to_html(const SensitivityReport& report) {
  const Decades decades = decades_of(report);
  std::string body = fmt::format(
      "<p class=lead>Loss of the model's worst output with one layer changed and all else in {}.</p>\n{}"
      "<p class=soft>Relative L2 against f32, mean over {} samples of the search part, in {}. The model itself in {}: "
      "{:.2e}. Bars are logarithmic, from 1e{:g} to 1e{:g}.</p>\n",
      escape(report.precision), report.random_data ? "<div class=note>UNVERIFIED: measured on made-up data</div>\n" : "",
      report.samples, escape(report.engine), escape(report.precision), report.float_loss, decades.low, decades.high);
  body += "<div class=scroll><table><tr><th>layer<th class=text>operator<th>weights";
  for (const std::string& format : report.formats) {
    body += fmt::format("<th>{}<th class=text>", escape(format));
  }
  body += "</tr>\n";
  for (const SensitivityRow* row : most_sensitive_first(report)) {
    body += fmt::format("<tr><td><code>{}</code><td class=text>{}<td>{}", escape(row->layer), escape(row->op_type),
                        human_bytes(row->weight_bytes));
    for (const SensitivityCell& cell : row->cells) {
      body += fmt::format("<td>{}<td class=bars style=\"width:18%;min-width:90px\">", loss_text(cell));
      body += cell.loss.has_value()
                  ? fmt::format("<div class=bar style=\"width:{:.1f}%\"></div>", bar_percent(cell, decades))
                  : fmt::format("<span class=soft>{}</span>", escape(cell.reason));
    }
    body += "</tr>\n";
  }
  body += "</table></div>\n";
  return page("Sensitivity of layers", report.command, report.created, body);
}

std::string to_table(const SensitivityReport& report) {
  std::size_t width = 5;
  for (const SensitivityRow& row : report.rows) {
    width = std::max(width, row.layer.size());
  }
  std::string out = fmt::format("{:<{}}  {:<13}  {:>8}", "layer", width, "operator", "weights");
  for (const std::string& format : report.formats) {
    out += fmt::format("  {:>14}", format);
  }
  out += "\n";
  for (const SensitivityRow* row : most_sensitive_first(report)) {
    out += fmt::format("{:<{}}  {:<13}  {:>8}", row->layer, width, row->op_type, human_bytes(row->weight_bytes));
    for (const SensitivityCell& cell : row->cells) {
      out += fmt::format("  {:>14}", loss_text(cell));
    }
    out += "\n";
  }
  return out + fmt::format("\nrelative L2 of the worst output against f32 over {} samples; all in {}: {:.2e}{}\n",
                           report.samples, report.precision, report.float_loss,
                           report.random_data ? " (UNVERIFIED: made-up data)" : "");
}

}  // namespace tempera::report
