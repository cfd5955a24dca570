#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tempera/data/dataset.h"
#include "tempera/engine/engine.h"
#include "tempera/graph/model.h"

/// Looking at inner tensors of a model while samples run through it.
namespace tempera::compress {

/// One sample's values of the tapped tensors, in the order of the taps; gone after the call that shows them.
struct TappedSample {
  std::size_t place = 0;  ///< in the batch
  std::span<const std::span<const float>> values;
};

/// In which order a session shows the values of a tensor.
enum class TapOrder : std::uint8_t {
  kAsStored,  ///< row-major
  kAny,       ///< as it costs the engine least: channels last, which is how it computes, for three dimensions and more
};

/// A copy of a model with some of its tensors as further outputs, compiled. Belongs to one thread.
class TapSession {
 public:
  /// \param tensors  float tensors of the main graph by name, graph inputs among them
  /// \param batch    samples run together: the leading axis of the inputs is so many times as long as in
  ///   `options.input_shapes` when it is above 1
  /// \throws Error{kInvalidArgument} naming a tensor that does not exist, is constant or holds no floats
  TapSession(const engine::Engine& engine, const graph::Model& model, const std::vector<std::string>& tensors,
             const engine::CompileOptions& options, int batch = 1, TapOrder order = TapOrder::kAsStored);

  /// Whether each tapped tensor can be cut into one part for each sample of the batch, going by its shape.
  [[nodiscard]] bool divides() const { return divides_; }

  /// Where the value shown as number `shown` of a tensor stands in row-major order; as of the last run.
  [[nodiscard]] std::size_t element(std::size_t tensor, std::size_t shown) const;

  /// Runs 1 to `batch` samples and shows them one after the other.
  void run(std::span<const data::Sample> samples, const std::function<void(const TappedSample&)>& see);

 private:
  struct Place {
    bool input = false;  ///< the tensor is a graph input
    std::size_t index = 0;
    bool channels_last = false;
    std::size_t channels = 1;  ///< of the last run, where they are last
    std::size_t size = 0;      ///< values of one sample in the last run
  };

  [[nodiscard]] std::vector<graph::Tensor> arrange(std::span<const data::Sample> samples) const;
  void show(std::span<const graph::Tensor> inputs, std::span<const graph::Tensor> outputs, std::size_t count,
            const std::function<void(const TappedSample&)>& see);

  graph::Model model_;
  std::vector<std::string> tensors_;
  std::size_t batch_;
  std::unique_ptr<engine::Session> session_;
  std::vector<std::string> input_names_;
  std::vector<Place> places_;
  bool divides_ = true;
};

/// Shapes of all inputs for `batch` samples together; nothing when a leading dimension is fixed in the graph,
/// is not one sample, or a shape is not known.
[[nodiscard]] std::optional<std::map<std::string, graph::Dims>> batched_shapes(
    const graph::Graph& graph, const std::map<std::string, graph::Dims>& input_shapes, int batch);

/// Bytes that each of the tensors takes as float32, in their order; those of unknown size count as 16 MiB.
[[nodiscard]] std::vector<std::int64_t> tap_bytes(const graph::Model& model, const std::vector<std::string>& tensors,
                                                  const std::map<std::string, graph::Dims>& input_shapes);

/// Cuts the tensors, in order, into runs that together take at most `max_bytes`, at least one tensor each.
///
/// \param bytes  of each tensor
[[nodiscard]] std::vector<std::vector<std::string>> group_taps(const std::vector<std::string>& tensors,
                                                               const std::vector<std::int64_t>& bytes, std::int64_t max_bytes);

}  // namespace tempera::compress
