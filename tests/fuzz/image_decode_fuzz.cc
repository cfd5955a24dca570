/// Fuzz target: reads bytes as a picture. What is accepted keeps to the limits, and survives PNG when it is of 8 bits.

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>

#include "tempera/base/error.h"
#include "tempera/image/codec.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace ti = tempera::image;
  const auto bytes = std::as_bytes(std::span(data, size));
  ti::DecodeOptions options;
  options.max_pixels = 1 << 18;  // so that a run is short
  for (const int channels : {1, 3}) {
    options.channels = channels;
    try {
      const ti::Image image = ti::decode(bytes, options);
      const std::int64_t pixels = std::int64_t{image.width} * image.height;
      if (pixels > options.max_pixels || image.channels != channels ||
          image.values.size() != static_cast<std::size_t>(pixels * channels)) {
        throw std::logic_error("a picture beyond the limits was accepted");
      }
      if (image.whole_numbers && ti::decode(ti::encode_png(image), options).values != image.values) {
        throw std::logic_error("a picture changed on its way through PNG");
      }
    } catch (const tempera::Error&) {  // the only exception that may come of bytes
    }
  }
  return 0;
}
