#include "tempera/report/trial_chart.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "tempera/report/chart.h"
#include "tempera/report/html_text.h"

namespace tempera::report {
namespace {

constexpr ChartFrame kFrame;

struct Point {
  double x;
  double loss;
  const Trial* trial;
};

double along(const Trial& trial, TrialAxis axis) {
  return axis == TrialAxis::kLatency ? trial.latency_ms : static_cast<double>(trial.file_bytes) / 1e6;
}

// Maps data to the canvas. Losses of zero and below lie at the bottom edge.
struct Scale {
  double x_most;
  double loss_low;   // log10
  double loss_high;  // log10

  [[nodiscard]] double x(double value) const { return kFrame.left + (kFrame.width - kFrame.left - kFrame.right) * value / x_most; }
  [[nodiscard]] double y(double loss) const {
    const double log = loss > 0 ? std::clamp(std::log10(loss), loss_low, loss_high) : loss_low;
    return kFrame.top + (kFrame.height - kFrame.top - kFrame.bottom) * (loss_high - log) / (loss_high - loss_low);
  }
};

Scale scale_of(const std::vector<Point>& points, double limit) {
  Scale scale{1e-9, limit > 0 ? std::log10(limit) : -2.0, limit > 0 ? std::log10(limit) : -2.0};
  for (const Point& point : points) {
    scale.x_most = std::max(scale.x_most, 1.08 * point.x);
    if (point.loss > 0 && std::isfinite(point.loss)) {
      scale.loss_low = std::min(scale.loss_low, std::log10(point.loss));
      scale.loss_high = std::max(scale.loss_high, std::log10(point.loss));
    }
  }
  scale.loss_low = std::floor(scale.loss_low - 0.01);
  scale.loss_high = std::ceil(scale.loss_high + 0.01);
  return scale;
}

std::string axes(const Scale& scale, TrialAxis axis) {
  std::string out;
  for (double power = scale.loss_low; power <= scale.loss_high + 1e-9; power += 1.0) {
    const double y = scale.y(std::pow(10.0, power));
    out += fmt::format("<line class=axis x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>"
                       "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{:g}</text>\n",
                       kFrame.left, y, kFrame.width - kFrame.right, y, kFrame.left - 6, y + 4, std::pow(10.0, power));
  }
  const double step = round_step(scale.x_most / 5.0);
  for (double value = 0.0; value <= scale.x_most; value += step) {
    out += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{:.3g}</text>\n", scale.x(value),
                       kFrame.height - kFrame.bottom + 16, value);
  }
  return out + fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>\n",
                           (kFrame.left + kFrame.width - kFrame.right) / 2, kFrame.height - 6,
                           axis == TrialAxis::kLatency ? "median latency, ms" : "file, MB");
}

// Points that no other beats in both, from left to right.
std::vector<Point> front_of(std::vector<Point> points) {
  std::sort(points.begin(), points.end(),
            [](const Point& a, const Point& b) { return a.x != b.x ? a.x < b.x : a.loss < b.loss; });
  std::vector<Point> front;
  for (const Point& point : points) {
    if (front.empty() || point.loss < front.back().loss) {
      front.push_back(point);
    }
  }
  return front;
}

}  // namespace

std::string trial_chart(const Report& report, TrialAxis axis) {
  std::vector<Point> points;
  for (const Trial& trial : report.trials) {
    if (along(trial, axis) > 0) {
      points.push_back({along(trial, axis), trial.loss, &trial});
    }
  }
  if (points.empty()) {
    return {};
  }
  const Scale scale = scale_of(points, report.loss_limit);
  std::string out = fmt::format("<svg viewBox=\"0 0 {:g} {:g}\" role=\"img\" aria-label=\"loss over {}\">\n", kFrame.width, kFrame.height,
                                axis == TrialAxis::kLatency ? "latency" : "file size");
  out += axes(scale, axis);
  if (report.loss_limit > 0) {
    const double y = scale.y(report.loss_limit);
    out += fmt::format("<line class=budget x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>\n", kFrame.left, y,
                       kFrame.width - kFrame.right, y);
  }
  std::string path;
  for (const Point& point : front_of(points)) {
    path += path.empty() ? fmt::format("M{:.1f} {:.1f}", scale.x(point.x), scale.y(point.loss))
                         : fmt::format("H{:.1f}V{:.1f}", scale.x(point.x), scale.y(point.loss));
  }
  out += fmt::format("<path class=front d=\"{}\"/>\n", path);
  for (const Point& point : points) {
    const char* kind = point.trial->chosen ? "pick" : point.trial->within ? "point" : "over";
    out += fmt::format("<circle class={} cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\"><title>{}: loss {:.3g}, {:.3g} {}</title></circle>\n",
                       kind, scale.x(point.x), scale.y(point.loss), point.trial->chosen ? 6 : 4, escape(point.trial->name),
                       point.loss, point.x, axis == TrialAxis::kLatency ? "ms" : "MB");
  }
  return out + "</svg>\n";
}

}  // namespace tempera::report
