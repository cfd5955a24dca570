#pragma once

#include <map>
#include <string>
#include <vector>

#include "tempera/graph/tensor.h"

namespace tempera::cli {

/// "NAME=1,3,128,128" each. \throws Error{kInvalidArgument} naming the one that is not of this form
[[nodiscard]] std::map<std::string, graph::Dims> parse_shapes(const std::vector<std::string>& texts);

}  // namespace tempera::cli
