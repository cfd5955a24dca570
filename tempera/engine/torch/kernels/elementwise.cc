#include <ATen/ATen.h>

#include "tempera/engine/torch/kernels/families.h"

namespace tempera::engine::aten {
namespace {

using Unary = at::Tensor (*)(const at::Tensor&);

/// One input, one output of the same type.
template <Unary function>
void unary(KernelContext& context) {
  const Array& x = context.array(0);
  context.set(0, wrap(function(x.data), x.type), x.type);
}

constexpr Kernel kKernels[] = {
    {"Abs", unary<at::abs>},
};

}  // namespace

std::span<const Kernel> elementwise_kernels() { return kKernels; }

}  // namespace tempera::engine::aten
