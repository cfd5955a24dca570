#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tempera/base/host.h"
#include "tempera/data/dataset.h"
#include "tempera/engine/engine.h"
#include "tempera/graph/model.h"

namespace tempera::compress {

/// How a clipping range is chosen from what was observed.
enum class RangeMethod : std::uint8_t {
  kMinMax,         ///< least and largest value of all samples
  kMovingAverage,  ///< of each sample's least and largest value, in sample order
  kPercentile,     ///< leaves `1 - percentile` of the values outside, half of them on each side
  kMse,            ///< least expected squared error of quantising the histogram
  kEntropy,        ///< least Kullback-Leibler divergence (Migacz 2017, "8-bit Inference with TensorRT")
  kAuto,  ///< for each tensor the method with the least error on samples held out; never worse than min-max
};

[[nodiscard]] std::string_view to_string(RangeMethod method);
[[nodiscard]] std::optional<RangeMethod> range_method_from_string(std::string_view name);

/// What calibration found for one tensor.
struct TensorRange {
  float min = 0.0F;  ///< observed
  float max = 0.0F;
  float lo = 0.0F;  ///< chosen for quantising: min <= lo <= hi <= max, apart from kMovingAverage
  float hi = 0.0F;
  RangeMethod method = RangeMethod::kMinMax;  ///< what chose it; never kAuto
  double relative_mse =
      0.0;  ///< of quantising to 8 bits with [lo, hi] on held-out samples, over the mean square
};

struct CalibrateOptions {
  RangeMethod method = RangeMethod::kAuto;
  double percentile = 0.9999;
  double momentum = 0.9;   ///< of kMovingAverage: weight of the past
  bool symmetric = false;  ///< ranges are [-a, a] where a tensor takes both signs
  int batch = 1;           ///< samples run together; changes nothing but speed
  int workers = 0;         ///< threads that read data; 0: min(8, cores)
  std::filesystem::path
      cache_dir;  ///< finished and partial calibrations: what was interrupted goes on; empty: none
  std::string
      timestep_input;  ///< diffusion: the samples that judge are spread over this input's values; empty: none
  engine::CompileOptions compile;  ///< precision must be kFloat32
};

struct Calibration {
  std::map<std::string, TensorRange> ranges;  ///< by tensor name
  std::int64_t samples = 0;
  std::string engine;  ///< name, version and options it was computed with
};

/// What can be calibrated in the main graph: its float inputs and the float outputs of its nodes, constants
/// left out, in graph order.
///
/// \param graph  with types inferred; values of unknown type are left out
[[nodiscard]] std::vector<std::string> activation_names(const graph::Graph& graph);

/// Ranges of the named tensors over samples, in constant memory. One pass over all samples takes extremes and
/// histograms (whose bins join as the range grows, see histogram.h); a second over the samples that judge,
/// every fifth and at most about 64, measures what the proposed ranges cost. Those samples are in no
/// histogram, unless there are less than five.
///
/// The same samples give the same bytes, whatever the batch size, the number of threads and the order in
/// which workers finish: counts do not depend on order, everything else merges in sample order.
///
/// \param tensors  float values of the main graph; graph inputs are allowed
/// \param samples  indices into `dataset`, not empty
/// \throws Error{kCancelled}: with a cache_dir the next call goes on from the last checkpoint, to the same
/// bytes \throws Error{kInvalidArgument} naming sample and tensor at the first NaN or infinity, at an empty
/// tensor, and at an
///   unknown tensor name
[[nodiscard]] Calibration calibrate(const graph::Model& model, const std::vector<std::string>& tensors,
                                    const data::Dataset& dataset, const std::vector<std::size_t>& samples,
                                    const engine::Engine& engine, const CalibrateOptions& options,
                                    const Host& host);

/// Of `samples`, `count` spread over the values of a timestep input: sorted by its first element they are cut
/// into `count` runs of equal length, and a seeded one is taken of each. In the order of `samples`. Loads
/// every sample once.
///
/// \param count  at least 1; all samples when there are not more
/// \throws Error{kNotFound} with the nearest names when samples have no such input
[[nodiscard]] std::vector<std::size_t> stratified_samples(
    const data::Dataset& dataset, const graph::Graph& graph, const std::vector<std::size_t>& samples,
    const std::string& timestep_input, std::size_t count, std::uint64_t seed, const Host& host);

/// JSON with the bits of every number kept; equal calibrations give equal text.
[[nodiscard]] std::string to_json(const Calibration& calibration);
[[nodiscard]] Calibration calibration_from_json(std::string_view text);

}  // namespace tempera::compress
