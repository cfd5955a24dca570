#include "tempera/cli/subject_arguments.h"

#include <CLI/CLI.hpp>

namespace tempera::cli {

CLI::Option* add_subject_arguments(CLI::App& app, SubjectArguments& arguments, const std::string& data_help) {
  app.add_option("model", arguments.model, "the ONNX model")->required();
  CLI::Option* data = app.add_option("--data", arguments.data, data_help);
  app.add_option("--recipe", arguments.recipe,
                 "how to feed the model and judge its outputs (default: MODEL.recipe.toml, else a guess)");
  app.add_option("--workers", arguments.workers, "threads that read data (default: min(8, cores))")
      ->check(CLI::Range(0, 256));
  return data;
}

void add_allow_command(CLI::App& app, SubjectArguments& arguments) {
  arguments.judges = true;
  app.add_flag("--allow-command", arguments.allow_command, "run the program that the recipe names as metric");
}

optimize::SubjectOptions subject_options(const SubjectArguments& arguments, const SharedOptions& shared) {
  optimize::SubjectOptions options;
  options.model = arguments.model;
  optimize::set_data(options, arguments.data);
  options.recipe = arguments.recipe;
  options.seed = shared.seed;
  options.workers = arguments.workers;
  options.programs = !arguments.judges          ? optimize::RecipePrograms::kUnused
                     : arguments.allow_command ? optimize::RecipePrograms::kAllow
                                               : optimize::RecipePrograms::kRefuse;
  return options;
}

}  // namespace tempera::cli
