#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tempera::report {

/// Version of the JSON schema; raised when a field changes its meaning or goes.
inline constexpr int kSchemaVersion = 1;

/// A file or folder by its content.
struct Fingerprint {
  std::string path;
  std::string sha256;
  std::int64_t bytes = 0;
};

/// Latency of one run, milliseconds.
struct Latency {
  double min_ms = 0.0;
  double median_ms = 0.0;
  double p95_ms = 0.0;
  double p99_ms = 0.0;
  std::int64_t runs = 0;
};

/// How much faster than the baseline, from interleaved pairs (ratio = baseline / this; above 1 is faster).
struct Speedup {
  double median = 1.0;
  double lower95 = 1.0;  ///< lower 95 % bound of the median ratio
  double noise = 1.0;    ///< the same bound's mirror for the baseline against itself: what chance alone gives
  std::int64_t pairs = 0;
  bool faster = false;  ///< lower95 above both 1 and noise
};

/// One measure of one output over the held-out samples.
struct Loss {
  std::string output;
  std::string metric;  ///< "relative_l2", "psnr_y", "top1_agreement", ...
  std::string unit;    ///< "", "dB", "%"
  double value = 0.0;  ///< mean over samples
  double worst = 0.0;
  std::string worst_sample;        ///< the sample's name
  std::optional<double> baseline;  ///< the original's own value when the metric compares with labels
  double limit = 0.0;              ///< what the budget allows
  bool within = true;
};

/// A model with the settings it runs under, as measured.
struct Candidate {
  std::string name;  ///< "original f32", "rewritten bf16"
  std::string engine;
  std::string precision;
  int threads = 0;
  bool rewritten = false;
  std::int64_t file_bytes = 0;
  std::int64_t peak_memory_bytes = 0;  ///< resident, of a process that loads and runs only this
  double load_ms = 0.0;                ///< read, compile and first run
  Latency latency;
  Speedup speedup;
  std::vector<Loss> losses;
  bool chosen = false;
  std::string verdict;  ///< why it was chosen or not, one sentence
};

struct Site {
  std::string node;
  std::string text;
};

/// What one pass did.
struct PassRecord {
  std::string name;
  double time_ms = 0.0;
  std::vector<Site> rewrites;
  std::vector<Site> skipped;
  double effect = 0.0;   ///< how many times faster the model is with it than without it; 0: not measured
  std::string reverted;  ///< why its effect was taken back; empty: kept
};

/// Time in one node, microseconds; empty on the side where it does not exist.
struct NodeRecord {
  std::string node;
  std::string op_type;
  std::string kernel;
  std::optional<double> before_us;
  std::optional<double> after_us;
};

/// What became of one layer (a product with weights) when number formats were chosen.
struct LayerRecord {
  std::string layer;
  std::string op_type;
  std::string format;              ///< "int8 x int8", "int8", "float": weights, and activations where they differ
  std::string reason;              ///< why it stayed in float, or got another format than the others
  std::string kernel;              ///< what the compiled engine ran it as: its actual precision
  std::optional<double> sensitivity;  ///< loss in the budget's unit with this layer alone changed
  std::optional<double> speedup;   ///< of the whole model, with this layer's kind changed against left in float
  double weight_error = 0.0;       ///< relative L2 of the stored weights against the float ones
  std::int64_t bytes_before = 0;   ///< of the weights
  std::int64_t bytes_after = 0;
};

/// A mix of formats, or a float candidate, that was measured on the way to the result.
struct Trial {
  std::string name;
  double loss = 0.0;       ///< in the budget's unit
  double latency_ms = 0.0;
  std::int64_t file_bytes = 0;
  bool within = false;     ///< the budget
  bool chosen = false;
};

/// One property of the model, before and after: parameters, floating-point operations, zeros.
struct Figure {
  std::string name;
  std::string unit;  ///< "bytes" is shown as MB
  double before = 0.0;
  double after = 0.0;
};

/// A picture row of the page: the same crop before and after, and their difference magnified. PNG files'
/// bytes.
struct Picture {
  std::string sample;
  std::string input_png;
  std::string before_png;
  std::string after_png;
  std::string difference_png;
  double difference_gain = 1.0;
};

/// Values of one output over samples, element by element.
struct Scatter {
  std::string output;
  std::vector<double> before;  ///< of the original
  std::vector<double> after;   ///< of the new model, as many
  double pearson = 0.0;        ///< correlation; NaN when one side is constant
  double spearman = 0.0;       ///< correlation of the ranks
};

/// Everything `optimize` claims, with what is needed to repeat it.
struct Report {
  std::string command;
  std::string created;                          ///< ISO 8601, UTC
  std::map<std::string, std::string> versions;  ///< "tempera", "openvino", "torch", "onnx"
  std::map<std::string, std::string> machine;   ///< "cpu", "features", "cores", "memory"
  Fingerprint model;
  Fingerprint data;
  Fingerprint output;
  std::string settings_sha256;                  ///< of the settings below
  std::map<std::string, std::string> settings;  ///< options as resolved
  std::map<std::string, std::string> deploy;    ///< engine, precision, threads, shapes: how to run the result
  std::map<std::string, std::int64_t> samples;  ///< "calibrate", "search", "verify"
  bool changed = false;
  bool verified = false;              ///< losses below were measured on held-out data with the written file
  std::vector<std::string> history;   ///< what was done to the result, oldest first: steps of earlier runs, then this one's
  std::string summary;                ///< one sentence: what was gained, or why the original stayed
  std::vector<Candidate> candidates;  ///< the first is the baseline
  std::vector<Figure> figures;
  std::vector<PassRecord> passes;
  std::vector<NodeRecord> nodes;
  std::vector<LayerRecord> layers;  ///< empty when no number format was searched
  std::string layers_of;            ///< name of the candidate they belong to; empty: of the best mix, which none holds
  std::vector<Trial> trials;        ///< likewise; the points of the loss-latency and loss-size curves
  std::string loss_name;            ///< what Trial::loss is: "relative L2 of the worst output"
  double loss_limit = 0.0;          ///< the budget, in the same unit
  std::vector<Picture> pictures;   ///< on the page, not in the JSON
  std::vector<Scatter> scatters;   ///< the points on the page, the correlations in the JSON
  std::vector<std::string> notes;  ///< fallbacks, warnings, what was not claimed and why
};

/// The report as JSON text (schema "tempera.report", version kSchemaVersion).
[[nodiscard]] std::string to_json(const Report& report);

/// One self-contained page: no script, no outside resource.
[[nodiscard]] std::string to_html(const Report& report);

/// The table for a terminal. \param color  ANSI colours
[[nodiscard]] std::string to_table(const Report& report, bool color);

/// "35.7 M", "1.93 G", "912": decimal prefixes, three digits; bytes as human_bytes() has them.
[[nodiscard]] std::string human_figure(double value, const std::string& unit);

/// "11.3 MB", "912 kB": decimal units, three digits.
[[nodiscard]] std::string human_bytes(std::int64_t bytes);

}  // namespace tempera::report
