#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tempera/compress/calibrate/calibrate.h"
#include "tempera/compress/quantize/layers.h"
#include "tempera/compress/quantize/quantize.h"
#include "tempera/optimize/candidate.h"
#include "tempera/optimize/format_search.h"
#include "tempera/optimize/losses.h"
#include "tempera/report/report.h"

namespace tempera::optimize {

/// A mix of number formats that runs.
struct Mix {
  Candidate candidate;
  compress::QuantizationPlan plan;
  std::vector<compress::LayerRecord> records;
  std::vector<std::string> refinements;  ///< "joined codes", "bias correction", ...: how it was made beside the plan
  double loss = 0.0;        ///< relative L2 of the worst output
  double latency_ms = 0.0;  ///< the base's, divided by how many times faster this was beside it
  std::int64_t bytes = 0;   ///< of the weights
};

/// Makes mixes of one float candidate, measures them beside it, and keeps a list of all that were measured.
class MixBench {
 public:
  /// \param base,meter  outlive this
  MixBench(const Candidate& base, const LossMeter& meter, const Subject& subject, const engine::Engine& engine,
           const FormatSearchOptions& options, const Host& host);

  [[nodiscard]] const graph::Model& model() const { return model_; }
  [[nodiscard]] const std::vector<compress::Layer>& layers() const { return layers_; }
  [[nodiscard]] const std::vector<report::Trial>& trials() const { return trials_; }
  [[nodiscard]] const std::vector<std::string>& notes() const { return notes_; }
  /// How mixes made from now on are quantised; at first as the options say.
  [[nodiscard]] const compress::QuantizeOptions& style() const { return style_; }
  void set_style(const compress::QuantizeOptions& style) { style_ = style; }
  void rename_trial(const std::string& from, const std::string& to);

  /// Ranges of what the plan needs, whole and each layer alone. Mixes that place Q/DQ elsewhere still calibrate the rest
  /// when they are made.
  void calibrate(const compress::QuantizationPlan& plan);

  /// Compiled; neither loss nor latency is measured. Nothing, and a note, when it does not run.
  [[nodiscard]] std::optional<Mix> compile(const std::string& name, const compress::QuantizationPlan& plan);

  /// Compiled and measured, with a trial noted. Losses, which take long on many samples, are looked up among the answers of
  /// an interrupted search first; latency is measured anew.
  [[nodiscard]] std::optional<Mix> measure(const std::string& name, const compress::QuantizationPlan& plan);

  /// The same with biases corrected and channels rescaled where that lowers the loss (compress/quantize/refine.h).
  [[nodiscard]] std::optional<Mix> measure_refined(const std::string& name, const compress::QuantizationPlan& plan);

  /// How many times faster `contender` is than `baseline`; neither's own timing changes.
  [[nodiscard]] engine::PairedSpeedup speedup(const Candidate& baseline, const Candidate& contender,
                                              const engine::TimingOptions& timing) const;

  [[nodiscard]] std::vector<engine::NodeTime> node_times(const Candidate& candidate) const;

 private:
  [[nodiscard]] std::optional<Mix> prepared(const std::string& name, const compress::QuantizationPlan& plan,
                                            compress::Quantized quantized);
  void measure(Mix& mix, const std::string& question);
  [[nodiscard]] std::vector<quality::OutputLoss> losses_of(engine::Session& session, const std::string& question);
  [[nodiscard]] std::string question(std::string_view what, const compress::QuantizationPlan& plan) const;
  void calibrate_tensors(const std::vector<std::string>& tensors);
  void calibrate_missing(const compress::QuantizationPlan& plan);

  const Candidate& base_;
  const LossMeter& meter_;
  const Subject& subject_;
  const engine::Engine& engine_;
  const FormatSearchOptions& options_;
  const Host& host_;
  compress::QuantizeOptions style_;
  graph::Model model_;
  std::vector<data::Sample> samples_;
  std::vector<compress::Layer> layers_;
  compress::Calibration calibration_;
  std::vector<report::Trial> trials_;
  std::vector<std::string> notes_;
};

}  // namespace tempera::optimize
