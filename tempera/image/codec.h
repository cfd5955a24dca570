#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "tempera/image/image.h"

namespace tempera::image {

struct DecodeOptions {
  std::int64_t max_pixels =
      128'000'000;   ///< width x height; more is refused from the header, before decoding
  int channels = 3;  ///< 3: RGB, 1: grey
};

/// What the header of a file says.
struct ImageInfo {
  int width = 0;  ///< as stored, before rotation
  int height = 0;
  std::string format;  ///< "jpeg", "png", "webp", "tiff"
};

/// JPEG, PNG, WebP or TIFF as a person sees it: rotated as EXIF says, colour profiles and CMYK converted to
/// sRGB, palettes resolved, transparent parts laid over white, 16-bit data kept, the first page of several.
/// Other formats are refused, whatever the file is called.
///
/// \throws Error{kIo} for a damaged or unknown file, Error{kInvalidArgument} for one of too many pixels;
/// kNotFound
[[nodiscard]] Image load(const std::filesystem::path& path, const DecodeOptions& options = {});
[[nodiscard]] Image decode(std::span<const std::byte> bytes, const DecodeOptions& options = {});
[[nodiscard]] ImageInfo probe(std::span<const std::byte> bytes);

/// Whether the extension is one that load() takes: jpg, jpeg, png, webp, tif, tiff in any case.
[[nodiscard]] bool has_image_extension(const std::filesystem::path& path);

[[nodiscard]] std::vector<std::byte> encode_png(const Image& image);
/// \param quality  1..100
[[nodiscard]] std::vector<std::byte> encode_jpeg(const Image& image, int quality = 90);
/// PNG or JPEG by the extension; the file appears whole or not at all. \throws Error{kInvalidArgument, kIo}
void save(const std::filesystem::path& path, const Image& image);

}  // namespace tempera::image
