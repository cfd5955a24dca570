#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

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

/// Cuts [0, 1) into as many equal parts as there are samples and gives each sample one of them, in a seeded order.
class Strata {
 public:
  Strata() = default;
  Strata(std::size_t samples, std::uint64_t seed);

  /// A number of the sample's part for one of [0, 1). \param u  in [0, 1)
  [[nodiscard]] double place(std::size_t sample, double u) const;

 private:
  std::vector<std::size_t> part_;  // of each sample
};

/// As make_random() with a uniform distribution, the numbers taken from the sample's part of the range.
[[nodiscard]] graph::Tensor make_stratified(const RandomSource& source, const graph::Value& value,
                                            const graph::Dims* shape, std::uint64_t seed, std::uint64_t draw,
                                            const Strata& strata, std::size_t sample);

/// What random_dataset() feeds an input that the recipe takes from files.
[[nodiscard]] graph::Tensor make_stand_in(const Recipe& recipe, const graph::Value& value, std::uint64_t seed,
                                          std::uint64_t draw);

/// `recipe.deploy.shapes` of the input, or null.
[[nodiscard]] const graph::Dims* deploy_shape(const Recipe& recipe, const std::string& input);

}  // namespace tempera::data
