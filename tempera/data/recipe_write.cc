#include <string>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tempera/base/file.h"
#include "tempera/data/recipe.h"
#include "tempera/data/recipe_words.h"

namespace tempera::data {
namespace {

/// A TOML basic string (TOML 1.0, "String").
std::string toml_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (code < 0x20 || code == 0x7F) {
      out += fmt::format("\\u{:04X}", code);
    } else {
      out += c;
    }
  }
  return out + "\"";
}

/// A key: bare where TOML allows, else quoted.
std::string key_text(std::string_view key) {
  constexpr std::string_view kBare = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
  const bool bare = !key.empty() && key.find_first_not_of(kBare) == std::string_view::npos;
  return bare ? std::string(key) : toml_string(key);
}

/// The shortest text that reads back as the same number, in a form that TOML takes (1, 0.5, 1e+30).
std::string number(double value) { return fmt::format("{}", value); }

std::string numbers(const std::vector<double>& values) {
  if (values.size() == 1) {
    return number(values[0]);
  }
  std::vector<std::string> texts;
  for (const double value : values) {
    texts.push_back(number(value));
  }
  return fmt::format("[{}]", fmt::join(texts, ", "));
}

std::string texts(const std::vector<std::string>& values) {
  std::vector<std::string> quoted;
  for (const std::string& value : values) {
    quoted.push_back(toml_string(value));
  }
  return fmt::format("[{}]", fmt::join(quoted, ", "));
}

std::string list(const graph::Dims& dims) { return fmt::format("[{}]", fmt::join(dims, ", ")); }

std::string size_text(const PixelSize& size) {
  return fmt::format("width = {}, height = {}", size.width, size.height);
}

/// Lines "key = value" of one table.
class Lines {
 public:
  void put(std::string_view key, const std::string& value) {
    text_ += fmt::format("{} = {}\n", key_text(key), value);
  }
  void put_text(std::string_view key, std::string_view value) {
    if (!value.empty()) {
      put(key, toml_string(value));
    }
  }
  void heading(std::string_view name) { text_ += fmt::format("\n[{}]\n", name); }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string text_;
};

void write_format(Lines& out, const image::PixelFormat& format) {
  out.put("range", fmt::format("[{}, {}]", number(format.low), number(format.high)));
  if (!format.mean.empty()) {
    out.put("mean", numbers(format.mean));
  }
  if (!format.std.empty()) {
    out.put("std", numbers(format.std));
  }
  out.put_text("layout", to_word(kLayouts, format.layout));
  out.put_text("channels", to_word(kChannelOrders, format.channels));
}

void write_source(Lines& out, const ImageSource& source) {
  out.put_text("kind", "image");
  write_format(out, source.format);
  const ImageFit& fit = source.fit;
  std::vector<std::string> resize;
  if (fit.short_side) {
    resize.push_back(fmt::format("short_side = {}", *fit.short_side));
  }
  if (fit.size) {
    resize.push_back(size_text(*fit.size));
  }
  if (!resize.empty() || fit.kernel != ImageFit().kernel) {
    resize.push_back(fmt::format("kernel = {}", toml_string(image::to_string(fit.kernel))));
    out.put("resize", fmt::format("{{ {} }}", fmt::join(resize, ", ")));
  }
  if (fit.crop) {
    out.put("crop", fmt::format("{{ {} }}", size_text(*fit.crop)));
  }
  const ImageSampling& sampling = source.sampling;
  std::vector<std::string> samples;
  if (sampling.crops != 1) {
    samples.push_back(fmt::format("crops = {}", sampling.crops));
  }
  if (sampling.zoom) {
    samples.push_back(fmt::format("zoom = [{}, {}]", number(sampling.zoom->min), number(sampling.zoom->max)));
  }
  if (sampling.size) {
    samples.push_back(fmt::format("size = {{ {} }}", size_text(*sampling.size)));
  }
  if (sampling.reduce != 1) {
    samples.push_back(fmt::format("reduce = {}", sampling.reduce));
  }
  if (!samples.empty()) {
    out.put("samples", fmt::format("{{ {} }}", fmt::join(samples, ", ")));
  }
}

void write_source(Lines& out, const ArraySource& source) {
  out.put_text("kind", "array");
  out.put_text("key", source.key);
}

void write_shape(Lines& out, const graph::Dims& shape) {
  if (!shape.empty()) {
    out.put("shape", list(shape));
  }
}

void write_source(Lines& out, const ConstantSource& source) {
  out.put_text("kind", "constant");
  out.put("value", numbers(source.values));
  write_shape(out, source.shape);
}

void write_source(Lines& out, const RandomSource& source) {
  out.put_text("kind", "random");
  out.put_text("distribution", to_word(kDistributions, source.distribution));
  if (source.distribution == RandomSource::Distribution::kNormal) {
    out.put("mean", number(source.mean));
    out.put("std", number(source.std));
  } else {
    out.put("low", number(source.low));
    out.put("high", number(source.high));
  }
  write_shape(out, source.shape);
}

void write_output(Lines& out, const OutputRecipe& output) {
  out.put_text("meaning", output.meaning);
  out.put_text("unit", output.unit);
  out.put_text("metric", output.metric);
  if (!output.command.empty()) {
    out.put("command", texts(output.command));
  }
  if (output.border != 0) {
    out.put("border", fmt::format("{}", output.border));
  }
  out.put_text("expected", output.expected);
  out.put_text("labels", output.labels);
  if (output.meaning == "image") {
    write_format(out, output.format);
  }
}

void write_deploy(Lines& out, const DeployRecipe& deploy) {
  out.heading("deploy");
  out.put_text("engine", deploy.engine);
  out.put_text("device", deploy.device);
  out.put_text("precision", deploy.precision);
  if (deploy.threads != 0) {
    out.put("threads", fmt::format("{}", deploy.threads));
  }
  if (!deploy.shapes.empty()) {
    out.heading("deploy.shapes");
    for (const auto& [name, dims] : deploy.shapes) {
      out.put(name, list(dims));
    }
  }
  if (!deploy.properties.empty()) {
    out.heading("deploy.properties");
    for (const auto& [name, value] : deploy.properties) {
      out.put(name, toml_string(value));
    }
  }
}

bool is_default(const DeployRecipe& deploy) {
  return deploy.engine.empty() && deploy.device.empty() && deploy.precision.empty() && deploy.threads == 0 &&
         deploy.shapes.empty() && deploy.properties.empty();
}

}  // namespace

std::string to_toml(const Recipe& recipe) {
  Lines out;
  out.put("version", fmt::format("{}", kRecipeVersion));
  out.put_text("task", recipe.task);
  out.put_text("description", recipe.description);
  for (const InputRecipe& input : recipe.inputs) {
    out.heading("input." + key_text(input.name));
    std::visit([&](const auto& source) { write_source(out, source); }, input.source);
  }
  for (const OutputRecipe& output : recipe.outputs) {
    out.heading("output." + key_text(output.name));
    write_output(out, output);
  }
  if (recipe.data.samples != DataRecipe::Samples::kAuto || recipe.data.blocks != 1) {
    out.heading("data");
    out.put_text("samples", to_word(kSamples, recipe.data.samples));
    out.put("blocks", fmt::format("{}", recipe.data.blocks));
  }
  if (!recipe.calibrate.timestep.empty()) {
    out.heading("calibrate");
    out.put_text("timestep", recipe.calibrate.timestep);
  }
  if (recipe.tile) {
    out.heading("tile");
    out.put("scale", fmt::format("{}", recipe.tile->scale));
    out.put("size", fmt::format("{}", recipe.tile->size));
    out.put("context", fmt::format("{}", recipe.tile->context));
    out.put("feather", fmt::format("{}", recipe.tile->feather));
    out.put("fixed_size", recipe.tile->fixed_size ? "true" : "false");
  }
  if (!is_default(recipe.deploy)) {
    write_deploy(out, recipe.deploy);
  }
  return out.text();
}

void write_recipe(const std::filesystem::path& path, const Recipe& recipe) {
  Recipe written = recipe;
  for (OutputRecipe& output : written.outputs) {
    if (!recipe.path.empty()) {
      output.command = absolute_command(std::move(output.command), recipe.path);
    }
    const std::filesystem::path from = recipe.path.parent_path() / output.labels;
    const std::filesystem::path to = path.parent_path() / output.labels;
    std::error_code none;  // files that do not exist are not the same
    if (!output.labels.empty() && !recipe.path.empty() && !std::filesystem::equivalent(from, to, none)) {
      write_file(to, read_file(from));
    }
  }
  write_text_file(path, to_toml(written));
}

}  // namespace tempera::data
