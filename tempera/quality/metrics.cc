#include "tempera/quality/metrics.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "tempera/base/error.h"
#include "tempera/graph/tensor_error.h"
#include "tempera/quality/command_metric.h"
#include "tempera/quality/image_metrics.h"
#include "tempera/quality/per_sample.h"
#include "tempera/quality/statistics.h"

namespace tempera::quality {
namespace {

using graph::Tensor;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// One of the numbers of graph::tensor_error().
class ErrorMetric final : public PerSample {
 public:
  ErrorMetric(Direction direction, double graph::TensorError::*member) : PerSample(direction), member_(member) {}

 protected:
  [[nodiscard]] double measure(const Tensor& reference, const Tensor& candidate) const override {
    return graph::checked_tensor_error(reference, candidate).*member_;
  }

 private:
  double graph::TensorError::*member_;
};

/// The largest deviation of all samples, not its mean.
class MaxAbsMetric final : public PerSample {
 public:
  MaxAbsMetric() : PerSample(Direction::kLowerIsBetter) {}
  [[nodiscard]] Result result() const override {
    Result result = so_far();
    result.value = result.samples == 0 ? kNan : result.worst_value;
    return result;
  }

 protected:
  [[nodiscard]] double measure(const Tensor& reference, const Tensor& candidate) const override {
    return graph::checked_tensor_error(reference, candidate).max_abs;
  }
};

/// A measure of two pictures as they would be saved: rounded to 8 bits. A batch counts as the mean of its
/// pictures.
class ImageMetric final : public PerSample {
 public:
  using Function = double (*)(const image::Image&, const image::Image&, int border);
  ImageMetric(Function function, const MetricOptions& options)
      : PerSample(Direction::kHigherIsBetter), function_(function), options_(options) {}

 protected:
  [[nodiscard]] double measure(const Tensor& reference, const Tensor& candidate) const override {
    if (reference.dims() != candidate.dims()) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("images of dimensions {} and {} cannot be compared",
                              graph::to_string(reference.dims()), graph::to_string(candidate.dims())));
    }
    const std::int64_t count = reference.rank() == 4 ? reference.dims()[0] : 1;
    double sum = 0.0;
    for (std::int64_t n = 0; n < count; ++n) {
      sum += function_(picture(reference, n), picture(candidate, n), options_.border);
    }
    return sum / static_cast<double>(count);
  }

 private:
  [[nodiscard]] image::Image picture(const Tensor& tensor, std::int64_t n) const {
    const image::Image exact = image::from_tensor(tensor, options_.format, n);
    return image::from_bytes(exact.width, exact.height, exact.channels, image::to_bytes(exact));
  }

  Function function_;
  MetricOptions options_;
};

/// Share of rows whose true class is among the k best of the candidate. The truth is a class index for each
/// row, or as many scores as the candidate has, whose best counts (one-hot rows, or another model's output).
class TopMetric final : public PerSample {
 public:
  explicit TopMetric(std::int64_t k) : PerSample(Direction::kHigherIsBetter), k_(k) {}

 protected:
  [[nodiscard]] double measure(const Tensor& reference, const Tensor& candidate) const override {
    const std::int64_t classes = candidate.rank() == 0 ? 0 : candidate.dims().back();
    const std::int64_t rows = classes == 0 ? 0 : candidate.size() / classes;
    const bool scores = reference.dims() == candidate.dims() && classes > 1;
    if (rows == 0 || (!scores && reference.size() != rows)) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("scores {} need as many scores, or a class for each row, as truth: got {}",
                              graph::to_string(candidate.dims()), graph::to_string(reference.dims())));
    }
    const std::vector<double> predicted = graph::to_doubles(candidate);
    const std::vector<double> truth = graph::to_doubles(reference);
    std::int64_t hits = 0;
    for (std::int64_t row = 0; row < rows; ++row) {
      const auto at = static_cast<std::size_t>(row * classes);
      const auto width = static_cast<std::size_t>(classes);
      const std::vector<std::int64_t> best = top_k(std::span(predicted).subspan(at, width), k_);
      const std::int64_t wanted = scores ? top_k(std::span(truth).subspan(at, width), 1)[0]
                                         : static_cast<std::int64_t>(truth[static_cast<std::size_t>(row)]);
      hits += std::find(best.begin(), best.end(), wanted) != best.end() ? 1 : 0;
    }
    return static_cast<double>(hits) / static_cast<double>(rows);
  }

 private:
  std::int64_t k_;
};

/// A statistic over the elements of all samples together.
class Pooled final : public Metric {
 public:
  using Function = double (*)(std::span<const double> truth, std::span<const double> predicted);
  explicit Pooled(Function function) : function_(function) {}

  void add(const std::string& /*sample*/, const Tensor& reference, const Tensor& candidate) override {
    if (reference.size() != candidate.size()) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("outputs of dimensions {} and {} cannot be compared",
                              graph::to_string(reference.dims()), graph::to_string(candidate.dims())));
    }
    const std::vector<double> truth = graph::to_doubles(reference);
    const std::vector<double> predicted = graph::to_doubles(candidate);
    truth_.insert(truth_.end(), truth.begin(), truth.end());
    predicted_.insert(predicted_.end(), predicted.begin(), predicted.end());
    ++samples_;
  }

  [[nodiscard]] Result result() const override { return {function_(truth_, predicted_), samples_, {}, 0.0}; }

 private:
  Function function_;
  std::int64_t samples_ = 0;
  std::vector<double> truth_;
  std::vector<double> predicted_;
};

using Made = std::unique_ptr<Metric>;
constexpr Direction kHigher = Direction::kHigherIsBetter;
constexpr Direction kLower = Direction::kLowerIsBetter;

// The list: what a user can name in a recipe, in the order of help and docs.
const std::array<MetricInfo, 16> kMetrics = {{
    {"relative_l2", "", kLower, LossRule::kRatio,
     "length of the error over length of the truth; mean over samples",
     [](const MetricOptions&) -> Made {
       return std::make_unique<ErrorMetric>(kLower, &graph::TensorError::relative_l2);
     }},
    {"max_abs", "same", kLower, LossRule::kRatio, "largest deviation of any element of any sample",
     [](const MetricOptions&) -> Made { return std::make_unique<MaxAbsMetric>(); }},
    {"sqnr", "dB", kHigher, LossRule::kDecibel, "signal to error power; mean over samples of the decibels",
     [](const MetricOptions&) -> Made {
       return std::make_unique<ErrorMetric>(kHigher, &graph::TensorError::sqnr_db);
     }},
    {"cosine", "", kHigher, LossRule::kDifference,
     "cosine of the angle between output and truth; mean over samples",
     [](const MetricOptions&) -> Made {
       return std::make_unique<ErrorMetric>(kHigher, &graph::TensorError::cosine);
     }},
    {"mae", "same", kLower, LossRule::kRatio, "mean absolute error over all elements",
     [](const MetricOptions&) -> Made { return std::make_unique<Pooled>(&mean_absolute_error); }},
    {"rmse", "same", kLower, LossRule::kRatio, "root of the mean squared error over all elements",
     [](const MetricOptions&) -> Made { return std::make_unique<Pooled>(&root_mean_square_error); }},
    {"pearson", "", kHigher, LossRule::kDifference, "correlation of output and truth over all elements",
     [](const MetricOptions&) -> Made { return std::make_unique<Pooled>(&pearson); }},
    {"spearman", "", kHigher, LossRule::kDifference, "correlation of the ranks over all elements",
     [](const MetricOptions&) -> Made { return std::make_unique<Pooled>(&spearman); }},
    {"psnr", "dB", kHigher, LossRule::kDecibel,
     "peak signal to noise of 8-bit pictures over all channels; mean over samples",
     [](const MetricOptions& options) -> Made { return std::make_unique<ImageMetric>(&psnr, options); }},
    {"psnr_y", "dB", kHigher, LossRule::kDecibel,
     "the same on BT.601 luma, as papers on super-resolution report",
     [](const MetricOptions& options) -> Made { return std::make_unique<ImageMetric>(&psnr_y, options); }},
    {"ssim", "", kHigher, LossRule::kDifference,
     "structural similarity of Wang et al. 2004; mean over samples",
     [](const MetricOptions& options) -> Made { return std::make_unique<ImageMetric>(&ssim, options); }},
    {"ssim_y", "", kHigher, LossRule::kDifference, "the same on BT.601 luma",
     [](const MetricOptions& options) -> Made { return std::make_unique<ImageMetric>(&ssim_y, options); }},
    {"top1", "", kHigher, LossRule::kRatio, "share of rows whose best class is the true one",
     [](const MetricOptions&) -> Made { return std::make_unique<TopMetric>(1); }},
    {"top5", "", kHigher, LossRule::kRatio, "share of rows with the true class among the best five",
     [](const MetricOptions&) -> Made { return std::make_unique<TopMetric>(5); }},
    {"command_lower", "", kLower, LossRule::kRatio, "what a program of your own prints; mean over samples",
     [](const MetricOptions& options) -> Made {
       return std::make_unique<CommandMetric>(kLower, options.command);
     }},
    {"command_higher", "", kHigher, LossRule::kRatio, "likewise, for a number that is better when higher",
     [](const MetricOptions& options) -> Made {
       return std::make_unique<CommandMetric>(kHigher, options.command);
     }},
}};

}  // namespace

std::span<const MetricInfo> metrics() { return kMetrics; }

std::vector<std::string> metric_names() {
  std::vector<std::string> names;
  for (const MetricInfo& metric : kMetrics) {
    names.push_back(metric.name);
  }
  return names;
}

const MetricInfo& find_metric(std::string_view name) {
  const auto* found =
      std::find_if(kMetrics.begin(), kMetrics.end(), [&](const MetricInfo& m) { return m.name == name; });
  if (found == kMetrics.end()) {
    throw Error(ErrorCode::kInvalidArgument, unknown_name("metric", name, metric_names()));
  }
  return *found;
}

std::unique_ptr<Metric> make_metric(const data::OutputRecipe& output, CommandOptions command) {
  const MetricInfo& info = find_metric(output.metric.empty() ? "relative_l2" : output.metric);
  command.argv = output.command;
  return info.make({output.border, output.format, std::move(command)});
}

bool is_better(const MetricInfo& metric, double a, double b) {
  return metric.direction == Direction::kHigherIsBetter ? a > b : a < b;
}

double relative_task_loss(const MetricInfo& metric, double before, double after) {
  if (before == after) {
    return 0.0;
  }
  if (std::isnan(before) || std::isnan(after)) {
    return kInfinity;
  }
  const bool higher = metric.direction == Direction::kHigherIsBetter;
  const bool better = is_better(metric, after, before);
  double loss = 0.0;
  switch (metric.loss_rule) {
    case LossRule::kRatio: loss = higher ? 1.0 - after / before : after / before - 1.0; break;
    case LossRule::kDecibel:
      loss = std::pow(10.0, (higher ? before - after : after - before) / 20.0) - 1.0;
      break;
    case LossRule::kDifference: loss = higher ? before - after : after - before; break;
  }
  if (better) {
    return std::isnan(loss) ? -1.0 : std::clamp(loss, -1.0, 0.0);
  }
  return std::isfinite(loss) ? loss : kInfinity;
}

}  // namespace tempera::quality
