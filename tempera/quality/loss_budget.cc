#include "tempera/quality/loss_budget.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "tempera/base/error.h"

namespace tempera::quality {
namespace {

struct Quantity {
  double number = 0.0;
  std::string unit;
};

/// "0.2 dB" -> {0.2, "dB"}.
Quantity parse_quantity(std::string_view text, std::string_view option) {
  const auto trimmed = [](std::string_view t) {
    while (!t.empty() && t.front() == ' ') {
      t.remove_prefix(1);
    }
    while (!t.empty() && t.back() == ' ') {
      t.remove_suffix(1);
    }
    return t;
  };
  const std::string_view whole = trimmed(text);
  Quantity quantity;
  const auto [end, status] = std::from_chars(whole.data(), whole.data() + whole.size(), quantity.number);
  if (status != std::errc() || !std::isfinite(quantity.number) || quantity.number < 0.0) {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format(
            "'{}' is no amount for {}: a number that is not negative, with or without a unit, is needed",
            text, option),
        fmt::format("{} 5%, {} 0.2dB", option, option));
  }
  quantity.unit = trimmed(whole.substr(static_cast<std::size_t>(end - whole.data())));
  if (quantity.unit == "%") {
    quantity.number /= 100.0;
    quantity.unit.clear();
  } else if (quantity.unit == "db" || quantity.unit == "DB") {
    quantity.unit = "dB";
  }
  return quantity;
}

std::string with_unit(double value, const std::string& unit) {
  return unit.empty() ? fmt::format("{:.4g}", value) : fmt::format("{:.4g} {}", value, unit);
}

/// Whether the output has a metric in the unit; "same" metrics are in the output's own, which the user named.
bool has_metric_in(const OutputLoss& output, const std::string& unit) {
  if (output.metric.empty()) {
    return false;
  }
  const std::string& own = find_metric(output.metric).unit;
  return own == unit || (own == "same" && unit != "dB");
}

struct Entry {
  double amount = 0.0;  ///< larger is worse
  double shown = 0.0;
  std::string output;
  std::string measured;
};

Entry relative_entry(const OutputLoss& output) {
  Entry entry;
  entry.output = output.output;
  if (output.metric.empty()) {
    entry.amount = output.relative_l2;
    entry.measured = "relative L2";
  } else {
    entry.amount = relative_task_loss(find_metric(output.metric), output.metric_before, output.metric_after);
    entry.measured = fmt::format("task loss ({})", output.metric);
  }
  entry.shown = entry.amount;
  return entry;
}

Entry worse_by_entry(const OutputLoss& output) {
  const bool higher = find_metric(output.metric).direction == Direction::kHigherIsBetter;
  Entry entry{0.0, 0.0, output.output, output.metric};
  if (output.metric_before != output.metric_after) {  // also keeps infinity minus infinity out
    entry.amount =
        higher ? output.metric_before - output.metric_after : output.metric_after - output.metric_before;
  }
  entry.shown = entry.amount;
  return entry;
}

Entry at_least_entry(const OutputLoss& output, bool by_metric) {
  const double value = by_metric ? output.metric_after : output.sqnr_db;
  return {-value, value, output.output, by_metric ? output.metric : "SQNR"};
}

}  // namespace

LossBudget LossBudget::parse_max_loss(std::string_view text) {
  const Quantity quantity = parse_quantity(text, "--max-loss");
  return {quantity.unit.empty() ? Kind::kRelative : Kind::kWorseBy, quantity.number, quantity.unit};
}

LossBudget LossBudget::parse_min(std::string_view text) {
  const Quantity quantity = parse_quantity(text, "--min");
  return {Kind::kAtLeast, quantity.number, quantity.unit};
}

std::string LossBudget::to_string() const {
  switch (kind) {
    case Kind::kRelative: return fmt::format("at most {:.4g}% loss", 100.0 * limit);
    case Kind::kWorseBy: return fmt::format("at most {} worse", with_unit(limit, unit));
    case Kind::kAtLeast: return fmt::format("at least {}", with_unit(limit, unit));
  }
  return {};
}

LossVerdict judge(const LossBudget& budget, const std::vector<OutputLoss>& outputs) {
  std::vector<Entry> entries;
  for (const OutputLoss& output : outputs) {
    switch (budget.kind) {
      case LossBudget::Kind::kRelative: entries.push_back(relative_entry(output)); break;
      case LossBudget::Kind::kWorseBy:
        if (has_metric_in(output, budget.unit)) {
          entries.push_back(worse_by_entry(output));
        }
        break;
      case LossBudget::Kind::kAtLeast:
        if (has_metric_in(output, budget.unit) &&
            find_metric(output.metric).direction == Direction::kHigherIsBetter) {
          entries.push_back(at_least_entry(output, true));
        } else if (budget.unit == "dB") {
          entries.push_back(at_least_entry(output, false));
        }
        break;
    }
  }
  if (entries.empty()) {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format(
            "the budget '{}' fits no output: none has a metric in that unit, measured against a truth",
            budget.to_string()),
        "give a relative budget such as --max-loss 5%, or a metric in the model's recipe");
  }
  const auto badness = [](const Entry& entry) {  // NaN is the worst there is
    return std::isnan(entry.amount) ? std::numeric_limits<double>::infinity() : entry.amount;
  };
  const Entry& worst = *std::max_element(entries.begin(), entries.end(), [&](const Entry& a, const Entry& b) {
    return badness(a) < badness(b);
  });
  LossVerdict verdict;
  const double bound = budget.kind == LossBudget::Kind::kAtLeast ? -budget.limit : budget.limit;
  verdict.within = badness(worst) <= bound;
  verdict.loss = worst.shown;
  verdict.output = worst.output;
  verdict.measured = worst.measured;
  const std::string amount = budget.kind == LossBudget::Kind::kRelative
                                 ? fmt::format("{:.3g}%", 100.0 * worst.shown)
                                 : with_unit(worst.shown, budget.unit);
  verdict.text = fmt::format("{} of output '{}' is {}{}: {} ({})", worst.measured, worst.output, amount,
                             budget.kind == LossBudget::Kind::kWorseBy ? " worse" : "",
                             verdict.within ? "within the budget" : "beyond the budget", budget.to_string());
  return verdict;
}

}  // namespace tempera::quality
