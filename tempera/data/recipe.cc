#include "tempera/data/recipe.h"

#include <algorithm>

#include "tempera/data/recipe_words.h"

namespace tempera::data {
namespace {

template <typename T>
const T* find_named(const std::vector<T>& items, std::string_view name) {
  const auto found =
      std::find_if(items.begin(), items.end(), [&](const T& item) { return item.name == name; });
  return found == items.end() ? nullptr : &*found;
}

}  // namespace

const InputRecipe* Recipe::input(std::string_view name) const { return find_named(inputs, name); }
const OutputRecipe* Recipe::output(std::string_view name) const { return find_named(outputs, name); }

const std::vector<std::string>& task_names() {
  static const std::vector<std::string> names = {
      "super_resolution", "image_classification", "image_to_image", "image_generation",
      "docking",          "force_field",          "other"};
  return names;
}

const std::vector<std::string>& input_kinds() {
  static const std::vector<std::string> names = {"image", "array", "constant", "random"};
  return names;
}

const std::vector<std::string>& meanings() {
  static const std::vector<std::string> names = {"image",  "logits", "probabilities", "energy",
                                                 "forces", "score",  "array"};
  return names;
}

bool is_command_metric(std::string_view metric) { return metric == "command_lower" || metric == "command_higher"; }

std::vector<std::string> absolute_command(std::vector<std::string> command, const std::filesystem::path& recipe) {
  if (!command.empty() && command[0].find('/') != std::string::npos) {
    command[0] = (std::filesystem::absolute(recipe).parent_path() / command[0]).lexically_normal().string();
  }
  return command;
}

std::filesystem::path recipe_path(const std::filesystem::path& model) {
  std::filesystem::path path = model;
  path.replace_extension(".recipe.toml");
  return path;
}

}  // namespace tempera::data
