#pragma once

#include <span>

#include "tempera/engine/torch/kernels/kernel.h"

/// One list a family, each defined in the file of that name; kernels.cc puts them together.
namespace tempera::engine::aten {

std::span<const Kernel> elementwise_kernels();

}  // namespace tempera::engine::aten
