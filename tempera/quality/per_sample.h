#pragma once

#include <cmath>
#include <limits>
#include <string>

#include <fmt/format.h>

#include "tempera/base/error.h"
#include "tempera/quality/metrics.h"

namespace tempera::quality {

/// Base of metrics that have a value for each sample; their mean (or largest value) is the result.
class PerSample : public Metric {
 public:
  explicit PerSample(Direction direction) : direction_(direction) {}

  void add(const std::string& sample, const graph::Tensor& reference, const graph::Tensor& candidate) final {
    double value = 0.0;
    try {
      value = measure(reference, candidate);
    } catch (Error& error) {
      error.in(fmt::format("sample '{}'", sample));
      throw;
    }
    const bool worse =
        direction_ == Direction::kHigherIsBetter ? value < result_.worst_value : value > result_.worst_value;
    if (result_.samples == 0 || worse || std::isnan(value)) {
      result_.worst_sample = sample;
      result_.worst_value = value;
    }
    sum_ += value;
    ++result_.samples;
  }

  [[nodiscard]] Result result() const override {
    Result result = result_;
    result.value = result.samples == 0 ? std::numeric_limits<double>::quiet_NaN()
                                       : sum_ / static_cast<double>(result.samples);
    return result;
  }

 protected:
  [[nodiscard]] virtual double measure(const graph::Tensor& reference, const graph::Tensor& candidate) const = 0;
  [[nodiscard]] const Result& so_far() const { return result_; }

 private:
  Direction direction_;
  Result result_;
  double sum_ = 0.0;
};

}  // namespace tempera::quality
