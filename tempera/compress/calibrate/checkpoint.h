#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tempera/base/file_cache.h"
#include "tempera/compress/calibrate/calibrate.h"
#include "tempera/compress/calibrate/observed.h"

namespace tempera::compress {

/// A calibration under way.
struct Checkpoint {
  std::map<std::string, TensorRange> ranges;  ///< finished tensors
  std::vector<std::string> tensors;           ///< those under way
  std::vector<Observed> observed;             ///< one for each of `tensors`
  std::size_t merged = 0;                     ///< samples that `observed` holds, in order
};

/// Finished and partial calibrations in a folder, under a key of all that they depend on: the model's
/// content, the data's and the samples taken, the tensors, the options that change a result, the engine and
/// its version.
class CalibrationStore {
 public:
  /// \throws Error{kIo} when the folder cannot be made
  CalibrationStore(const std::filesystem::path& folder, const Sha256Digest& key);

  [[nodiscard]] std::optional<Calibration> finished() const;
  [[nodiscard]] std::optional<Checkpoint> partial() const;

  /// \throws Error{kIo} when it cannot be written
  void put(const Checkpoint& checkpoint) const;
  /// Replaces the partial calibration. \throws Error{kIo}
  void put(const Calibration& calibration) const;

 private:
  FileCache cache_;
  Sha256Digest finished_key_;
  Sha256Digest partial_key_;
};

/// The key of a calibration. The recipe and the seed count through the names of all samples and the content
/// of the first, the middle and the last one.
[[nodiscard]] Sha256Digest calibration_key(const graph::Model& model, const std::vector<std::string>& tensors,
                                           const data::Dataset& dataset,
                                           const std::vector<std::size_t>& samples,
                                           const engine::Engine& engine, const CalibrateOptions& options);

}  // namespace tempera::compress
