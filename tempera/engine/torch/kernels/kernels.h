#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "tempera/engine/torch/kernels/kernel.h"

namespace tempera::engine::aten {

/// The kernel of an operator, or null. Domain "ai.onnx" is "".
[[nodiscard]] const Kernel* find_kernel(std::string_view domain, std::string_view op_type);

/// Every kernel, family by family.
[[nodiscard]] std::vector<Kernel> all_kernels();

}  // namespace tempera::engine::aten
