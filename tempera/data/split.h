#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tempera/data/dataset.h"

namespace tempera::data {

/// Three disjoint parts of a dataset; indices of samples in dataset order.
struct Split {
  std::vector<std::size_t> calibrate;  ///< ranges and statistics
  std::vector<std::size_t> search;     ///< choosing between candidates
  std::vector<std::size_t> verify;     ///< the figures that are claimed
  bool sufficient =
      true;  ///< false: fewer than three sources; then every part is the whole and nothing may be claimed
  std::string reason;  ///< why not sufficient, for the report
};

/// Assigns each *source* to a part by the hash of its content: its place in the order of hashes decides, so
/// that every part has at least one source and about calibrate : search : verify = 1 : 1 : 1 of them,
/// whatever the files are called and in whatever order they come. Equal content (a copied file) always falls
/// into one part.
[[nodiscard]] Split split_three(const Dataset& dataset);

}  // namespace tempera::data
