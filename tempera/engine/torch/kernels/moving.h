#pragma once

#include "tempera/engine/torch/kernels/kernel.h"

namespace tempera::engine::aten {

/// Runs `function`, which only moves elements about, on tensors of strings: each string stands as its position in all of
/// them laid end to end, and every output is turned back.
void move_strings(KernelContext& context, KernelFunction function);

/// A kernel that only moves elements, for numbers and strings alike.
template <KernelFunction function>
void moving(KernelContext& context) {
  for (std::size_t i = 0; i < context.input_count(); ++i) {
    if (context.has(i) && context.value(i).strings() != nullptr) {
      move_strings(context, function);
      return;
    }
  }
  function(context);
}

}  // namespace tempera::engine::aten
