#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tempera/report/report.h"

namespace tempera::report {

/// One layer in one format, all else in float.
struct SensitivityCell {
  std::optional<double> loss;  ///< relative L2 of the worst output; absent: not possible
  std::string reason;          ///< why not
};

struct SensitivityRow {
  std::string layer;
  std::string op_type;
  std::int64_t multiplications = 0;
  std::int64_t weight_bytes = 0;
  std::vector<SensitivityCell> cells;  ///< in the order of SensitivityReport::formats
};

/// What each layer alone costs in each format.
struct SensitivityReport {
  std::string command;
  std::string created;  ///< ISO 8601, UTC
  Fingerprint model;
  Fingerprint data;
  bool random_data = false;
  std::int64_t samples = 0;
  std::string engine;
  std::string precision;             ///< of all that stays in float
  double float_loss = 0.0;           ///< of the model as it is in that precision, against f32
  std::vector<std::string> formats;
  std::vector<SensitivityRow> rows;  ///< in the order of the graph
};

/// JSON, schema "tempera.sensitivity", version 1.
[[nodiscard]] std::string to_json(const SensitivityReport& report);
/// One self-contained page with a bar for each layer and format, on a logarithmic axis.
[[nodiscard]] std::string to_html(const SensitivityReport& report);
/// Table for a terminal: the most sensitive layers first, by the first format.
[[nodiscard]] std::string to_table(const SensitivityReport& report);

}  // namespace tempera::report
