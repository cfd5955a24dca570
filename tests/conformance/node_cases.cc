#include "tests/conformance/node_cases.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "tempera/base/error.h"
#include "tempera/onnx/read.h"

namespace tempera::conformance {
namespace {

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    throw Error(ErrorCode::kNotFound, fmt::format("cannot read '{}'", path.string()), "run write_node_cases.py");
  }
  std::ostringstream bytes;
  bytes << file.rdbuf();
  return std::move(bytes).str();
}

graph::Tensor read_tensor_file(const std::filesystem::path& path) {
  const std::string bytes = read_file(path);
  return onnx::read_tensor(std::as_bytes(std::span(bytes)));
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::string part;
  std::istringstream stream(text);
  while (std::getline(stream, part, separator)) {
    parts.push_back(part);
  }
  return parts;
}

std::string tensor_difference(const NodeCase& node_case, const graph::Tensor& expected, const graph::Tensor& actual) {
  if (expected.type() != actual.type()) {
    return fmt::format("type {}, expected {}", numeric::to_string(actual.type()), numeric::to_string(expected.type()));
  }
  if (expected.dims() != actual.dims()) {
    return fmt::format("shape {}, expected {}", graph::to_string(actual.dims()), graph::to_string(expected.dims()));
  }
  if (expected.type() == graph::DataType::kString) {
    for (std::size_t i = 0; i < expected.string_values().size(); ++i) {
      if (expected.string_values()[i] != actual.string_values()[i]) {
        return fmt::format("element {}: '{}', expected '{}'", i, actual.string_values()[i], expected.string_values()[i]);
      }
    }
    return "";
  }
  if (expected.same_bytes(actual)) {
    return "";
  }
  if (!numeric::is_float(expected.type())) {
    const bool is_complex = expected.type() == graph::DataType::kComplex64 || expected.type() == graph::DataType::kComplex128;
    if (is_complex) {
      return "complex elements differ";
    }
    const std::vector<double> a = graph::to_doubles(actual);
    const std::vector<double> e = graph::to_doubles(expected);
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (a[i] != e[i]) {
        return fmt::format("element {}: {}, expected {}", i, a[i], e[i]);
      }
    }
    return "elements differ beyond 2^53";
  }
  const std::vector<double> a = graph::to_doubles(actual);
  const std::vector<double> e = graph::to_doubles(expected);
  for (std::size_t i = 0; i < a.size(); ++i) {
    const bool same = a[i] == e[i] || (std::isnan(a[i]) && std::isnan(e[i])) ||
                      (std::isfinite(e[i]) && std::fabs(a[i] - e[i]) <= node_case.atol + node_case.rtol * std::fabs(e[i]));
    if (!same) {
      return fmt::format("element {} of {}: {}, expected {}", i, a.size(), a[i], e[i]);
    }
  }
  return "";
}

std::string value_difference(const NodeCase& node_case, const CaseValue& expected, const CaseValue& actual) {
  if (expected.index() != actual.index()) {
    return fmt::format("kind {}, expected {} (0 nothing, 1 tensor, 2 sequence)", actual.index(), expected.index());
  }
  if (const auto* tensor = std::get_if<graph::Tensor>(&expected)) {
    return tensor_difference(node_case, *tensor, std::get<graph::Tensor>(actual));
  }
  if (const auto* sequence = std::get_if<std::vector<graph::Tensor>>(&expected)) {
    const auto& other = std::get<std::vector<graph::Tensor>>(actual);
    if (sequence->size() != other.size()) {
      return fmt::format("{} tensors, expected {}", other.size(), sequence->size());
    }
    for (std::size_t i = 0; i < other.size(); ++i) {
      if (const std::string found = tensor_difference(node_case, (*sequence)[i], other[i]); !found.empty()) {
        return fmt::format("tensor {}: {}", i, found);
      }
    }
  }
  return "";
}

}  // namespace

graph::Model NodeCase::model() const { return onnx::read_model(folder / "model.onnx"); }

std::vector<CaseValue> NodeCase::read(const std::string& direction) const {
  std::vector<CaseValue> values;
  const std::vector<std::string>& kinds = direction == "in" ? inputs : outputs;
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    if (kinds[i] == "n") {
      values.emplace_back();
    } else if (kinds[i] == "t") {
      values.emplace_back(read_tensor_file(folder / fmt::format("{}_{}.pb", direction, i)));
    } else {
      std::vector<graph::Tensor> sequence;
      const int count = std::stoi(kinds[i].substr(1));
      for (int j = 0; j < count; ++j) {
        sequence.push_back(read_tensor_file(folder / fmt::format("{}_{}_{}.pb", direction, i, j)));
      }
      values.emplace_back(std::move(sequence));
    }
  }
  return values;
}

std::vector<NodeCase> read_cases(const std::filesystem::path& folder) {
  std::vector<NodeCase> cases;
  const std::vector<std::string> lines = split(read_file(folder / "cases.txt"), '\n');
  for (std::size_t i = 1; i < lines.size(); ++i) {
    std::vector<std::string> fields = split(lines[i], '\t');
    fields.resize(7);
    NodeCase node_case;
    node_case.name = fields[0];
    node_case.rtol = std::stod(fields[1]);
    node_case.atol = std::stod(fields[2]);
    node_case.counted = fields[3] == "1";
    node_case.operators = split(fields[4], ' ');
    node_case.inputs = split(fields[5], ' ');
    node_case.outputs = split(fields[6], ' ');
    node_case.readable = (fields[5] + fields[6]).find('?') == std::string::npos;
    node_case.folder = folder / node_case.name;
    cases.push_back(std::move(node_case));
  }
  return cases;
}

std::filesystem::path environment(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr) {
    throw Error(ErrorCode::kNotFound, fmt::format("the environment has no {}", name), "run the test through ctest");
  }
  return value;
}

std::vector<NodeCase> prepared_cases() {
  const std::filesystem::path folder = environment("TEMPERA_BUILD_DIR") / "node_cases";
  const std::string command =
      fmt::format("'{}' '{}' '{}'", environment("TEMPERA_TEST_PYTHON").string(),
                  (environment("TEMPERA_SOURCE_DIR") / "tests/conformance/write_node_cases.py").string(), folder.string());
  if (std::system(command.c_str()) != 0) {
    throw Error(ErrorCode::kIo, "write_node_cases.py failed");
  }
  return read_cases(folder);
}

std::string difference(const NodeCase& node_case, const std::vector<CaseValue>& expected,
                       const std::vector<CaseValue>& actual) {
  if (expected.size() != actual.size()) {
    return fmt::format("{} outputs, expected {}", actual.size(), expected.size());
  }
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (const std::string found = value_difference(node_case, expected[i], actual[i]); !found.empty()) {
      return fmt::format("output {}: {}", i, found);
    }
  }
  return "";
}

std::map<std::string, std::string> read_known_failures(const std::filesystem::path& file) {
  std::map<std::string, std::string> known;
  for (const std::string& line : split(read_file(file), '\n')) {
    if (line.empty() || line.starts_with('#')) {
      continue;
    }
    const std::size_t tab = line.find('\t');
    if (tab == std::string::npos || tab + 1 == line.size()) {
      throw Error(ErrorCode::kBadModel, fmt::format("'{}' gives no reason after a tab", line));
    }
    known.emplace(line.substr(0, tab), line.substr(tab + 1));
  }
  return known;
}

Tally run_cases(const std::vector<NodeCase>& cases, const RunCase& run,
                const std::map<std::string, std::function<std::string()>>& judges) {
  Tally tally;
  std::set<std::string> unclean;
  for (const NodeCase& node_case : cases) {
    std::string found;
    try {
      if (!node_case.readable) {
        found = "holds values that the harness cannot read";
      } else if (const auto judge = judges.find(node_case.name); judge != judges.end()) {
        found = judge->second();
      } else {
        found = difference(node_case, node_case.read("out"), run(node_case));
      }
    } catch (const Error& error) {
      found = error.text();
    }
    const bool passed = found.empty();
    (node_case.counted ? tally.counted : tally.others) += 1;
    (node_case.counted ? tally.counted_passed : tally.others_passed) += passed ? 1 : 0;
    tally.operators.insert(node_case.operators.begin(), node_case.operators.end());
    if (passed) {
      tally.operators_passed.insert(node_case.operators.begin(), node_case.operators.end());
    } else {
      unclean.insert(node_case.operators.begin(), node_case.operators.end());
      tally.failures.emplace(node_case.name, found);
    }
  }
  for (const std::string& name : tally.operators) {
    if (!unclean.contains(name)) {
      tally.operators_clean.insert(name);
    }
  }
  return tally;
}

std::string summary(const Tally& tally) {
  return fmt::format(
      "{} of {} numeric cases and {} of {} others pass; of {} distinct operators {} pass in at least one case, {} in all",
      tally.counted_passed, tally.counted, tally.others_passed, tally.others, tally.operators.size(),
      tally.operators_passed.size(), tally.operators_clean.size());
}

}  // namespace tempera::conformance
