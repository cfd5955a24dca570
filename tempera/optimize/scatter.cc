#include "tempera/optimize/scatter.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "tempera/data/dataset.h"
#include "tempera/graph/tensor.h"
#include "tempera/numeric/data_type.h"
#include "tempera/optimize/candidate.h"
#include "tempera/quality/statistics.h"

namespace tempera::optimize {
namespace {

constexpr std::size_t kSamples = 64;
constexpr std::int64_t kMostValues = 4096;  // of one sample's output: beyond, it is a picture or a volume

bool is_image(const data::Recipe& recipe, const std::string& output) {
  return std::any_of(recipe.outputs.begin(), recipe.outputs.end(), [&](const data::OutputRecipe& known) {
    return known.name == output && known.meaning == "image";
  });
}

}  // namespace

std::vector<report::Scatter> make_scatters(const Subject& subject, engine::Session& before, engine::Session& after) {
  std::vector<report::Scatter> scatters(before.outputs().size());
  const std::size_t samples = std::min(kSamples, subject.split.verify.size());
  for (std::size_t s = 0; s < samples; ++s) {
    const std::vector<data::Sample> sample = load_samples(subject, {subject.split.verify[s]}, 1);
    const std::vector<graph::Tensor> old_values = before.run(input_sets(subject, sample, before).at(0));
    const std::vector<graph::Tensor> new_values = after.run(input_sets(subject, sample, after).at(0));
    for (std::size_t i = 0; i < scatters.size() && i < new_values.size(); ++i) {
      const std::string& name = before.outputs()[i].name;
      if (!numeric::is_float(old_values[i].type()) || old_values[i].size() > kMostValues ||
          old_values[i].size() != new_values[i].size() || is_image(subject.recipe, name)) {
        continue;
      }
      scatters[i].output = name;
      const auto append = [](std::vector<double>& to, const std::vector<double>& values) {
        to.insert(to.end(), values.begin(), values.end());
      };
      append(scatters[i].before, graph::to_doubles(old_values[i]));
      append(scatters[i].after, graph::to_doubles(new_values[i]));
    }
    if (std::all_of(scatters.begin(), scatters.end(), [](const auto& scatter) { return scatter.before.empty(); })) {
      return {};
    }
  }
  std::erase_if(scatters, [](const report::Scatter& scatter) { return scatter.before.size() < 2; });
  for (report::Scatter& scatter : scatters) {
    scatter.pearson = quality::pearson(scatter.before, scatter.after);
    scatter.spearman = quality::spearman(scatter.before, scatter.after);
  }
  return scatters;
}

}  // namespace tempera::optimize
