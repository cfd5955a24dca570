#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tempera/base/host.h"
#include "tempera/engine/engine.h"
#include "tempera/optimize/subject.h"
#include "tempera/quality/loss_budget.h"

namespace tempera::optimize {

/// Share of the loss budget that a search may use: the verification part is other data.
inline constexpr double kRoomToVerify = 0.9;

/// Samples on which the loss of one changed layer is measured: it is compared with other layers' only.
inline constexpr std::size_t kSamplesToRank = 4;

/// Bytes of samples and reference outputs that a LossMeter of a search holds.
inline constexpr std::size_t kHeldBytes = std::size_t{512} << 20;

/// A compiled model under comparison.
struct Contender {
  std::string name;
  engine::Session* session = nullptr;
};

/// Runs `reference` and every contender over the same samples, one sample at a time in constant memory.
///
/// \param indices  samples of the subject's dataset
/// \return for each contender one OutputLoss for each output of the reference
///   (a NaN or infinity that the reference does not have makes the loss infinite)
/// \throws Error{kInvalidArgument} when outputs differ in shape
[[nodiscard]] std::vector<std::vector<quality::OutputLoss>> measure_losses(
    const Subject& subject, engine::Session& reference, const std::vector<Contender>& contenders,
    const std::vector<std::size_t>& indices, const Host& host);

/// The greatest relative L2 of all outputs; infinity for a NaN.
[[nodiscard]] double worst_relative_l2(const std::vector<quality::OutputLoss>& losses);

/// Measures many models one after another against the same reference outputs, which are computed once and held.
class LossMeter {
 public:
  /// \param indices    samples of the subject's dataset, not empty
  /// \param max_bytes  of inputs and outputs held; fewer samples are kept when they would not fit, at least one
  LossMeter(const Subject& subject, engine::Session& reference, const std::vector<std::size_t>& indices,
            std::size_t max_bytes, const Host& host);
  ~LossMeter();

  [[nodiscard]] std::size_t samples() const;

  /// \param most  how many samples to use at most, the first ones
  /// \return one OutputLoss for each output of the reference, as measure_losses()
  [[nodiscard]] std::vector<quality::OutputLoss> measure(engine::Session& session, std::size_t most, const Host& host) const;

 private:
  struct Held;
  const Subject& subject_;
  std::vector<std::string> outputs_;
  std::vector<Held> held_;
};

}  // namespace tempera::optimize
