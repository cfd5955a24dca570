#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tempera/base/error.h"
#include "tempera/data/dataset.h"
#include "tempera/data/recipe.h"

namespace tempera::data {
namespace {

using graph::DataType;
using graph::Dim;
using graph::Shape;
using graph::Value;

/// Where channels, height and width of an image tensor stand.
struct ImageAxes {
  image::Layout layout = image::Layout::kNchw;
  std::int64_t channels = 3;
  Dim height;
  Dim width;
};

/// An image by its shape: four axes, the second or the last of size 3 or 1 and no smaller-looking reading.
std::optional<ImageAxes> image_axes(const graph::ValueType& type) {
  const bool number = type.element == DataType::kFloat32 || type.element == DataType::kFloat16 ||
                      type.element == DataType::kBfloat16 || type.element == DataType::kUint8;
  if (!type.is_tensor() || !number || !type.shape || type.shape->size() != 4) {
    return std::nullopt;
  }
  const Shape& shape = *type.shape;
  const auto is_channels = [](const Dim& dim) { return dim.value == 3 || dim.value == 1; };
  const auto is_side = [](const Dim& dim) { return !dim.fixed() || dim.value >= 8; };
  if (is_channels(shape[1]) && is_side(shape[2]) && is_side(shape[3])) {
    return ImageAxes{image::Layout::kNchw, shape[1].value, shape[2], shape[3]};
  }
  if (is_channels(shape[3]) && is_side(shape[1]) && is_side(shape[2])) {
    return ImageAxes{image::Layout::kNhwc, shape[3].value, shape[1], shape[2]};
  }
  return std::nullopt;
}

image::PixelFormat guess_format(const ImageAxes& axes, DataType element) {
  image::PixelFormat format;
  format.layout = axes.layout;
  format.channels = axes.channels == 1 ? image::ChannelOrder::kGrey : image::ChannelOrder::kRgb;
  format.high = element == DataType::kUint8 ? 255.0 : 1.0;
  return format;
}

/// Square inputs: the picture's middle after shrinking its short side; others: stretched to the size.
std::string guess_fit(const ImageAxes& axes, ImageFit& fit) {
  constexpr std::int64_t kMaxSide = 65536;
  const bool fixed = axes.height.fixed() && axes.width.fixed() && axes.height.value <= kMaxSide &&
                     axes.width.value <= kMaxSide;
  if (!fixed) {
    return "at its own size";
  }
  const PixelSize size{static_cast<int>(axes.width.value), static_cast<int>(axes.height.value)};
  if (size.width == size.height) {
    fit.short_side = size.width;
    fit.crop = size;
    return fmt::format("resized to a short side of {} and cut to its middle", size.width);
  }
  fit.size = size;
  return fmt::format("stretched to {} x {}", size.width, size.height);
}

InputRecipe guess_input(const Value& value, std::vector<std::string>& guesses) {
  const std::optional<ImageAxes> axes = image_axes(value.type);
  if (!axes) {
    guesses.push_back(
        fmt::format("input '{}' ({}) is taken for an array", value.name, graph::to_string(value.type)));
    return {value.name, ArraySource{}};
  }
  ImageSource source;
  source.format = guess_format(*axes, value.type.element);
  const std::string fit = guess_fit(*axes, source.fit);
  guesses.push_back(fmt::format("input '{}' ({}) is taken for {} image with values from {} to {}, {}",
                                value.name, graph::to_string(value.type),
                                axes->channels == 1 ? "a grey" : "an RGB", source.format.low,
                                source.format.high, fit));
  return {value.name, source};
}

OutputRecipe guess_output(const Value& value, bool image_input, std::vector<std::string>& guesses) {
  OutputRecipe output;
  output.name = value.name;
  const std::optional<ImageAxes> axes = image_axes(value.type);
  if (axes && image_input) {
    output.meaning = "image";
    output.format = guess_format(*axes, value.type.element);
    guesses.push_back(fmt::format("output '{}' ({}) is taken for an image with values from {} to {}",
                                  value.name, graph::to_string(value.type), output.format.low,
                                  output.format.high));
  }
  return output;
}

bool has_image(const Recipe& recipe) {
  return std::any_of(recipe.inputs.begin(), recipe.inputs.end(), [](const InputRecipe& input) {
    return std::holds_alternative<ImageSource>(input.source);
  });
}

/// Adds a guess for each input and output that the recipe does not name.
void complete(Recipe& recipe, const graph::Graph& graph) {
  for (const std::string& name : required_inputs(graph)) {
    if (recipe.input(name) == nullptr) {
      recipe.inputs.push_back(guess_input(graph.value(*graph.find_value(name)), recipe.guesses));
    }
  }
  for (const graph::ValueId id : graph.outputs()) {
    const Value& value = graph.value(id);
    if (recipe.output(value.name) == nullptr) {
      recipe.outputs.push_back(guess_output(value, has_image(recipe), recipe.guesses));
    }
  }
  const auto by_name = [](const auto& a, const auto& b) { return a.name < b.name; };
  std::sort(recipe.inputs.begin(), recipe.inputs.end(), by_name);
  std::sort(recipe.outputs.begin(), recipe.outputs.end(), by_name);
}

}  // namespace

Recipe guess_recipe(const graph::Graph& graph) {
  Recipe recipe;
  complete(recipe, graph);
  return recipe;
}

Recipe recipe_for(const std::filesystem::path& model, const graph::Graph& graph,
                  std::span<const std::string> metrics) {
  const std::filesystem::path path = recipe_path(model);
  if (!std::filesystem::exists(path)) {
    Recipe recipe = guess_recipe(graph);
    recipe.guesses.insert(
        recipe.guesses.begin(),
        fmt::format("there is no recipe {}: what follows is guessed from shapes", path.filename().string()));
    return recipe;
  }
  Recipe recipe = read_recipe(path, metrics);
  check_recipe(recipe, graph);
  complete(recipe, graph);
  return recipe;
}

namespace {

/// Collects problems of one recipe against one graph.
class Checker {
 public:
  Checker(const Recipe& recipe, const graph::Graph& graph) : recipe_(recipe), graph_(graph) {
    for (const graph::ValueId id : graph.inputs()) {
      inputs_.push_back(graph.value(id).name);
    }
    for (const graph::ValueId id : graph.outputs()) {
      outputs_.push_back(graph.value(id).name);
    }
  }

  void run() {
    for (const InputRecipe& input : recipe_.inputs) {
      if (known("input", input.name, inputs_)) {
        check_input(input);
      }
    }
    for (const OutputRecipe& output : recipe_.outputs) {
      if (known("output", output.name, outputs_)) {
        check_output(output);
      }
    }
    for (const auto& [name, dims] : recipe_.deploy.shapes) {
      if (known("input", name, inputs_)) {
        check_shape(fmt::format("[deploy.shapes] {}", name), name, dims);
      }
    }
    if (!recipe_.calibrate.timestep.empty() && known("input", recipe_.calibrate.timestep, inputs_)) {
      check_timestep(recipe_.calibrate.timestep);
    }
    if (problems_.empty()) {
      return;
    }
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{} does not fit the model:\n  {}",
                            recipe_.path.empty() ? "the recipe" : recipe_.path.string(),
                            fmt::join(problems_, "\n  ")));
  }

 private:
  bool known(std::string_view kind, const std::string& name, const std::vector<std::string>& names) {
    const bool found = std::find(names.begin(), names.end(), name) != names.end();
    if (!found) {
      problems_.push_back(unknown_name(kind, name, names));
    }
    return found;
  }

  [[nodiscard]] const Value& value(const std::string& name) const {
    return graph_.value(*graph_.find_value(name));
  }

  void check_channels(const std::string& what, const Value& value, const image::PixelFormat& format) {
    if (!value.type.shape) {
      return;
    }
    const Shape& shape = *value.type.shape;
    const std::int64_t channels = format.channels == image::ChannelOrder::kGrey ? 1 : 3;
    const std::size_t axis = format.layout == image::Layout::kNchw ? 1 : 3;
    if (shape.size() != 4 || (shape[axis].fixed() && shape[axis].value != channels)) {
      problems_.push_back(fmt::format("{}: an image of {} channel{} in {} layout does not fit {}", what,
                                      channels, channels == 1 ? "" : "s", axis == 1 ? "NCHW" : "NHWC",
                                      graph::to_string(value.type)));
    }
  }

  void check_shape(const std::string& what, const std::string& name, const graph::Dims& dims) {
    const auto& shape = value(name).type.shape;
    if (!shape) {
      return;
    }
    bool fits = shape->size() == dims.size();
    for (std::size_t i = 0; fits && i < dims.size(); ++i) {
      fits = !(*shape)[i].fixed() || (*shape)[i].value == dims[i];
    }
    if (!fits) {
      problems_.push_back(fmt::format("{}: {} does not fit the input's {}", what, graph::to_string(dims),
                                      graph::to_string(*shape)));
    }
  }

  void check_input(const InputRecipe& input) {
    const std::string what = fmt::format("[input.{}]", input.name);
    if (const auto* image = std::get_if<ImageSource>(&input.source)) {
      check_channels(what, value(input.name), image->format);
    } else if (const auto* constant = std::get_if<ConstantSource>(&input.source)) {
      if (!constant->shape.empty()) {
        check_shape(what, input.name, constant->shape);
      }
    } else if (const auto* random = std::get_if<RandomSource>(&input.source)) {
      if (!random->shape.empty()) {
        check_shape(what, input.name, random->shape);
      }
    }
  }

  void check_timestep(const std::string& name) {
    const InputRecipe* input = recipe_.input(name);
    const auto* random = input == nullptr ? nullptr : std::get_if<RandomSource>(&input->source);
    if (random != nullptr && random->distribution != RandomSource::Distribution::kUniform) {
      problems_.push_back(
          fmt::format("[calibrate] timestep: input '{}' is random but not uniform, so its range has no parts", name));
    }
  }

  void check_output(const OutputRecipe& output) {
    const std::string what = fmt::format("[output.{}]", output.name);
    if (output.meaning == "image") {
      check_channels(what, value(output.name), output.format);
    }
    const bool reduces = std::any_of(
        recipe_.inputs.begin(), recipe_.inputs.end(),
        [](const InputRecipe& input) { return std::holds_alternative<ImageSource>(input.source); });
    if (output.expected == "source" && !reduces) {
      problems_.push_back(fmt::format("{}: expected = \"source\" needs an input of kind \"image\"", what));
    }
  }

  const Recipe& recipe_;
  const graph::Graph& graph_;
  std::vector<std::string> inputs_;
  std::vector<std::string> outputs_;
  std::vector<std::string> problems_;
};

}  // namespace

void check_recipe(const Recipe& recipe, const graph::Graph& graph) { Checker(recipe, graph).run(); }

}  // namespace tempera::data
