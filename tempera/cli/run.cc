#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <variant>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tempera/base/error.h"
#include "tempera/base/file.h"
#include "tempera/cli/command.h"
#include "tempera/cli/output_names.h"
#include "tempera/cli/shapes.h"
#include "tempera/cli/shared_options.h"
#include "tempera/data/dataset.h"
#include "tempera/data/npy.h"
#include "tempera/data/npz.h"
#include "tempera/data/recipe.h"
#include "tempera/engine/engines.h"
#include "tempera/engine/non_finite.h"
#include "tempera/graph/model.h"
#include "tempera/image/codec.h"
#include "tempera/image/tensor.h"
#include "tempera/image/tile.h"
#include "tempera/onnx/read.h"
#include "tempera/quality/metrics.h"
#include "tempera/quality/statistics.h"

namespace tempera::cli {
namespace {

namespace fs = std::filesystem;

struct RunArguments {
  std::shared_ptr<SharedOptions> shared;
  std::string model;
  std::vector<std::string> inputs;  // "NAME=FILE" or "FILE"
  std::vector<std::string> files;
  std::string recipe;
  std::string out = ".";
  std::vector<std::string> shapes;
  int top = 5;
  bool npz = false;
  bool allow_non_finite = false;
};

// What belongs together for one call.
struct Running {
  graph::Model model;
  data::Recipe recipe;
  std::unique_ptr<engine::Engine> engine;
  std::unique_ptr<engine::Session> session;
  engine::CompileOptions options;
  std::vector<std::string> input_names;
  bool allow_non_finite = false;
};

Running open(const RunArguments& arguments) {
  Running running;
  running.model = onnx::read_model(arguments.model);
  running.recipe = arguments.recipe.empty()
                       ? data::recipe_for(arguments.model, running.model.graph, quality::metric_names())
                       : data::read_recipe(arguments.recipe, quality::metric_names());
  data::check_recipe(running.recipe, running.model.graph);
  const data::DeployRecipe& deploy = running.recipe.deploy;
  engine::CompileOptions options = compile_options(*arguments.shared);
  if (arguments.shared->precision.empty() && !deploy.precision.empty()) {
    options.precision = engine::precision_from_string(deploy.precision).value_or(engine::Precision::kFloat32);
  }
  options.threads = options.threads > 0 ? options.threads : deploy.threads;
  options.input_shapes = arguments.shapes.empty() ? deploy.shapes : parse_shapes(arguments.shapes);
  options.properties = deploy.properties;
  running.engine = engine::make_engine(arguments.shared->engine);
  running.session = running.engine->compile(running.model, options);
  running.options = std::move(options);
  running.allow_non_finite = arguments.allow_non_finite;
  for (const engine::Port& port : running.session->inputs()) {
    running.input_names.push_back(port.name);
  }
  return running;
}

// The files to run on: positional ones, and --input NAME=FILE where the name must be an input of the graph.
std::vector<fs::path> input_paths(const RunArguments& arguments, const graph::Graph& graph) {
  std::vector<fs::path> paths(arguments.files.begin(), arguments.files.end());
  const std::vector<std::string> names = data::required_inputs(graph);
  for (const std::string& text : arguments.inputs) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos) {
      paths.emplace_back(text);
      continue;
    }
    const std::string name = text.substr(0, equals);
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      throw Error(ErrorCode::kNotFound, unknown_name("input", name, names),
                  fmt::format("tempera inspect {}", arguments.model));
    }
    paths.emplace_back(text.substr(equals + 1));
  }
  return paths;
}

// --input NAME=FILE.npy for several inputs: one sample made of one array each.
std::optional<data::Sample> sample_of_arrays(const RunArguments& arguments, const graph::Graph& graph) {
  const std::vector<std::string> names = data::required_inputs(graph);
  if (names.size() < 2 || arguments.inputs.size() != names.size()) {
    return std::nullopt;
  }
  data::Sample sample;
  sample.name = "output";
  for (const std::string& name : names) {
    const auto given = std::find_if(arguments.inputs.begin(), arguments.inputs.end(),
                                    [&](const std::string& text) { return text.rfind(name + "=", 0) == 0; });
    if (given == arguments.inputs.end() || fs::path(*given).extension() != ".npy") {
      return std::nullopt;
    }
    sample.inputs.push_back(data::read_npy(given->substr(name.size() + 1)));
    data::require_finite(sample.inputs.back(), *given);
  }
  return sample;
}

// One run whose outputs are finite, unless others are allowed.
std::vector<graph::Tensor> checked_run(Running& running, std::span<const graph::Tensor> inputs) {
  std::vector<graph::Tensor> outputs = running.session->run(inputs);
  if (!running.allow_non_finite) {
    const engine::Side side{&running.model, running.engine.get(), running.options};
    engine::require_finite_outputs(side, inputs, running.session->outputs(), outputs);
  }
  return outputs;
}

// Image models with a tile recipe run on pictures of any size.
std::vector<graph::Tensor> run_sample(Running& running, const data::Sample& sample) {
  const std::vector<graph::Tensor> inputs =
      data::arrange_inputs(sample, running.model.graph, running.input_names);
  if (!running.recipe.tile.has_value() || inputs.size() != 1 || inputs[0].rank() != 4) {
    return checked_run(running, inputs);
  }
  const data::TileRecipe& tile = *running.recipe.tile;
  const image::TileOptions options{tile.size, tile.context, tile.feather, tile.scale, tile.fixed_size};
  return {image::run_tiled(inputs[0], options, [&](const graph::Tensor& part) {
    return checked_run(running, std::span(&part, 1)).at(0);
  })};
}

std::vector<std::string> read_labels(const data::Recipe& recipe, const data::OutputRecipe& output) {
  if (output.labels.empty()) {
    return {};
  }
  std::vector<std::string> labels;
  const std::string text = read_text_file(recipe.path.parent_path() / output.labels);
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = std::min(text.find('\n', start), text.size());
    labels.push_back(text.substr(start, end - start));
    start = end + 1;
  }
  return labels;
}

// The most probable classes of each row; the last axis holds the classes.
nlohmann::ordered_json top_k_json(const graph::Tensor& scores, const std::vector<std::string>& labels,
                                  int top, bool logits) {
  const std::vector<double> all = graph::to_doubles(scores);
  const std::size_t classes = scores.rank() > 0 ? static_cast<std::size_t>(scores.dims().back()) : 1;
  const std::size_t count = classes > 0 ? all.size() / classes : 0;
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (std::size_t row = 0; row < count; ++row) {
    const auto first = all.begin() + static_cast<std::ptrdiff_t>(row * classes);
    std::vector<double> values(first, first + static_cast<std::ptrdiff_t>(classes));
    if (logits) {
      const double largest = *std::max_element(values.begin(), values.end());
      double sum = 0.0;
      for (double& value : values) {
        value = std::exp(value - largest);
        sum += value;
      }
      for (double& value : values) {
        value /= sum;
      }
    }
    for (const std::int64_t index : quality::top_k(values, top)) {
      const auto at = static_cast<std::size_t>(index);
      nlohmann::ordered_json entry = {
          {"class", index}, {"label", at < labels.size() ? labels[at] : ""}, {"probability", values[at]}};
      if (count > 1) {
        entry["row"] = row;
      }
      rows.push_back(std::move(entry));
    }
  }
  return rows;
}

// Writes one output and returns what to say about it.
//
// \param path_with  where a file with this extension goes
// \param arrays     takes an array in place of a file of its own; null: it gets one
nlohmann::ordered_json deliver(const Running& running, const RunArguments& arguments,
                               const std::string& sample, const engine::Port& port,
                               const graph::Tensor& tensor, const std::function<fs::path(std::string_view)>& path_with,
                               data::NamedTensors* arrays) {
  nlohmann::ordered_json row = {{"sample", sample}, {"output", port.name}};
  const data::OutputRecipe* output = running.recipe.output(port.name);
  const std::string meaning = output != nullptr ? output->meaning : "array";
  if (meaning == "image") {
    const fs::path path = path_with(".png");
    image::save(path, image::from_tensor(tensor, output->format));
    row["file"] = path.string();
  } else if (meaning == "logits" || meaning == "probabilities") {
    row["top"] = top_k_json(tensor, read_labels(running.recipe, *output), arguments.top, meaning == "logits");
  } else {
    if (arrays != nullptr) {
      arrays->emplace_back(port.name, tensor);
    } else {
      const fs::path path = path_with(".npy");
      data::write_npy(path, tensor);
      row["file"] = path.string();
    }
    if (tensor.size() == 1) {
      row["value"] = graph::to_doubles(tensor).at(0);
    }
  }
  if (output != nullptr && !output->unit.empty()) {
    row["unit"] = output->unit;
  }
  return row;
}

OutputNames names_of(const RunArguments& arguments, const Running& running, const std::vector<data::Sample>& ready,
                     const data::Dataset* dataset, const std::vector<fs::path>& inputs) {
  std::vector<std::string> samples;
  for (const data::Sample& sample : ready) {
    samples.push_back(sample.name);
  }
  if (dataset != nullptr) {
    for (const data::SampleInfo& sample : dataset->samples()) {
      samples.push_back(sample.name);
    }
  }
  std::vector<std::string> outputs;
  for (const engine::Port& port : running.session->outputs()) {
    outputs.push_back(port.name);
  }
  return {arguments.out, samples, outputs, inputs};
}

void print_row(const nlohmann::ordered_json& row) {
  fmt::print("{}  {}", row["sample"].get<std::string>(), row["output"].get<std::string>());
  if (row.contains("value")) {
    fmt::print("  {:.6g} {}", row["value"].get<double>(), row.value("unit", ""));
  }
  if (row.contains("file")) {
    fmt::print("  {}", row["file"].get<std::string>());
  }
  fmt::print("\n");
  if (row.contains("top")) {
    for (const auto& entry : row["top"]) {
      const std::string row_text = entry.contains("row") ? fmt::format("row {:>3}  ", entry["row"].get<std::size_t>()) : "";
      fmt::print("  {}{:>6.2f} %  {:>4}  {}\n", row_text, 100 * entry["probability"].get<double>(),
                 entry["class"].get<std::int64_t>(), entry["label"].get<std::string>());
    }
  }
}

void run_run(const RunArguments& arguments) {
  Terminal terminal(*arguments.shared);
  const Host host = terminal.host();
  Running running = open(arguments);
  std::vector<data::Sample> ready;
  std::unique_ptr<data::Dataset> dataset;
  std::size_t count = 1;
  const std::vector<fs::path> paths = input_paths(arguments, running.model.graph);
  if (std::optional<data::Sample> sample = sample_of_arrays(arguments, running.model.graph)) {
    ready.push_back(std::move(*sample));
  } else {
    data::DatasetOptions options;
    options.seed = arguments.shared->seed;
    options.whole_files = true;
    options.random_samples = 1;
    if (paths.empty()) {
      const auto from_file = [](const data::InputRecipe& input) {
        return std::holds_alternative<data::ImageSource>(input.source) ||
               std::holds_alternative<data::ArraySource>(input.source);
      };
      if (std::any_of(running.recipe.inputs.begin(), running.recipe.inputs.end(), from_file)) {
        throw Error(ErrorCode::kInvalidArgument,
                    "there is nothing to run on: give files or --input NAME=FILE",
                    fmt::format("tempera run {} photo.png -o out", arguments.model));
      }
      dataset = data::random_dataset(running.recipe, running.model.graph, options);
    } else {
      dataset = data::open_dataset(paths, running.recipe, running.model.graph, options);
    }
    count = dataset->samples().size();
  }
  OutputNames names = names_of(arguments, running, ready, dataset.get(), paths);
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  host.progress.begin("running", static_cast<std::int64_t>(count));
  for (std::size_t i = 0; i < count; ++i) {
    host.cancel.throw_if_cancelled();
    const data::Sample sample = ready.empty() ? dataset->load(i) : ready[i];
    std::vector<graph::Tensor> outputs;
    try {
      outputs = run_sample(running, sample);
    } catch (Error& error) {
      error.in(fmt::format("sample '{}'", sample.name));
      throw;
    }
    data::NamedTensors arrays;
    const std::size_t first = rows.size();
    for (std::size_t o = 0; o < outputs.size(); ++o) {
      const auto path_with = [&](std::string_view extension) {
        return names.take(i, outputs.size() > 1 ? std::optional(o) : std::nullopt, extension);
      };
      rows.push_back(deliver(running, arguments, sample.name, running.session->outputs()[o], outputs[o], path_with,
                             arguments.npz ? &arrays : nullptr));
    }
    if (!arrays.empty()) {
      const fs::path path = names.take(i, std::nullopt, ".npz");
      data::write_npz(path, arrays);
      for (std::size_t r = first; r < rows.size(); ++r) {
        if (!rows[r].contains("file") && !rows[r].contains("top")) {
          rows[r]["file"] = path.string();
        }
      }
    }
    host.progress.advance();
  }
  host.progress.end();
  if (arguments.shared->json) {
    std::puts(rows.dump(2).c_str());
  } else {
    std::for_each(rows.begin(), rows.end(), print_row);
  }
}

}  // namespace

void add_run(CLI::App& app) {
  const auto arguments = std::make_shared<RunArguments>();
  app.add_option("model", arguments->model, "the ONNX model")->required();
  app.add_option("files", arguments->files, "pictures, .npy, .npz, or folders of them");
  app.add_option("--input", arguments->inputs, "the same by name: NAME=FILE; may be repeated")->take_all();
  app.add_option("-o,--out", arguments->out, "folder for the outputs")->capture_default_str();
  app.add_option("--recipe", arguments->recipe,
                 "how to feed the model (default: MODEL.recipe.toml, else a guess)");
  app.add_option("--shape", arguments->shapes, "fix an input's shape, as NAME=1,3,224,224; may be repeated")
      ->take_all();
  app.add_option("--top", arguments->top, "classes shown of a classifier")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_flag("--npz", arguments->npz, "the arrays of a sample in one .npz, by the outputs' names, in place of a .npy each");
  app.add_flag("--allow-non-finite", arguments->allow_non_finite,
               "write outputs that hold NaN or infinity; without it they are an error that names the node");
  arguments->shared = add_shared_options(app, kEngineOptions | kSeedOption | kCacheOption);
  app.footer("Example: tempera run esrgan_medium_x4.onnx photo.png -o upscaled");
  app.callback([arguments] { run_run(*arguments); });
}

}  // namespace tempera::cli
