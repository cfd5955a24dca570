#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tempera/base/error.h"
#include "tempera/base/file.h"
#include "tempera/data/recipe.h"
#include "tempera/data/recipe_words.h"
#include "tempera/data/toml_reader.h"

namespace tempera::data {
namespace {

constexpr std::int64_t kMaxPixels = 65536;  // of one side
constexpr std::int64_t kMaxDim = std::int64_t{1} << 40;
constexpr std::size_t kMaxRank = 16;
constexpr std::size_t kMaxChannels = 3;
constexpr std::size_t kMaxValues = std::size_t{1} << 16;
constexpr std::size_t kMaxArguments = 256;
constexpr std::size_t kMaxBytes = std::size_t{1} << 20;

template <typename T, typename U>
void set(T& target, const std::optional<U>& value) {
  if (value) {
    target = static_cast<T>(*value);
  }
}

/// `target` becomes the value that the word stands for.
template <typename T, std::size_t N>
void set_word(TomlTable& table, std::string_view key, std::string_view kind, const WordTable<T, N>& words,
              T& target) {
  if (const auto word = table.choice(key, words_of(words), kind)) {
    target = *from_word(words, *word);
  }
}

std::optional<PixelSize> read_size(const toml::table* raw, const std::string& name, TomlProblems& problems) {
  if (raw == nullptr) {
    return std::nullopt;
  }
  TomlTable table(*raw, name, problems);
  const auto width = table.integer("width", 1, kMaxPixels);
  const auto height = table.integer("height", 1, kMaxPixels);
  table.finish();
  if (!width || !height) {
    if (!table.has("width") || !table.has("height")) {
      problems.add(raw->source(), fmt::format("{} needs width and height", name));
    }
    return std::nullopt;
  }
  return PixelSize{static_cast<int>(*width), static_cast<int>(*height)};
}

void read_format(TomlTable& table, image::PixelFormat& format) {
  if (const auto range = table.numbers("range", 2)) {
    if (range->size() != 2 || (*range)[0] == (*range)[1]) {
      table.problem("range", "'range' must be two different numbers: the values of black and of white");
    } else {
      format.low = (*range)[0];
      format.high = (*range)[1];
    }
  }
  set_word(table, "layout", "layout", kLayouts, format.layout);
  set_word(table, "channels", "channel order", kChannelOrders, format.channels);
  const std::size_t channels = format.channels == image::ChannelOrder::kGrey ? 1 : 3;
  for (const auto& [key, target] : {std::pair{"mean", &format.mean}, std::pair{"std", &format.std}}) {
    const auto values = table.numbers(key, kMaxChannels);
    if (values && values->size() != 1 && values->size() != channels) {
      table.problem(
          key, fmt::format("'{}' must be one number, or one for each of the {} channels", key, channels));
    } else if (values) {
      *target = *values;
    }
  }
  if (std::find(format.std.begin(), format.std.end(), 0.0) != format.std.end()) {
    table.problem("std", "'std' must not be 0");
  }
}

ImageFit read_fit(TomlTable& table, TomlProblems& problems) {
  ImageFit fit;
  if (const toml::table* raw = table.table("resize")) {
    TomlTable resize(*raw, "resize", problems);
    if (const auto side = resize.integer("short_side", 1, kMaxPixels)) {
      fit.short_side = static_cast<int>(*side);
    }
    const auto width = resize.integer("width", 1, kMaxPixels);
    const auto height = resize.integer("height", 1, kMaxPixels);
    if (width && height) {
      fit.size = PixelSize{static_cast<int>(*width), static_cast<int>(*height)};
    }
    if (const auto kernel = resize.choice("kernel", image::resize_kernel_names(), "resize kernel")) {
      fit.kernel = *image::resize_kernel_from_string(*kernel);
    }
    resize.finish();
    if (resize.has("width") != resize.has("height") || (resize.has("short_side") && resize.has("width"))) {
      problems.add(raw->source(), "'resize' needs either short_side, or width and height");
    }
  }
  fit.crop = read_size(table.table("crop"), "crop", problems);
  return fit;
}

ImageSampling read_sampling(TomlTable& table, TomlProblems& problems) {
  ImageSampling sampling;
  const toml::table* raw = table.table("samples");
  if (raw == nullptr) {
    return sampling;
  }
  constexpr std::int64_t kMaxCrops = 10'000;
  constexpr std::int64_t kMaxReduce = 64;
  TomlTable samples(*raw, "samples", problems);
  set(sampling.crops, samples.integer("crops", 1, kMaxCrops));
  if (const auto zoom = samples.numbers("zoom", 2)) {
    const double min = zoom->front();
    const double max = zoom->back();
    if (min <= 0 || max < min || max > 1) {
      samples.problem("zoom", "'zoom' must be two numbers with 0 < min <= max <= 1");
    } else {
      sampling.zoom = ImageSampling::Range{min, max};
    }
  }
  sampling.size = read_size(samples.table("size"), "size", problems);
  set(sampling.reduce, samples.integer("reduce", 1, kMaxReduce));
  samples.finish();
  return sampling;
}

ImageSource read_image(TomlTable& table, TomlProblems& problems) {
  ImageSource image;
  read_format(table, image.format);
  image.fit = read_fit(table, problems);
  image.sampling = read_sampling(table, problems);
  return image;
}

graph::Dims read_shape(TomlTable& table) {
  return table.integers("shape", 0, kMaxDim, kMaxRank).value_or(graph::Dims{});
}

ConstantSource read_constant(TomlTable& table) {
  ConstantSource constant;
  if (!table.has("value")) {
    table.problem("kind", "a constant needs 'value'");
  }
  constant.values = table.numbers("value", kMaxValues).value_or(std::vector<double>{0.0});
  constant.shape = read_shape(table);
  return constant;
}

RandomSource read_random(TomlTable& table) {
  RandomSource random;
  set_word(table, "distribution", "distribution", kDistributions, random.distribution);
  if (random.distribution == RandomSource::Distribution::kNormal) {
    set(random.mean, table.number("mean"));
    set(random.std, table.number("std"));
    if (random.std < 0) {
      table.problem("std", "'std' must not be negative");
    }
  } else {
    set(random.low, table.number("low"));
    set(random.high, table.number("high"));
    if (random.high < random.low) {
      table.problem("high", "'high' must not be below 'low'");
    }
  }
  random.shape = read_shape(table);
  return random;
}

std::optional<InputSource> read_source(TomlTable& table, TomlProblems& problems) {
  if (!table.has("kind")) {
    table.problem(
        "kind", fmt::format("{} needs 'kind': one of '{}'", table.name(), fmt::join(input_kinds(), "', '")));
  }
  const auto kind = table.choice("kind", input_kinds(), "kind of input");
  if (!kind) {
    return std::nullopt;
  }
  if (*kind == "image") {
    return read_image(table, problems);
  }
  if (*kind == "array") {
    return ArraySource{table.text("key").value_or("")};
  }
  if (*kind == "constant") {
    return read_constant(table);
  }
  return read_random(table);
}

void read_command(TomlTable& table, OutputRecipe& output) {
  set(output.command, table.texts("command", kMaxArguments));
  if (is_command_metric(output.metric) && !table.has("command")) {
    table.problem("metric", fmt::format("metric '{}' needs 'command': a list of the program and its arguments, as "
                                        "command = [\"./score.py\"]",
                                        output.metric));
  } else if (!is_command_metric(output.metric) && table.has("command")) {
    table.problem("command", "'command' belongs to metric = \"command_lower\" or \"command_higher\"");
  } else if (!output.command.empty() && output.command[0].empty()) {
    table.problem("command", "'command' must begin with a program");
  }
}

OutputRecipe read_output(TomlTable& table, std::span<const std::string> metrics) {
  constexpr std::int64_t kMaxBorder = 1024;
  OutputRecipe output;
  set(output.meaning, table.choice("meaning", meanings(), "meaning"));
  set(output.unit, table.text("unit"));
  if (const auto metric = table.text("metric")) {
    output.metric = *metric;
    if (!metrics.empty() && std::find(metrics.begin(), metrics.end(), *metric) == metrics.end()) {
      table.problem("metric", unknown_name("metric", *metric, {metrics.begin(), metrics.end()}));
    }
  }
  read_command(table, output);
  set(output.border, table.integer("border", 0, kMaxBorder));
  set(output.expected, table.text("expected"));
  if (const auto labels = table.text("labels")) {
    // A plain name: the file travels with the recipe from folder to folder.
    if (labels->empty() || *labels == "." || *labels == ".." || labels->find('/') != std::string::npos) {
      table.problem("labels", "'labels' must name a file beside the recipe");
    } else {
      output.labels = *labels;
    }
  }
  if (output.meaning == "image") {
    read_format(table, output.format);
  } else {
    for (const char* key : {"range", "layout", "channels", "mean", "std"}) {
      if (table.has(key)) {
        table.problem(key, fmt::format("'{}' belongs to outputs with meaning = \"image\"", key));
        (void)table.numbers(key, kMaxChannels);
      }
    }
  }
  table.finish();
  return output;
}

DataRecipe read_data(const toml::table& raw, TomlProblems& problems) {
  constexpr std::int64_t kMaxBlocks = 100'000;
  DataRecipe data;
  TomlTable table(raw, "[data]", problems);
  set_word(table, "samples", "way of sampling", kSamples, data.samples);
  set(data.blocks, table.integer("blocks", 1, kMaxBlocks));
  table.finish();
  return data;
}

CalibrateRecipe read_calibrate(const toml::table& raw, TomlProblems& problems) {
  CalibrateRecipe calibrate;
  TomlTable table(raw, "[calibrate]", problems);
  set(calibrate.timestep, table.text("timestep"));
  table.finish();
  return calibrate;
}

TileRecipe read_tile(const toml::table& raw, TomlProblems& problems) {
  constexpr std::int64_t kMaxScale = 64;
  TileRecipe tile;
  TomlTable table(raw, "[tile]", problems);
  set(tile.scale, table.integer("scale", 1, kMaxScale));
  set(tile.size, table.integer("size", 1, kMaxPixels));
  set(tile.context, table.integer("context", 0, kMaxPixels));
  set(tile.feather, table.integer("feather", 0, kMaxPixels));
  set(tile.fixed_size, table.boolean("fixed_size"));
  table.finish();
  if (tile.size <= 2 * tile.context + tile.feather) {
    table.problem("size", fmt::format("'size' must be above 2 context + feather = {}",
                                      2 * tile.context + tile.feather));
  }
  return tile;
}

DeployRecipe read_deploy(const toml::table& raw, TomlProblems& problems) {
  constexpr std::int64_t kMaxThreads = 4096;
  DeployRecipe deploy;
  TomlTable table(raw, "[deploy]", problems);
  set(deploy.engine, table.text("engine"));
  set(deploy.device, table.text("device"));
  set(deploy.precision, table.choice("precision", {"f32", "bf16", "f16"}, "precision"));
  set(deploy.threads, table.integer("threads", 0, kMaxThreads));
  if (const toml::table* shapes = table.table("shapes")) {
    TomlTable inputs(*shapes, "[deploy.shapes]", problems);
    for (const auto& [key, node] : *shapes) {
      if (const auto dims = inputs.integers(key.str(), 0, kMaxDim, kMaxRank)) {
        deploy.shapes[std::string(key.str())] = *dims;
      }
    }
  }
  if (const toml::table* properties = table.table("properties")) {
    TomlTable settings(*properties, "[deploy.properties]", problems);
    for (const auto& [key, node] : *properties) {
      if (const auto value = settings.text(key.str())) {
        deploy.properties[std::string(key.str())] = *value;
      }
    }
  }
  table.finish();
  return deploy;
}

/// Calls `read(name, table, raw)` for each table inside `[kind]`, in the order of their names.
template <typename Read>
void for_each_named(TomlTable& root, const char* kind, TomlProblems& problems, Read read) {
  const toml::table* all = root.table(kind);
  if (all == nullptr) {
    return;
  }
  TomlTable tables(*all, fmt::format("[{}]", kind), problems);
  for (const auto& [key, node] : *all) {
    const std::string name(key.str());
    if (const toml::table* raw = tables.table(name)) {
      TomlTable table(*raw, fmt::format("[{}.{}]", kind, name), problems);
      read(name, table);
    }
  }
}

}  // namespace

Recipe parse_recipe(std::string_view text, std::string_view file, std::span<const std::string> metrics) {
  toml::table raw;
  TomlProblems problems;
  try {
    raw = toml::parse(text);
  } catch (const toml::parse_error& error) {
    problems.add(error.source(), std::string(error.description()));
    problems.throw_if_any(file);
  }
  Recipe recipe;
  TomlTable root(raw, "the recipe", problems);
  if (!root.has("version")) {
    root.problem("version", fmt::format("'version = {}' is missing: is this a recipe?", kRecipeVersion));
  }
  (void)root.integer("version", kRecipeVersion, kRecipeVersion);
  set(recipe.task, root.choice("task", task_names(), "task"));
  set(recipe.description, root.text("description"));
  for_each_named(root, "input", problems, [&](const std::string& name, TomlTable& table) {
    if (auto source = read_source(table, problems)) {
      table.finish();
      recipe.inputs.push_back({name, std::move(*source)});
    }
  });
  for_each_named(root, "output", problems, [&](const std::string& name, TomlTable& table) {
    recipe.outputs.push_back(read_output(table, metrics));
    recipe.outputs.back().name = name;
  });
  if (const toml::table* data = root.table("data")) {
    recipe.data = read_data(*data, problems);
  }
  if (const toml::table* calibrate = root.table("calibrate")) {
    recipe.calibrate = read_calibrate(*calibrate, problems);
  }
  if (const toml::table* tile = root.table("tile")) {
    recipe.tile = read_tile(*tile, problems);
  }
  if (const toml::table* deploy = root.table("deploy")) {
    recipe.deploy = read_deploy(*deploy, problems);
  }
  root.finish();
  problems.throw_if_any(file);
  return recipe;
}

Recipe read_recipe(const std::filesystem::path& path, std::span<const std::string> metrics) {
  Recipe recipe = parse_recipe(read_text_file(path, kMaxBytes), path.string(), metrics);
  recipe.path = path;
  for (const OutputRecipe& output : recipe.outputs) {
    const std::filesystem::path labels = path.parent_path() / output.labels;
    if (!output.labels.empty() && !std::filesystem::exists(labels)) {
      throw Error(ErrorCode::kNotFound, fmt::format("there is no labels file '{}'", labels.string()))
          .in(fmt::format("recipe {}, [output.{}]", path.string(), output.name));
    }
  }
  return recipe;
}

}  // namespace tempera::data
