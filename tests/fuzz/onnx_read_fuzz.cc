/// Fuzz target: reads bytes as an ONNX model and does with it what follows reading.

#include <cstdint>

#include "onnx_target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tempera::fuzz::exercise_onnx(std::as_bytes(std::span(data, size)));
  return 0;
}
