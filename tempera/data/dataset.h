#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tempera/base/hash.h"
#include "tempera/data/recipe.h"
#include "tempera/graph/graph.h"
#include "tempera/graph/tensor.h"

namespace tempera::data {

/// One run of the model: its inputs, and what should come out where that is known.
struct Sample {
  std::string name;                   ///< "coffee.png, crop 2"; for reports
  std::vector<graph::Tensor> inputs;  ///< one for each graph input that needs a value, in the graph's order
  std::map<std::string, graph::Tensor> expected;  ///< true outputs by output name; may be empty
};

/// What is known of a sample before it is loaded.
struct SampleInfo {
  std::string name;
  std::size_t source = 0;  ///< index into Dataset::sources()
};

/// A file (or a block of one, or a seed) that samples come from; samples of one source never fall into
/// different parts.
struct Source {
  std::string name;
  Sha256Digest hash = {};  ///< of the content
};

/// Samples in a fixed order. load() may be called from several threads.
class Dataset {
 public:
  virtual ~Dataset() = default;

  [[nodiscard]] virtual const std::vector<SampleInfo>& samples() const = 0;
  [[nodiscard]] virtual const std::vector<Source>& sources() const = 0;

  /// \throws Error{kInvalidArgument} naming file and element for NaN, infinity or a wrong shape; kIo
  [[nodiscard]] virtual Sample load(std::size_t index) const = 0;

  /// SHA-256 over all sources, order independent: identifies the data in reports and caches.
  [[nodiscard]] Sha256Digest hash() const;
};

struct DatasetOptions {
  std::uint64_t seed = 0;            ///< of crops and random inputs
  bool whole_files = false;          ///< one sample a picture, uncut: what `tempera run` wants
  std::int64_t random_samples = 24;  ///< when no input comes from a file
};

/// Samples from files and folders (searched recursively, in the order of their names, hidden files left out)
/// as the recipe says.
///
/// A picture feeds the one image input. A .npy feeds the one input that comes from a file. The keys of a .npz
/// are names of graph inputs and of outputs (expected values), or what the recipe's `key` and `expected` say;
/// they win over constants and random numbers of the recipe. With Samples::kAuto the leading axis of an array
/// holds samples when it has one axis more than the graph's input, or when it is longer than 1 where the
/// graph's first dimension is 1 or not fixed; each sample then has a batch of one. Values are cast to the
/// input's type when that is exact, or between float types.
///
/// With `expected = "folder"` the name of a picture's folder is its class: a line of the labels file, or an
/// index.
///
/// Without paths the recipe must make every input itself; each of `random_samples` samples is then a source
/// of its own.
///
/// Graph inputs that have an initialiser are left at it.
///
/// \throws Error{kNotFound} when nothing fits, saying what was looked for; Error{kInvalidArgument}
[[nodiscard]] std::unique_ptr<Dataset> open_dataset(const std::vector<std::filesystem::path>& paths,
                                                    const Recipe& recipe, const graph::Graph& graph,
                                                    const DatasetOptions& options = {});

/// Seeded random inputs: the recipe's constants and random inputs as they are, images uniform over their
/// range, other floats normal, integers 0, booleans false. Shapes are the recipe's deploy shapes, else the
/// graph's with 1 for what is not fixed; images without a size get that of the recipe's samples, crop or
/// tile, else 128 x 128. For `--data random` and for timing; shows nothing about quality.
[[nodiscard]] std::unique_ptr<Dataset> random_dataset(const Recipe& recipe, const graph::Graph& graph,
                                                      const DatasetOptions& options = {});

/// Names of the graph inputs that Sample::inputs holds, in order: those without an initialiser.
[[nodiscard]] std::vector<std::string> required_inputs(const graph::Graph& graph);

/// Inputs of `sample` in the order of `names`, which are a session's.
[[nodiscard]] std::vector<graph::Tensor> arrange_inputs(const Sample& sample, const graph::Graph& graph,
                                                        const std::vector<std::string>& names);

/// \throws Error{kInvalidArgument} naming the first NaN or infinity: "coffee.npz, array 'grid': element
/// [0,3,7] is nan"
void require_finite(const graph::Tensor& tensor, const std::string& what);

}  // namespace tempera::data
