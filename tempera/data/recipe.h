#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tempera/graph/graph.h"
#include "tempera/image/resize.h"
#include "tempera/image/tensor.h"

namespace tempera::data {

struct PixelSize {
  int width = 0;
  int height = 0;
};

/// Bringing a picture to the size the model takes: resize, then crop.
struct ImageFit {
  std::optional<int>
      short_side;  ///< resize so that the shorter side has so many pixels, the other in proportion
  std::optional<PixelSize> size;  ///< or resize to this, whatever the proportions
  image::ResizeKernel kernel = image::ResizeKernel::kBicubic;
  std::optional<PixelSize> crop;  ///< then the middle of this size
};

/// How samples for calibrating and measuring are cut from one picture. `tempera run` skips this: it takes the
/// whole picture through the fit alone. Steps: zoom, the fit, size, reduce.
struct ImageSampling {
  struct Range {
    double min = 1.0;
    double max = 1.0;
  };
  int crops = 1;  ///< samples from each picture: the first from its middle, others at seeded places
  std::optional<Range> zoom;  ///< first cut a square, its side this fraction of the picture's shorter side
  std::optional<PixelSize> size;  ///< after the fit, cut this size (in the model's input pixels); too small a
                                  ///< picture is mirrored at its edges
  int reduce = 1;  ///< super-resolution: cut `reduce` times as large, which is the expected output, and
                   ///< shrink it with the fit's kernel, which is the input
};

struct ImageSource {
  image::PixelFormat format;
  ImageFit fit;
  ImageSampling sampling;
};

/// Arrays from .npy and .npz files.
struct ArraySource {
  std::string key;  ///< name in the .npz; empty: the input's name
};

struct ConstantSource {
  std::vector<double> values;  ///< one, or as many as `shape` holds
  graph::Dims shape;           ///< empty: the graph's own, with 1 for what is not fixed
};

struct RandomSource {
  enum class Distribution : std::uint8_t { kNormal, kUniform };
  Distribution distribution = Distribution::kNormal;
  double mean = 0.0;  ///< of kNormal
  double std = 1.0;
  double low = 0.0;  ///< of kUniform: [low, high); integers low..high inclusive
  double high = 1.0;
  graph::Dims shape;  ///< empty: the graph's own, with 1 for what is not fixed
};

using InputSource = std::variant<ImageSource, ArraySource, ConstantSource, RandomSource>;

struct InputRecipe {
  std::string name;
  InputSource source;
};

/// What an output means and how a change of it is measured.
struct OutputRecipe {
  std::string name;
  std::string meaning =
      "array";         ///< "image", "logits", "probabilities", "energy", "forces", "score", "array"
  std::string unit;    ///< "hartree", "pK"; free text
  std::string metric;  ///< a name of quality::metrics(); empty: relative_l2
  std::vector<std::string>
      command;  ///< program and arguments of a metric that is one (is_command_metric()); a path of the program with
                ///< a slash that is relative is so to the recipe's folder
  int border = 0;      ///< pixels an image metric leaves out at each edge
  std::string
      expected;  ///< where the true output comes from: a key of the .npz; "source": the picture the input was
                 ///< made from; "folder": the name of the picture's folder is its class; empty: unknown
  std::string labels;         ///< file with one class name a line, beside the recipe
  image::PixelFormat format;  ///< of an image
};

/// Running on images of any size (see image/tile.h).
struct TileRecipe {
  int scale = 1;
  int size = 128;
  int context = 16;
  int feather = 8;
  bool fixed_size = false;
};

/// How to run the model; printed as the settings for other tools. What is absent is the engine's or command's
/// default.
struct DeployRecipe {
  std::string engine;
  std::string device;
  std::string precision;                          ///< "f32", "bf16", "f16"
  int threads = 0;                                ///< 0: one for each core
  std::map<std::string, graph::Dims> shapes;      ///< fixed input shapes by input name
  std::map<std::string, std::string> properties;  ///< the engine's own settings
};

/// How files of arrays fall into samples and sources.
struct DataRecipe {
  enum class Samples : std::uint8_t { kAuto, kFile, kLeading };
  Samples samples =
      Samples::kAuto;  ///< one sample a file, or one for each index of the leading axis; kAuto: see dataset.h
  int blocks = 1;  ///< a file's leading axis is cut into so many contiguous blocks (of a trajectory), each a
                   ///< source of its own
};

/// What calibrating ranges of activations has to know.
struct CalibrateRecipe {
  /// The input that holds the timestep or noise level of a diffusion model: ranges change tenfold along it. When it is
  /// random (uniform), each sample draws it from a part of its own of the whole range. Empty: none.
  std::string timestep;
};

/// Everything a model file cannot say about its own use; the sidecar `model.recipe.toml` of `model.onnx`.
///
/// docs/recipes.md describes the format. A value; safe to copy.
struct Recipe {
  std::string task = "other";  ///< one of task_names()
  std::string description;
  std::vector<InputRecipe> inputs;    ///< in the order of their names
  std::vector<OutputRecipe> outputs;  ///< likewise
  DataRecipe data;
  CalibrateRecipe calibrate;
  std::optional<TileRecipe> tile;
  DeployRecipe deploy;

  std::filesystem::path path;  ///< the file it was read from; empty: made in memory or guessed
  std::vector<std::string>
      guesses;  ///< what was guessed from shapes and should be shown to the user; empty when read

  [[nodiscard]] const InputRecipe* input(std::string_view name) const;
  [[nodiscard]] const OutputRecipe* output(std::string_view name) const;
};

/// "super_resolution", "image_classification", "image_to_image", "image_generation", "docking",
/// "force_field", "other".
[[nodiscard]] const std::vector<std::string>& task_names();

/// Whether the metric is a program of the user's own: "command_lower", "command_higher", by which value is better.
[[nodiscard]] bool is_command_metric(std::string_view metric);

/// The program and arguments as they are run: relative paths of the program made absolute from the folder of
/// `recipe`, the file.
[[nodiscard]] std::vector<std::string> absolute_command(std::vector<std::string> command,
                                                        const std::filesystem::path& recipe);

/// folder/model.onnx -> folder/model.recipe.toml
[[nodiscard]] std::filesystem::path recipe_path(const std::filesystem::path& model);

/// Parses the text of a recipe. All problems of the file are reported together, each with line and column; an
/// unknown key is a problem, with the nearest known ones.
///
/// \param file     name for messages
/// \param metrics  known metric names; empty: any is taken
/// \throws Error{kInvalidArgument}
[[nodiscard]] Recipe parse_recipe(std::string_view text, std::string_view file = "recipe",
                                  std::span<const std::string> metrics = {});
/// \throws also Error{kNotFound, kIo}, for example when a labels file it names is not there
[[nodiscard]] Recipe read_recipe(const std::filesystem::path& path,
                                 std::span<const std::string> metrics = {});

/// The text that parse_recipe() turns into an equal recipe; defaults are left out.
[[nodiscard]] std::string to_toml(const Recipe& recipe);
/// Writes to_toml(), and copies the labels files that the recipe names from beside the recipe it was read
/// from. Programs of metrics stay where they are: their paths are written absolute.
void write_recipe(const std::filesystem::path& path, const Recipe& recipe);

/// A recipe from the graph alone: float [N,3|1,H,W] or [N,H,W,3|1] inputs are taken for images in 0..1,
/// everything else for arrays; Recipe::guesses says each one in a sentence.
[[nodiscard]] Recipe guess_recipe(const graph::Graph& graph);

/// The model's sidecar when it exists, completed by guesses for inputs and outputs it does not name; else a
/// guess. \throws as read_recipe() and check_recipe()
[[nodiscard]] Recipe recipe_for(const std::filesystem::path& model, const graph::Graph& graph,
                                std::span<const std::string> metrics = {});

/// Checks the recipe's names, channels and shapes against the graph. \throws Error{kInvalidArgument} with all
/// problems
void check_recipe(const Recipe& recipe, const graph::Graph& graph);

}  // namespace tempera::data
