#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tempera/base/host.h"
#include "tempera/compress/quantize/plan.h"
#include "tempera/optimize/answers.h"
#include "tempera/optimize/losses.h"
#include "tempera/optimize/mix.h"

namespace tempera::optimize {

/// Loss of the output with one layer changed alone, and the layer's name; largest first.
using RankedLayers = std::vector<std::pair<double, std::string>>;

/// Measures how sensitive the output is to each layer of a mix.
class LayerRanking {
 public:
  /// \param answers  losses known from an interrupted run, and where new ones are kept; null: none
  LayerRanking(MixBench& bench, const LossMeter& meter, const Candidate& base, Answers* answers, const Host& host)
      : bench_(bench), meter_(meter), base_(base), answers_(answers), host_(host) {}

  /// Layers of the mix by the relative L2 error of the worst output with that layer alone as planned, beyond the base's own.
  /// \param seconds  after these, layers not measured are ranked by the error of their own weights, scaled to the measured ones
  [[nodiscard]] RankedLayers rank(const Mix& mix, double seconds);

  [[nodiscard]] const std::map<std::string, double>& measured() const { return measured_; }
  [[nodiscard]] const std::vector<std::string>& notes() const { return notes_; }

 private:
  [[nodiscard]] std::optional<double> loss_alone(const std::string& layer, const compress::LayerFormat& format, bool in_time);

  MixBench& bench_;
  const LossMeter& meter_;
  const Candidate& base_;
  Answers* answers_;
  const Host& host_;
  std::map<std::string, double> measured_;
  std::vector<std::string> notes_;
};

}  // namespace tempera::optimize
