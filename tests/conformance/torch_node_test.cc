// The torch engine against the ONNX project's node conformance cases, at each case's own tolerance, type and shape.
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iostream>

#include "tempera/base/error.h"
#include "tempera/engine/torch/interpreter.h"
#include "tests/conformance/node_cases.h"

namespace tempera::conformance {
namespace {

namespace aten = engine::aten;

aten::Value to_value(const CaseValue& value) {
  if (const auto* tensor = std::get_if<graph::Tensor>(&value)) {
    return aten::to_value(*tensor);
  }
  if (const auto* tensors = std::get_if<std::vector<graph::Tensor>>(&value)) {
    aten::Sequence sequence;
    for (const graph::Tensor& tensor : *tensors) {
      sequence.push_back(aten::to_value(tensor));
    }
    return aten::Value(std::move(sequence));
  }
  return aten::Value();
}

CaseValue from_value(const aten::Value& value) {
  if (value.empty()) {
    return std::monostate();
  }
  if (const aten::Sequence* sequence = value.sequence()) {
    std::vector<graph::Tensor> tensors;
    for (const aten::Value& item : *sequence) {
      tensors.push_back(aten::to_tensor(item));
    }
    return tensors;
  }
  return aten::to_tensor(value);
}

std::vector<CaseValue> run_model(const graph::Model& model, const std::vector<CaseValue>& inputs, std::uint64_t seed) {
  const at::NoGradGuard no_grad;
  aten::Interpreter interpreter(model.graph, model.opsets, {.device = at::kCPU, .seed = seed, .on_value = {}, .on_time = {}});
  std::vector<aten::Value> values;
  for (const CaseValue& input : inputs) {
    values.push_back(to_value(input));
  }
  values.resize(model.graph.inputs().size());  // trailing inputs may have defaults
  std::vector<CaseValue> outputs;
  for (const aten::Value& output : interpreter.run(values)) {
    outputs.push_back(from_value(output));
  }
  return outputs;
}

std::vector<CaseValue> run_case(const NodeCase& node_case) { return run_model(node_case.model(), node_case.read("in"), 0); }

// -- operators of random output: judged by their distribution ---------------------------------------------------------------

constexpr int kRuns = 600;

/// The model without seeds of its own, so that each run may draw anew.
graph::Model without_seeds(graph::Model model) {
  for (const graph::NodeId id : model.graph.nodes()) {
    model.graph.remove_attribute(id, "seed");
  }
  return model;
}

/// Every draw is 0 or 1, and the mean over the runs is the probability: within 5 standard deviations of the mean.
std::string judge_bernoulli(const NodeCase& node_case) {
  const graph::Model model = without_seeds(node_case.model());
  const std::vector<CaseValue> inputs = node_case.read("in");
  const std::vector<double> p = graph::to_doubles(std::get<graph::Tensor>(inputs[0]));
  // The standard's function body is Greater(uniform, p), which holds with probability 1 - p.
  const bool is_function_body = node_case.name.ends_with("_expanded");
  std::vector<double> sum(p.size(), 0.0);
  for (int run = 0; run < kRuns; ++run) {
    const graph::Tensor draw = std::get<graph::Tensor>(run_model(model, inputs, static_cast<std::uint64_t>(run)).at(0));
    const std::vector<double> values = graph::to_doubles(draw);
    if (draw.type() != std::get<graph::Tensor>(node_case.read("out")[0]).type() || values.size() != p.size()) {
      return "another type or size than expected";
    }
    for (std::size_t i = 0; i < p.size(); ++i) {
      if (values[i] != 0.0 && values[i] != 1.0) {
        return fmt::format("drew {}, expected 0 or 1", values[i]);
      }
      sum[i] += values[i];
    }
  }
  for (std::size_t i = 0; i < p.size(); ++i) {
    const double expected = is_function_body ? 1.0 - p[i] : p[i];
    const double bound = 5.0 * std::sqrt(expected * (1.0 - expected) / kRuns);
    if (std::fabs(sum[i] / kRuns - expected) > bound) {
      return fmt::format("element {} is 1 in {} of {} draws, expected a share of {}", i, sum[i], kRuns, expected);
    }
  }
  return "";
}

/// Every element is 0 with probability `ratio`, else x / (1 - ratio); the mask says which.
std::string judge_dropout(const NodeCase& node_case) {
  const graph::Model model = without_seeds(node_case.model());
  const std::vector<CaseValue> inputs = node_case.read("in");
  const std::vector<double> x = graph::to_doubles(std::get<graph::Tensor>(inputs[0]));
  const double ratio = graph::to_doubles(std::get<graph::Tensor>(inputs[1]))[0];
  double kept = 0.0;
  for (int run = 0; run < kRuns; ++run) {
    const std::vector<CaseValue> outputs = run_model(model, inputs, static_cast<std::uint64_t>(run));
    const std::vector<double> y = graph::to_doubles(std::get<graph::Tensor>(outputs[0]));
    std::vector<double> mask;
    if (outputs.size() > 1) {
      mask = graph::to_doubles(std::get<graph::Tensor>(outputs[1]));
    }
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double scaled = x[i] / (1.0 - ratio);
      const bool is_kept = y[i] != 0.0;
      if (is_kept && std::fabs(y[i] - scaled) > 1e-5 * std::fabs(scaled)) {
        return fmt::format("element {} is {}, expected 0 or {}", i, y[i], scaled);
      }
      if (!mask.empty() && (mask[i] != 0.0) != is_kept) {
        return fmt::format("element {} is {} and its mask {}", i, y[i], mask[i]);
      }
      kept += is_kept ? 1.0 : 0.0;
    }
  }
  const double draws = static_cast<double>(kRuns) * static_cast<double>(x.size());
  if (std::fabs(kept / draws - (1.0 - ratio)) > 5.0 * std::sqrt(ratio * (1.0 - ratio) / draws)) {
    return fmt::format("a share of {} is kept, expected {}", kept / draws, 1.0 - ratio);
  }
  return "";
}

std::map<std::string, std::function<std::string()>> judges_of(const std::vector<NodeCase>& cases) {
  std::map<std::string, std::function<std::string()>> judges;
  for (const NodeCase& node_case : cases) {
    if (node_case.name.starts_with("test_bernoulli")) {
      judges[node_case.name] = [&node_case] { return judge_bernoulli(node_case); };
    } else if (node_case.name.starts_with("test_training_dropout") &&
               node_case.name.find("zero_ratio") == std::string::npos) {
      judges[node_case.name] = [&node_case] { return judge_dropout(node_case); };
    }
  }
  return judges;
}

/// Only the listed cases fail. TEMPERA_CASES=text runs those whose names hold the text, and prints what differs.
TEST(TorchNodeCases, OnlyListedCasesFail) {
  at::set_num_threads(1);  // the cases are tiny
  std::vector<NodeCase> cases = prepared_cases();
  const char* filter = std::getenv("TEMPERA_CASES");
  if (filter != nullptr) {
    std::erase_if(cases, [&](const NodeCase& node_case) { return node_case.name.find(filter) == std::string::npos; });
  }
  const Tally tally = run_cases(cases, run_case, judges_of(cases));
  std::cout << "torch: " << summary(tally) << "\n";
  const std::map<std::string, std::string> known =
      read_known_failures(environment("TEMPERA_SOURCE_DIR") / "tests/conformance/torch_failures.txt");
  for (const auto& [name, found] : tally.failures) {
    EXPECT_TRUE(known.contains(name)) << "new failure " << name << ": " << found;
    if (filter != nullptr && known.contains(name)) {
      std::cout << name << ": " << found << "\n";
    }
  }
  if (filter != nullptr) {
    return;
  }
  for (const auto& [name, reason] : known) {
    EXPECT_TRUE(tally.failures.contains(name)) << name << " passes and is listed as failing: " << reason;
  }
  EXPECT_EQ(tally.counted, 1632);  // as counted in onnx 1.23.2
}

}  // namespace
}  // namespace tempera::conformance
