#pragma once

#include <span>

#include "tempera/engine/torch/kernels/kernel.h"

/// One list a family, each defined in the file of that name; kernels.cc puts them together.
namespace tempera::engine::aten {

std::span<const Kernel> activation_kernels();
std::span<const Kernel> attention_kernels();
std::span<const Kernel> binary_kernels();
std::span<const Kernel> cast_kernels();
std::span<const Kernel> constant_kernels();
std::span<const Kernel> control_kernels();
std::span<const Kernel> convolution_kernels();
std::span<const Kernel> index_kernels();
std::span<const Kernel> layout_kernels();
std::span<const Kernel> matmul_kernels();
std::span<const Kernel> normalization_kernels();
std::span<const Kernel> order_kernels();
std::span<const Kernel> pooling_kernels();
std::span<const Kernel> quantize_kernels();
std::span<const Kernel> random_kernels();
std::span<const Kernel> recurrent_kernels();
std::span<const Kernel> reduce_kernels();
std::span<const Kernel> region_kernels();
std::span<const Kernel> resize_kernels();
std::span<const Kernel> sampling_kernels();
std::span<const Kernel> sequence_kernels();
std::span<const Kernel> shape_kernels();
std::span<const Kernel> signal_kernels();
std::span<const Kernel> softmax_kernels();
std::span<const Kernel> strings_kernels();
std::span<const Kernel> unary_kernels();

}  // namespace tempera::engine::aten
