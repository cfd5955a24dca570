#include "tempera/image/codec.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>

#include <fmt/format.h>
#include <vips/vips.h>

#include "tempera/base/error.h"
#include "tempera/base/file.h"

namespace tempera::image {
namespace {

void start_vips() {
  static std::once_flag started;
  std::call_once(started, [] {
    // Without this, warnings of the decoders go to standard error.
    g_log_set_handler(
        "VIPS", static_cast<GLogLevelFlags>(G_LOG_LEVEL_WARNING | G_LOG_LEVEL_INFO | G_LOG_LEVEL_MESSAGE),
        [](const gchar*, GLogLevelFlags, const gchar*, gpointer) {}, nullptr);
    if (VIPS_INIT("tempera") != 0) {
      throw Error(ErrorCode::kInternal, "libvips could not start");
    }
    vips_block_untrusted_set(TRUE);
    vips_concurrency_set(1);  // callers bring their own threads
    vips_cache_set_max(0);
  });
}

/// Frees what libvips keeps for the calling thread, which may be about to end.
struct ThreadScope {
  ThreadScope() { start_vips(); }
  ~ThreadScope() { vips_thread_shutdown(); }
  ThreadScope(const ThreadScope&) = delete;
  ThreadScope& operator=(const ThreadScope&) = delete;
};

struct Unref {
  void operator()(VipsImage* image) const { g_object_unref(image); }
};
using Picture = std::unique_ptr<VipsImage, Unref>;

struct Free {
  void operator()(void* memory) const { g_free(memory); }
};

[[noreturn]] void throw_vips(const char* what) {
  const std::unique_ptr<char, Free> buffer(vips_error_buffer_copy());
  std::string text = buffer == nullptr ? "" : buffer.get();
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0) {
    text.pop_back();
  }
  std::replace(text.begin(), text.end(), '\n', ';');
  throw Error(ErrorCode::kIo, fmt::format("{}: {}", what, text.empty() ? "no reason given" : text));
}

enum class Format { kJpeg, kPng, kWebp, kTiff };

std::string_view name_of(Format format) {
  switch (format) {
    case Format::kJpeg: return "jpeg";
    case Format::kPng: return "png";
    case Format::kWebp: return "webp";
    case Format::kTiff: return "tiff";
  }
  return "";
}

/// The format by its first bytes, so that no other decoder is ever asked.
Format sniff(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()),
                              std::min<std::size_t>(bytes.size(), 16));
  const auto starts = [&](std::string_view magic) { return text.starts_with(magic); };
  if (starts("\xFF\xD8\xFF")) {
    return Format::kJpeg;
  }
  if (starts("\x89PNG\r\n\x1A\n")) {
    return Format::kPng;
  }
  if (starts("RIFF") && text.size() >= 12 && text.substr(8, 4) == "WEBP") {
    return Format::kWebp;
  }
  for (const std::string_view magic : {std::string_view("II*\0", 4), std::string_view("MM\0*", 4),
                                       std::string_view("II+\0", 4), std::string_view("MM\0+", 4)}) {
    if (starts(magic)) {
      return Format::kTiff;
    }
  }
  throw Error(ErrorCode::kIo, "not an image that can be read: it is no JPEG, PNG, WebP or TIFF");
}

/// Opens the image: the header is read, the pixels are not.
Picture open(std::span<const std::byte> bytes, Format format) {
  VipsImage* image = nullptr;
  // libvips' interface is not const-correct; it only reads.
  void* data = const_cast<std::byte*>(bytes.data());
  int status = -1;
  switch (format) {
    case Format::kJpeg:
      status = vips_jpegload_buffer(data, bytes.size(), &image, "fail_on", VIPS_FAIL_ON_ERROR, nullptr);
      break;
    case Format::kPng:
      status = vips_pngload_buffer(data, bytes.size(), &image, "fail_on", VIPS_FAIL_ON_ERROR, nullptr);
      break;
    case Format::kWebp:
      status = vips_webpload_buffer(data, bytes.size(), &image, "fail_on", VIPS_FAIL_ON_ERROR, nullptr);
      break;
    case Format::kTiff:
      status = vips_tiffload_buffer(data, bytes.size(), &image, "fail_on", VIPS_FAIL_ON_ERROR, nullptr);
      break;
  }
  if (status != 0) {
    throw_vips("the image cannot be read");
  }
  return Picture(image);
}

/// Replaces `picture` by what `operation(in, &out)` makes of it.
template <typename Operation>
void apply(Picture& picture, const char* what, Operation operation) {
  VipsImage* out = nullptr;
  if (operation(picture.get(), &out) != 0) {
    throw_vips(what);
  }
  picture.reset(out);
}

/// Whether an embedded profile says sRGB by its name, in Latin or UTF-16 letters: converting it would only
/// add rounding.
bool is_srgb_profile(const void* data, std::size_t size) {
  const std::string_view profile(static_cast<const char*>(data), size);
  return profile.find("sRGB") != std::string_view::npos ||
         profile.find(std::string_view("\0s\0R\0G\0B", 8)) != std::string_view::npos;
}

/// To sRGB or grey of 8 or 16 bits a channel, transparency kept as a last band.
void convert_colours(Picture& picture) {
  const VipsBandFormat depth = picture->BandFmt;
  const bool sixteen = depth == VIPS_FORMAT_USHORT;
  const void* profile = nullptr;
  std::size_t profile_size = 0;
  const bool has_profile =
      vips_image_get_typeof(picture.get(), VIPS_META_ICC_NAME) != 0 &&
      vips_image_get_blob(picture.get(), VIPS_META_ICC_NAME, &profile, &profile_size) == 0 &&
      !is_srgb_profile(profile, profile_size);
  if (has_profile) {
    VipsImage* out = nullptr;
    if (vips_icc_transform(picture.get(), &out, "srgb", "embedded", TRUE, "depth", sixteen ? 16 : 8,
                           nullptr) == 0) {
      picture.reset(out);
      return;
    }
    vips_error_clear();  // a broken profile: show the numbers as they are, as viewers do
  }
  const VipsInterpretation meaning = vips_image_guess_interpretation(picture.get());
  VipsInterpretation wanted = VIPS_INTERPRETATION_sRGB;
  if (meaning == VIPS_INTERPRETATION_B_W || meaning == VIPS_INTERPRETATION_GREY16) {
    wanted = sixteen ? VIPS_INTERPRETATION_GREY16 : VIPS_INTERPRETATION_B_W;
  } else if (sixteen && meaning == VIPS_INTERPRETATION_RGB16) {
    wanted = VIPS_INTERPRETATION_RGB16;
  }
  apply(picture, "the colours cannot be converted", [&](VipsImage* in, VipsImage** out) {
    return vips_colourspace(in, out, wanted, "source_space", meaning, nullptr);
  });
}

void check_size(const VipsImage* image, const DecodeOptions& options) {
  const std::int64_t pixels = static_cast<std::int64_t>(image->Xsize) * image->Ysize;
  if (pixels > options.max_pixels) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("the image has {} x {} pixels, more than the {} allowed", image->Xsize,
                            image->Ysize, options.max_pixels));
  }
  constexpr int kMaxBands = 64;
  if (image->Bands > kMaxBands) {
    throw Error(ErrorCode::kInvalidArgument, fmt::format("the image has {} channels", image->Bands));
  }
}

}  // namespace

Image decode(std::span<const std::byte> bytes, const DecodeOptions& options) {
  const ThreadScope scope;
  const Format format = sniff(bytes);
  Picture picture = open(bytes, format);
  check_size(picture.get(), options);
  const VipsInterpretation meaning = picture->Type;
  const bool integers = picture->BandFmt == VIPS_FORMAT_UCHAR || picture->BandFmt == VIPS_FORMAT_USHORT;
  const bool colours = meaning == VIPS_INTERPRETATION_LAB || meaning == VIPS_INTERPRETATION_LABQ ||
                       meaning == VIPS_INTERPRETATION_LABS || meaning == VIPS_INTERPRETATION_XYZ;
  if (!integers && !colours) {
    throw Error(ErrorCode::kUnsupported,
                fmt::format("the image holds {} values; pictures of 8 or 16 bits a channel are read",
                            vips_enum_nick(VIPS_TYPE_BAND_FORMAT, picture->BandFmt)),
                "save data that are no picture as .npy");
  }
  apply(picture, "the image cannot be rotated",
        [](VipsImage* in, VipsImage** out) { return vips_autorot(in, out, nullptr); });
  convert_colours(picture);
  if (vips_image_hasalpha(picture.get()) != 0) {
    const double white = picture->BandFmt == VIPS_FORMAT_USHORT ? 65535.0 : 255.0;
    const std::unique_ptr<VipsArrayDouble, void (*)(VipsArrayDouble*)> background(
        vips_array_double_newv(1, white), [](VipsArrayDouble* array) { vips_area_unref(VIPS_AREA(array)); });
    apply(picture, "the transparency cannot be resolved", [&](VipsImage* in, VipsImage** out) {
      return vips_flatten(in, out, "background", background.get(), "max_alpha", white, nullptr);
    });
  }
  const int bands = picture->Bands;
  const bool sixteen = picture->BandFmt == VIPS_FORMAT_USHORT;
  if ((bands != 1 && bands != 3) || (!sixteen && picture->BandFmt != VIPS_FORMAT_UCHAR)) {
    throw Error(ErrorCode::kUnsupported,
                fmt::format("an image of {} {} channels is not understood", bands,
                            vips_enum_nick(VIPS_TYPE_BAND_FORMAT, picture->BandFmt)));
  }
  std::size_t size = 0;
  const std::unique_ptr<void, Free> memory(vips_image_write_to_memory(picture.get(), &size));
  if (memory == nullptr) {
    throw_vips("the image is damaged");
  }
  Image image(picture->Xsize, picture->Ysize, bands);
  TEMPERA_CHECK(size == image.values.size() * (sixteen ? 2 : 1), "libvips gave another number of bytes");
  if (sixteen) {
    const auto* values = static_cast<const std::uint16_t*>(memory.get());
    std::transform(values, values + image.values.size(), image.values.begin(),
                   [](std::uint16_t value) { return static_cast<float>(value / 257.0); });
    image.whole_numbers = false;
  } else {
    const auto* values = static_cast<const std::uint8_t*>(memory.get());
    std::copy_n(values, image.values.size(), image.values.begin());
  }
  return to_channels(image, options.channels);
}

ImageInfo probe(std::span<const std::byte> bytes) {
  const ThreadScope scope;
  const Format format = sniff(bytes);
  const Picture picture = open(bytes, format);
  return {picture->Xsize, picture->Ysize, std::string(name_of(format))};
}

Image load(const std::filesystem::path& path, const DecodeOptions& options) {
  const MappedFile file = map_file(path);
  try {
    return decode(file.bytes(), options);
  } catch (Error& error) {
    error.in(fmt::format("file {}", path.string()));
    throw;
  }
}

namespace {

std::string lower_extension(const std::filesystem::path& path) {
  std::string extension = path.extension().string();
  std::transform(extension.begin(), extension.end(), extension.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return extension;
}

/// The 8-bit image as libvips sees it; `bytes` must outlive it.
Picture wrap(const Image& image, const std::vector<std::uint8_t>& bytes) {
  VipsImage* wrapped = vips_image_new_from_memory(bytes.data(), bytes.size(), image.width, image.height,
                                                  image.channels, VIPS_FORMAT_UCHAR);
  if (wrapped == nullptr) {
    throw_vips("the image cannot be encoded");
  }
  Picture picture(wrapped);
  apply(picture, "the image cannot be encoded", [&](VipsImage* in, VipsImage** out) {
    return vips_copy(in, out, "interpretation",
                     image.channels == 1 ? VIPS_INTERPRETATION_B_W : VIPS_INTERPRETATION_sRGB, nullptr);
  });
  return picture;
}

std::vector<std::byte> take(void* memory, std::size_t size) {
  const std::unique_ptr<void, Free> owned(memory);
  const auto* bytes = static_cast<const std::byte*>(memory);
  return {bytes, bytes + size};
}

}  // namespace

bool has_image_extension(const std::filesystem::path& path) {
  constexpr std::array<std::string_view, 6> kKnown = {".jpg", ".jpeg", ".png", ".webp", ".tif", ".tiff"};
  return std::find(kKnown.begin(), kKnown.end(), lower_extension(path)) != kKnown.end();
}

std::vector<std::byte> encode_png(const Image& image) {
  const ThreadScope scope;
  const std::vector<std::uint8_t> bytes = to_bytes(image);
  const Picture picture = wrap(image, bytes);
  void* memory = nullptr;
  std::size_t size = 0;
  if (vips_pngsave_buffer(picture.get(), &memory, &size, nullptr) != 0) {
    throw_vips("the image cannot be encoded");
  }
  return take(memory, size);
}

std::vector<std::byte> encode_jpeg(const Image& image, int quality) {
  const ThreadScope scope;
  if (quality < 1 || quality > 100) {
    throw Error(ErrorCode::kInvalidArgument, fmt::format("JPEG quality must be 1 to 100, got {}", quality));
  }
  const std::vector<std::uint8_t> bytes = to_bytes(image);
  const Picture picture = wrap(image, bytes);
  void* memory = nullptr;
  std::size_t size = 0;
  if (vips_jpegsave_buffer(picture.get(), &memory, &size, "Q", quality, "optimize_coding", TRUE, nullptr) !=
      0) {
    throw_vips("the image cannot be encoded");
  }
  return take(memory, size);
}

void save(const std::filesystem::path& path, const Image& image) {
  const std::string extension = lower_extension(path);
  if (extension == ".png") {
    write_file(path, encode_png(image));
  } else if (extension == ".jpg" || extension == ".jpeg") {
    write_file(path, encode_jpeg(image));
  } else {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("cannot write an image as '{}': its name must end in .png, .jpg or .jpeg",
                            path.string()));
  }
}

}  // namespace tempera::image
