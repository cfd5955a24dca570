#include "tempera/optimize/pictures.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <set>
#include <variant>

#include "tempera/image/codec.h"
#include "tempera/image/image.h"
#include "tempera/image/tensor.h"
#include "tempera/optimize/candidate.h"

namespace tempera::optimize {
namespace {

std::string png(const image::Image& picture) {
  const std::vector<std::byte> bytes = image::encode_png(picture);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

const data::OutputRecipe* image_output(const data::Recipe& recipe) {
  const auto found = std::find_if(recipe.outputs.begin(), recipe.outputs.end(),
                                  [](const data::OutputRecipe& output) { return output.meaning == "image"; });
  return found == recipe.outputs.end() ? nullptr : &*found;
}

// The sample's picture as the model sees it, when an input is one.
std::optional<image::Image> image_input(const Subject& subject, const data::Sample& sample) {
  const std::vector<std::string> names = data::required_inputs(subject.model.graph);
  for (std::size_t i = 0; i < names.size(); ++i) {
    const data::InputRecipe* input = subject.recipe.input(names[i]);
    if (input != nullptr && std::holds_alternative<data::ImageSource>(input->source)) {
      return image::from_tensor(sample.inputs[i], std::get<data::ImageSource>(input->source).format);
    }
  }
  return std::nullopt;
}

image::Image run_to_image(const Subject& subject, engine::Session& session, const data::Sample& sample,
                          const data::OutputRecipe& output) {
  const std::vector<graph::Tensor> results = session.run(input_sets(subject, {sample}, session).at(0));
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (session.outputs()[i].name == output.name) {
      return image::from_tensor(results[i], output.format);
    }
  }
  return {};
}

// |after - before| as grey levels around black, times a gain from a fixed list so that pages compare at a
// glance.
std::pair<image::Image, double> difference(const image::Image& before, const image::Image& after) {
  image::Image out(before.width, before.height, before.channels);
  float largest = 0.0F;
  for (std::size_t i = 0; i < out.values.size(); ++i) {
    out.values[i] = std::fabs(after.values[i] - before.values[i]);
    largest = std::max(largest, out.values[i]);
  }
  constexpr std::array<double, 7> kGains = {1000, 100, 50, 20, 10, 4, 1};
  const auto fits = [&](double gain) { return gain * static_cast<double>(largest) <= 255.0; };
  const double gain = *std::find_if(kGains.begin(), kGains.end() - 1, fits);
  for (float& value : out.values) {
    value = std::min(255.0F, value * static_cast<float>(gain));
  }
  return {out, gain};
}

// One sample of each source, as long as there are sources; then further ones.
std::vector<data::Sample> varied_samples(const Subject& subject, std::size_t most) {
  std::set<std::size_t> seen;
  std::vector<std::size_t> first;
  std::vector<std::size_t> more;
  for (const std::size_t index : subject.split.verify) {
    (seen.insert(subject.dataset->samples()[index].source).second ? first : more).push_back(index);
  }
  first.insert(first.end(), more.begin(), more.end());
  return load_samples(subject, first, most);
}

}  // namespace

std::vector<report::Picture> make_pictures(const Subject& subject, engine::Session& before,
                                           engine::Session& after) {
  constexpr std::size_t kMost = 3;
  const data::OutputRecipe* output = image_output(subject.recipe);
  std::vector<report::Picture> pictures;
  if (output == nullptr) {
    return pictures;
  }
  const std::vector<data::Sample> samples = varied_samples(subject, kMost);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const image::Image old_picture = run_to_image(subject, before, samples[i], *output);
    const image::Image new_picture = run_to_image(subject, after, samples[i], *output);
    if (old_picture.values.empty() || old_picture.values.size() != new_picture.values.size()) {
      continue;
    }
    const auto [delta, gain] = difference(old_picture, new_picture);
    report::Picture row;
    row.sample = samples[i].name;
    if (const std::optional<image::Image> input = image_input(subject, samples[i])) {
      row.input_png = png(*input);
    }
    row.before_png = png(old_picture);
    row.after_png = png(new_picture);
    row.difference_png = png(delta);
    row.difference_gain = gain;
    pictures.push_back(std::move(row));
  }
  return pictures;
}

}  // namespace tempera::optimize
