#include "tempera/report/scatter_chart.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include <fmt/format.h>

#include "tempera/report/chart.h"
#include "tempera/report/html_text.h"

namespace tempera::report {
namespace {

constexpr ChartFrame kFrame{.width = 340.0, .height = 340.0, .right = 26.0};
constexpr std::size_t kMostPoints = 2000;

// Both axes run from `low` to `high`.
struct Square {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  void include(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  [[nodiscard]] double share(double value) const { return (value - low) / (high - low); }
  [[nodiscard]] double x(double value) const {
    return kFrame.left + (kFrame.width - kFrame.left - kFrame.right) * share(value);
  }
  [[nodiscard]] double y(double value) const {
    return kFrame.height - kFrame.bottom - (kFrame.height - kFrame.top - kFrame.bottom) * share(value);
  }
};

std::string axes(const Square& square) {
  std::string out;
  const double step = round_step((square.high - square.low) / 4.0);
  for (double mark = std::ceil(square.low / step); mark * step <= square.high; mark += 1.0) {
    const double value = mark * step;
    out += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{:.6g}</text>"
                       "<line class=axis x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>"
                       "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{:.6g}</text>\n",
                       square.x(value), kFrame.height - kFrame.bottom + 16, value, kFrame.left, square.y(value),
                       kFrame.width - kFrame.right, square.y(value), kFrame.left - 6, square.y(value) + 4, value);
  }
  return out + fmt::format("<line class=budget x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>\n"
                           "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">original</text>\n",
                           square.x(square.low), square.y(square.low), square.x(square.high), square.y(square.high),
                           (kFrame.left + kFrame.width - kFrame.right) / 2, kFrame.height - 6);
}

}  // namespace

std::string scatter_chart(const Scatter& scatter) {
  Square square;
  const std::size_t count = std::min(scatter.before.size(), scatter.after.size());
  const auto is_shown = [&](std::size_t i) { return std::isfinite(scatter.before[i]) && std::isfinite(scatter.after[i]); };
  for (std::size_t i = 0; i < count; ++i) {
    if (is_shown(i)) {
      square.include(scatter.before[i]);
      square.include(scatter.after[i]);
    }
  }
  if (!(square.low <= square.high)) {
    return {};
  }
  const double margin = square.high > square.low ? 0.04 * (square.high - square.low) : std::max(1e-6, 0.04 * std::abs(square.low));
  square.low -= margin;
  square.high += margin;
  std::string out = fmt::format("<svg viewBox=\"0 0 {:g} {:g}\" role=\"img\" aria-label=\"{}: new model over original\">\n",
                                kFrame.width, kFrame.height, escape(scatter.output));
  out += axes(square);
  const std::size_t stride = (count + kMostPoints - 1) / kMostPoints;
  for (std::size_t i = 0; i < count; i += stride) {
    if (is_shown(i)) {
      out += fmt::format("<circle class=dot cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.2\"/>", square.x(scatter.before[i]),
                         square.y(scatter.after[i]));
    }
  }
  return out + "\n</svg>\n";
}

}  // namespace tempera::report
