#include "tempera/data/made_inputs.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "tempera/base/error.h"
#include "tempera/base/random.h"
#include "tempera/data/convert.h"
#include "tempera/numeric/data_type.h"

namespace tempera::data {
namespace {

using graph::DataType;
using graph::Dims;
using graph::Tensor;
using graph::Value;

/// The dimensions of a made input: as given, else as deployed, else the graph's with 1 for what is not fixed.
Dims resolve(const Dims& given, const Dims* deployed, const Value& value) {
  Dims dims;
  if (!given.empty()) {
    dims = given;
  } else if (deployed != nullptr) {
    dims = *deployed;
  } else if (value.type.shape) {
    for (const graph::Dim& dim : *value.type.shape) {
      dims.push_back(dim.fixed() ? dim.value : 1);
    }
  } else {
    throw Error(ErrorCode::kInvalidArgument, fmt::format("the shape of input '{}' is not known", value.name),
                fmt::format("[deploy.shapes] {} = [1, 3, 224, 224]    in the model's recipe", value.name));
  }
  require_shape(dims, value.type, "the recipe", value.name);
  constexpr std::int64_t kMaxElements = std::int64_t{1} << 32;
  if (graph::element_count(dims) > kMaxElements) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("input '{}' of dimensions {} is too large", value.name, graph::to_string(dims)));
  }
  return dims;
}

Tensor as_input(Dims dims, const std::vector<float>& values, const Value& value, Rounding rounding) {
  return cast(Tensor::from<float>(std::move(dims), std::span<const float>(values)), value.type.element,
              rounding, fmt::format("input '{}'", value.name));
}

std::size_t count_of(const Dims& dims) { return static_cast<std::size_t>(graph::element_count(dims)); }

}  // namespace

std::uint64_t draw_number(std::size_t sample, std::size_t input) {
  return static_cast<std::uint64_t>(sample) << 16U | (static_cast<std::uint64_t>(input) & 0xFFFFU);
}

const Dims* deploy_shape(const Recipe& recipe, const std::string& input) {
  const auto found = recipe.deploy.shapes.find(input);
  return found == recipe.deploy.shapes.end() ? nullptr : &found->second;
}

Tensor make_constant(const ConstantSource& source, const Value& value, const Dims* shape) {
  const Dims dims = resolve(source.shape, shape, value);
  const std::size_t count = count_of(dims);
  std::vector<double> values = source.values;
  if (values.size() == 1) {
    values.assign(count, source.values[0]);
  }
  if (values.size() != count) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("input '{}' of dimensions {} takes {} values, the recipe gives {}", value.name,
                            graph::to_string(dims), count, values.size()));
  }
  return cast(Tensor::from<double>(dims, std::span<const double>(values)), value.type.element,
              Rounding::kExact, fmt::format("the recipe's value of input '{}'", value.name));
}

Tensor make_random(const RandomSource& source, const Value& value, const Dims* shape, std::uint64_t seed,
                   std::uint64_t draw) {
  const Dims dims = resolve(source.shape, shape, value);
  const CounterRng random(seed, draw);
  std::vector<float> values(count_of(dims));
  if (source.distribution == RandomSource::Distribution::kNormal) {
    random.fill_normal(values);
    for (float& v : values) {
      v = static_cast<float>(source.mean + source.std * v);
    }
  } else if (numeric::is_float(value.type.element)) {
    random.fill_uniform(values);
    for (float& v : values) {
      v = static_cast<float>(source.low + (source.high - source.low) * v);
    }
  } else {  // low, low + 1, ..., high
    const auto choices = static_cast<std::uint64_t>(std::floor(source.high) - std::ceil(source.low)) + 1;
    std::vector<double> whole(values.size());
    for (std::size_t i = 0; i < whole.size(); ++i) {
      whole[i] = std::ceil(source.low) + static_cast<double>(random.below(i, choices));
    }
    return cast(Tensor::from<double>(dims, std::span<const double>(whole)), value.type.element,
                Rounding::kNearest, fmt::format("random input '{}'", value.name));
  }
  return as_input(dims, values, value, Rounding::kNearest);
}

Strata::Strata(std::size_t samples, std::uint64_t seed) : part_(samples) {
  std::iota(part_.begin(), part_.end(), std::size_t{0});
  const CounterRng random(seed, draw_number(samples, 0xFFFF));  // no input has this number
  for (std::size_t i = samples; i > 1; --i) {  // Fisher and Yates
    std::swap(part_[i - 1], part_[random.below(i, i)]);
  }
}

double Strata::place(std::size_t sample, double u) const {
  return (static_cast<double>(part_.at(sample)) + u) / static_cast<double>(part_.size());
}

Tensor make_stratified(const RandomSource& source, const Value& value, const Dims* shape, std::uint64_t seed,
                       std::uint64_t draw, const Strata& strata, std::size_t sample) {
  const Dims dims = resolve(source.shape, shape, value);
  const CounterRng random(seed, draw);
  const bool whole = !numeric::is_float(value.type.element);
  const double low = whole ? std::ceil(source.low) : source.low;
  const double width = whole ? std::floor(source.high) - low + 1.0 : source.high - source.low;
  std::vector<double> values(count_of(dims));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double offset = width * strata.place(sample, random.uniform(i));
    values[i] = low + (whole ? std::min(std::floor(offset), width - 1.0) : offset);
  }
  return cast(Tensor::from<double>(dims, std::span<const double>(values)), value.type.element, Rounding::kNearest,
              fmt::format("random input '{}'", value.name));
}

namespace {

/// An image of random pixels; sides that nothing fixes get the recipe's or 128.
Tensor random_image(const Recipe& recipe, const ImageSource& source, const Value& value, std::uint64_t seed,
                    std::uint64_t draw) {
  PixelSize size{128, 128};
  if (recipe.tile) {
    size = {recipe.tile->size, recipe.tile->size};
  }
  for (const auto& wanted : {source.fit.size, source.fit.crop, source.sampling.size}) {
    size = wanted.value_or(size);
  }
  Dims dims;
  if (const Dims* deployed = deploy_shape(recipe, value.name)) {
    dims = *deployed;
  } else if (value.type.shape && value.type.shape->size() == 4) {
    const bool nchw = source.format.layout == image::Layout::kNchw;
    const std::int64_t channels = source.format.channels == image::ChannelOrder::kGrey ? 1 : 3;
    dims = nchw ? Dims{1, channels, size.height, size.width} : Dims{1, size.height, size.width, channels};
    for (std::size_t i = 0; i < 4; ++i) {
      const graph::Dim& dim = (*value.type.shape)[i];
      dims[i] = dim.fixed() ? dim.value : dims[i];
    }
  }
  dims = resolve(dims, nullptr, value);
  std::vector<float> values(count_of(dims));
  CounterRng(seed, draw).fill_uniform(values);
  const image::PixelFormat& format = source.format;
  const double mean = format.mean.empty() ? 0.0 : format.mean[0];
  const double std = format.std.empty() ? 1.0 : format.std[0];
  for (float& v : values) {
    v = static_cast<float>((format.low + (format.high - format.low) * v - mean) / std);
  }
  return as_input(dims, values, value, Rounding::kNearest);
}

}  // namespace

Tensor make_stand_in(const Recipe& recipe, const Value& value, std::uint64_t seed, std::uint64_t draw) {
  const InputRecipe* input = recipe.input(value.name);
  if (const auto* source = input == nullptr ? nullptr : std::get_if<ImageSource>(&input->source)) {
    return random_image(recipe, *source, value, seed, draw);
  }
  const Dims* deployed = deploy_shape(recipe, value.name);
  if (numeric::is_float(value.type.element)) {
    return make_random(RandomSource{}, value, deployed, seed, draw);
  }
  if (value.type.element == DataType::kString) {
    const Dims dims = resolve({}, deployed, value);
    return Tensor::strings(dims, std::vector<std::string>(count_of(dims)));
  }
  return Tensor::allocate(value.type.element, resolve({}, deployed, value)).tensor;
}

}  // namespace tempera::data
