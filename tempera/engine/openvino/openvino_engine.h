#pragma once

#include <memory>

#include "tempera/engine/engine.h"

namespace tempera::engine {

/// The OpenVINO engine on this machine's CPU.
///
/// The model is read at its own opset; calls of local functions are inlined first. Large weights are shared with the
/// model, not copied, until OpenVINO packs them for its kernels. One stream, tuned for latency. The precision is always
/// set: a CPU with AMX would otherwise compute in bf16 in silence.
///
/// 64-bit integers are computed in 32 bits (larger values become the largest), doubles in `CompileOptions::precision`.
///
/// With `CompileOptions::exact`, dynamic quantisation of activations, compressed key/value caches and flushing of
/// denormals are off. CompileOptions::properties takes OpenVINO's own names ("ENABLE_CPU_PINNING").
///
/// Each engine has a runtime of its own; sessions keep it alive. Const methods are safe to call together.
[[nodiscard]] std::unique_ptr<Engine> make_openvino_engine();

}  // namespace tempera::engine
