#pragma once

#include <cstdint>

#include "tempera/data/recipe.h"
#include "tempera/graph/graph.h"
#include "tempera/graph/tensor.h"

namespace tempera::data {

/// Private to the datasets: inputs that come from no file.

/// The number that keeps random inputs of different samples and inputs apart.
[[nodiscard]] std::uint64_t draw_number(std::size_t sample, std::size_t input);

/// \param shape  the recipe's deploy shape of the input, or null
/// \throws Error{kInvalidArgument} when the shape is unknown or the values do not fit
[[nodiscard]] graph::Tensor make_constant(const ConstantSource& source, const graph::Value& value,
                                          const graph::Dims* shape);
[[nodiscard]] graph::Tensor make_random(const RandomSource& source, const graph::Value& value,
                                        const graph::Dims* shape, std::uint64_t seed, std::uint64_t draw);

/// What random_dataset() feeds an input that the recipe takes from files.
[[nodiscard]] graph::Tensor make_stand_in(const Recipe& recipe, const graph::Value& value, std::uint64_t seed,
                                          std::uint64_t draw);

/// `recipe.deploy.shapes` of the input, or null.
[[nodiscard]] const graph::Dims* deploy_shape(const Recipe& recipe, const std::string& input);

}  // namespace tempera::data
