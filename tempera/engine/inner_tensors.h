#pragma once

#include <cstdint>

#include "tempera/graph/type.h"

namespace tempera::engine {

/// Bytes that a tensor of this type takes, to ask an engine for inner tensors in batches; 16 MiB when it cannot be known.
[[nodiscard]] std::int64_t bytes_estimate(const graph::ValueType& type);

}  // namespace tempera::engine
