// The openvino engine against the ONNX project's node conformance cases, at each case's own tolerance, type and shape.
#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tempera/base/error.h"
#include "tempera/engine/openvino/openvino_engine.h"
#include "tests/conformance/node_cases.h"

namespace tempera::conformance {
namespace {

std::filesystem::path environment(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr) {
    throw Error(ErrorCode::kNotFound, fmt::format("the environment has no {}", name), "run the test through ctest");
  }
  return value;
}

/// The cases, written by the Python of the tests when they are not there yet.
std::vector<NodeCase> prepared_cases() {
  const std::filesystem::path folder = environment("TEMPERA_BUILD_DIR") / "node_cases";
  const std::filesystem::path script = environment("TEMPERA_SOURCE_DIR") / "tests/conformance/write_node_cases.py";
  const std::string command = fmt::format("'{}' '{}' '{}'", environment("TEMPERA_TEST_PYTHON").string(), script.string(),
                                          folder.string());
  if (std::system(command.c_str()) != 0) {
    throw Error(ErrorCode::kIo, "write_node_cases.py failed");
  }
  return read_cases(folder);
}

std::vector<CaseValue> run_case(const engine::Engine& engine, const NodeCase& node_case) {
  const graph::Model model = node_case.model();
  engine::CompileOptions options;
  options.exact = true;
  options.threads = 1;  // the cases are tiny
  const auto session = engine.compile(model, options);
  const std::vector<CaseValue> values = node_case.read("in");
  std::map<std::string, graph::Tensor> given;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto* tensor = std::get_if<graph::Tensor>(&values[i]);
    if (tensor == nullptr) {
      throw Error(ErrorCode::kUnsupported, fmt::format("input {} is not a tensor", i));
    }
    given[model.graph.value(model.graph.inputs().at(i)).name] = *tensor;
  }
  std::vector<graph::Tensor> inputs;
  for (const engine::Port& port : session->inputs()) {
    inputs.push_back(given.at(port.name));
  }
  std::vector<CaseValue> outputs;
  for (graph::Tensor& output : session->run(inputs)) {
    outputs.emplace_back(std::move(output));
  }
  return outputs;
}

/// Only the listed cases fail; a listed one may pass, since OpenVINO's kernels depend on the CPU.
/// TEMPERA_CASES=text runs those whose names hold the text, and prints what differs.
TEST(OpenvinoNodeCases, OnlyListedCasesFail) {
  std::vector<NodeCase> cases = prepared_cases();
  const char* filter = std::getenv("TEMPERA_CASES");
  if (filter != nullptr) {
    std::erase_if(cases, [&](const NodeCase& node_case) { return node_case.name.find(filter) == std::string::npos; });
  }
  const auto engine = engine::make_openvino_engine();
  const Tally tally = run_cases(cases, [&](const NodeCase& node_case) { return run_case(*engine, node_case); });
  std::cout << "openvino: " << summary(tally) << "\n";
  const std::map<std::string, std::string> known =
      read_known_failures(environment("TEMPERA_SOURCE_DIR") / "tests/conformance/openvino/failures.txt");
  for (const auto& [name, found] : tally.failures) {
    EXPECT_TRUE(known.contains(name)) << "new failure " << name << ": " << found;
    if (filter != nullptr && known.contains(name)) {
      std::cout << name << ": " << found << "\n";
    }
  }
  if (filter == nullptr) {
    EXPECT_EQ(tally.counted, 1632);  // as counted in onnx 1.23.2
  }
}

}  // namespace
}  // namespace tempera::conformance
