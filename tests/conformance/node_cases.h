#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "tempera/graph/model.h"

namespace tempera::conformance {

/// An input or output of a case: nothing, a tensor, or a sequence of tensors.
using CaseValue = std::variant<std::monostate, graph::Tensor, std::vector<graph::Tensor>>;

/// One of the ONNX project's node conformance cases, as write_node_cases.py leaves it.
struct NodeCase {
  std::string name;
  double rtol = 0.0;
  double atol = 0.0;
  bool counted = false;              ///< plain numeric inputs and outputs, standard operator set
  bool readable = true;              ///< every input and output has a form that CaseValue can hold
  std::vector<std::string> operators;
  std::vector<std::string> inputs;   ///< kinds, as in cases.txt
  std::vector<std::string> outputs;
  std::filesystem::path folder;

  [[nodiscard]] graph::Model model() const;
  [[nodiscard]] std::vector<CaseValue> read(const std::string& direction) const;  ///< "in" or "out"
};

/// \throws Error{kNotFound, kBadModel} when the folder's list is missing or malformed
[[nodiscard]] std::vector<NodeCase> read_cases(const std::filesystem::path& folder);

/// A path that ctest sets for the tests. \throws Error{kNotFound} when it is not set
[[nodiscard]] std::filesystem::path environment(const char* name);

/// All cases, written by the Python of the tests when they are not there yet.
[[nodiscard]] std::vector<NodeCase> prepared_cases();

/// Computes a case's model: one value for each output of the graph.
using RunCase = std::function<std::vector<CaseValue>(const NodeCase& node_case)>;

/// Compares by the case's tolerances, data type and shape: |actual - expected| <= atol + rtol |expected|, NaN equal to
/// NaN, everything but floats exactly. Empty when equal, else the first difference.
[[nodiscard]] std::string difference(const NodeCase& node_case, const std::vector<CaseValue>& expected,
                                     const std::vector<CaseValue>& actual);

/// Cases known to fail, with the reason: lines "name<tab>reason", '#' begins a comment.
[[nodiscard]] std::map<std::string, std::string> read_known_failures(const std::filesystem::path& file);

struct Tally {
  int counted = 0;         ///< counted cases
  int counted_passed = 0;
  int others = 0;          ///< cases with other inputs or of other operator sets
  int others_passed = 0;
  std::set<std::string> operators;         ///< of all cases
  std::set<std::string> operators_passed;  ///< those with at least one case passed that names them
  std::set<std::string> operators_clean;   ///< those of which every case passed
  std::map<std::string, std::string> failures;  ///< name -> what differed
};

/// Runs every case. One that a judge is named for (an operator of random output) is decided by it instead of by
/// comparison: empty when right, else what was wrong.
[[nodiscard]] Tally run_cases(const std::vector<NodeCase>& cases, const RunCase& run,
                              const std::map<std::string, std::function<std::string()>>& judges = {});

[[nodiscard]] std::string summary(const Tally& tally);

}  // namespace tempera::conformance
