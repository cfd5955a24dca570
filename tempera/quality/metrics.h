#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tempera/base/cancel.h"
#include "tempera/data/recipe.h"
#include "tempera/graph/tensor.h"

namespace tempera::quality {

enum class Direction : std::uint8_t { kHigherIsBetter, kLowerIsBetter };

/// How a worse value counts as *relative task loss*, a number without unit that `--max-loss 5%` limits (0: no
/// loss). `before` is the original model's value against the truth, `after` the new model's.
enum class LossRule : std::uint8_t {
  kRatio,       ///< lower is better: after / before - 1; higher is better: 1 - after / before
  kDecibel,     ///< 10^((before - after) / 20) - 1: how much the error's root mean square grew
  kDifference,  ///< before - after or after - before, for values within -1..1 (correlations, similarities)
};

/// Running a program as metric (command_metric.h).
struct CommandOptions {
  bool allowed = false;           ///< a recipe may come from elsewhere: its programs run only where the user said so
  std::vector<std::string> argv;  ///< the program, its path absolute or a name on the PATH, and its arguments
  CancelToken cancel;
  std::chrono::milliseconds timeout{60'000};  ///< for one sample
};

struct MetricOptions {
  int border = 0;             ///< of image metrics
  image::PixelFormat format;  ///< of image metrics
  CommandOptions command;     ///< of metrics that are a program
};

/// One metric gathered over samples. Not safe to share.
class Metric {
 public:
  virtual ~Metric() = default;

  /// \param sample     name for reports
  /// \param reference  the truth, or the old model's output
  /// \param candidate  same dimensions, except that class indices or one-hot rows may stand for scores in
  /// `reference`
  virtual void add(const std::string& sample, const graph::Tensor& reference,
                   const graph::Tensor& candidate) = 0;

  struct Result {
    double value = 0.0;  ///< over all samples; NaN when there were none
    std::int64_t samples = 0;
    std::string worst_sample;  ///< empty for metrics that have no value for one sample
    double worst_value = 0.0;
  };
  [[nodiscard]] virtual Result result() const = 0;
};

/// One row of the list of metrics.
struct MetricInfo {
  std::string name;
  std::string unit;  ///< "dB", "" for none, "same" for that of the output
  Direction direction = Direction::kLowerIsBetter;
  LossRule loss_rule = LossRule::kRatio;
  std::string summary;
  std::unique_ptr<Metric> (*make)(const MetricOptions&) = nullptr;
};

/// All metrics, in the order they are listed to users (metrics.cc is the list).
[[nodiscard]] std::span<const MetricInfo> metrics();
[[nodiscard]] std::vector<std::string> metric_names();
/// \throws Error{kInvalidArgument} with the nearest names
[[nodiscard]] const MetricInfo& find_metric(std::string_view name);

/// The metric a recipe asks for, made with its border, pixel format and command; relative_l2 when it names none.
/// \param command  how a program is run; the output's own command takes the place of its argv
[[nodiscard]] std::unique_ptr<Metric> make_metric(const data::OutputRecipe& output, CommandOptions command = {});

/// Whether a is strictly better than b.
[[nodiscard]] bool is_better(const MetricInfo& metric, double a, double b);

/// Loss of quality from `before` to `after` by the metric's rule, >= 0 when worse, negative when better.
/// Equal values give 0, also infinite ones; an improvement at most -1; a NaN, or a loss that has no finite
/// value, infinity.
[[nodiscard]] double relative_task_loss(const MetricInfo& metric, double before, double after);

}  // namespace tempera::quality
