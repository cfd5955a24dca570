#include "tempera/optimize/subject.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "tempera/base/error.h"
#include "tempera/data/prefetch.h"
#include "tempera/onnx/infer.h"
#include "tempera/onnx/read.h"
#include "tempera/quality/metrics.h"

namespace tempera::optimize {
namespace {

// Shapes of the inputs when every sample has the same; looks at the first samples of each part, which bounds
// the time spent on data that is read again later.
std::map<std::string, graph::Dims> common_shapes(const Subject& subject) {
  constexpr std::size_t kLookedAt = 8;
  const std::vector<std::string> names = data::required_inputs(subject.model.graph);
  std::map<std::string, graph::Dims> shapes;
  const std::size_t count = subject.dataset->samples().size();
  const std::size_t stride = std::max<std::size_t>(1, count / kLookedAt);
  for (std::size_t i = 0; i < count; i += stride) {
    const data::Sample sample = subject.dataset->load(i);
    for (std::size_t k = 0; k < names.size(); ++k) {
      const auto [known, fresh] = shapes.emplace(names[k], sample.inputs.at(k).dims());
      if (!fresh && known->second != sample.inputs[k].dims()) {
        return {};
      }
    }
  }
  return shapes;
}

// Makes the programs' paths absolute. \throws Error{kInvalidArgument} for one that needs to be allowed
void prepare_programs(Subject& subject, const SubjectOptions& options) {
  subject.run_programs = options.programs == RecipePrograms::kAllow;
  for (data::OutputRecipe& output : subject.recipe.outputs) {
    if (output.command.empty()) {
      continue;
    }
    if (options.programs == RecipePrograms::kRefuse && !options.data.empty()) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("the recipe judges output '{}' by running the program '{}', which needs --allow-command",
                              output.name, output.command[0]),
                  "see what the program does, then repeat with --allow-command");
    }
    if (subject.run_programs) {
      output.command = data::absolute_command(std::move(output.command), subject.recipe.path);
    }
  }
}

}  // namespace

Subject load_subject(const SubjectOptions& options, const Host& host) {
  Subject subject;
  subject.path = options.model;
  subject.workers = options.workers > 0 ? options.workers : data::default_workers();
  host.progress.begin("reading the model", 0);
  subject.model = onnx::read_model(options.model);
  try {
    const std::vector<std::string> metrics = quality::metric_names();
    if (options.recipe.empty()) {
      subject.recipe = data::recipe_for(options.model, subject.model.graph, metrics);
    } else {
      subject.recipe = data::read_recipe(options.recipe, metrics);
      data::check_recipe(subject.recipe, subject.model.graph);
    }
    prepare_programs(subject, options);
    for (const std::string& guess : subject.recipe.guesses) {
      host.log.info(guess);
    }
    data::DatasetOptions dataset_options;
    dataset_options.seed = options.seed;
    dataset_options.random_samples = options.random_samples;
    subject.random_data = options.data.empty();
    host.progress.begin("reading the data", 0);
    subject.dataset =
        subject.random_data
            ? data::random_dataset(subject.recipe, subject.model.graph, dataset_options)
            : data::open_dataset(options.data, subject.recipe, subject.model.graph, dataset_options);
    subject.split = data::split_three(*subject.dataset);
    subject.fixed_shapes = !subject.recipe.deploy.shapes.empty();
    subject.input_shapes = subject.fixed_shapes ? subject.recipe.deploy.shapes : common_shapes(subject);
    onnx::infer_types(subject.model, subject.recipe.deploy.shapes);
  } catch (Error& error) {
    error.in(fmt::format("model {}", options.model.string()));
    throw;
  }
  host.progress.end();
  return subject;
}

void set_data(SubjectOptions& options, const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    if (word == "random") {
      options.random_data = true;
    } else {
      options.data.emplace_back(word);
    }
  }
}

bool thin_out(std::vector<std::size_t>& part, std::size_t most) {
  const std::size_t count = part.size();
  if (count <= most) {
    return false;
  }
  for (std::size_t i = 0; i < most; ++i) {
    part[i] = part[i * count / most];
  }
  part.resize(most);
  return true;
}

}  // namespace tempera::optimize
