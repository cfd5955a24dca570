#pragma once

namespace tempera::report {

/// Canvas of a chart, in units of its viewBox, with room for labels left and below.
struct ChartFrame {
  double width = 480.0;
  double height = 300.0;
  double left = 56.0;
  double right = 14.0;
  double top = 14.0;
  double bottom = 40.0;
};

/// The next of 1, 2, 5, 10, ... times a power of ten at or above a positive number: the step between labels.
[[nodiscard]] double round_step(double least);

}  // namespace tempera::report
