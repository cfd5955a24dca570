/// libFuzzer target: `build-fuzz/tests/onnx_fuzzer -max_total_time=60 build-fuzz/tests/fuzz/onnx_corpus`.

#include <cstdint>

#include "onnx_target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tempera::fuzz::exercise_onnx(std::as_bytes(std::span(data, size)));
  return 0;
}
