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

/// A copy of a model with some of its tensors as further outputs, compiled. Belongs to one thread.
class TapSession {
 public:
  /// \param tensors  float tensors of the main graph by name, graph inputs among them
  /// \param batch    samples run together: the leading axis of the inputs is so many times as long as in
  ///   `options.input_shapes` when it is above 1
  /// \throws Error{kInvalidArgument} naming a tensor that does not exist, is constant or holds no floats
  TapSession(const engine::Engine& engine, const graph::Model& model, const std::vector<std::string>& tensors,
             const engine::CompileOptions& options, int batch = 1);

  /// Whether each tapped tensor can be cut into one part for each sample of the batch, going by its shape.
  [[nodiscard]] bool divides() const { return divides_; }

  /// Runs 1 to `batch` samples and shows them one after the other.
  void run(std::span<const data::Sample> samples, const std::function<void(const TappedSample&)>& see);

 private:
  struct Place {
    bool input = false;  ///< the tensor is a graph input
    std::size_t index = 0;
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

/// Cuts the tensors, in order, into runs whose values of one sample together take at most `max_bytes`, at
/// least one tensor each. Tensors without a known size count as 16 MiB.
[[nodiscard]] std::vector<std::vector<std::string>> group_taps(
    const graph::Model& model, const std::vector<std::string>& tensors,
    const std::map<std::string, graph::Dims>& input_shapes, std::int64_t max_bytes);

}  // namespace tempera::compress
