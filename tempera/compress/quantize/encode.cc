#include "tempera/compress/quantize/encode.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>

#include <fmt/format.h>

#include "tempera/base/error.h"
#include "tempera/numeric/convert.h"
#include "tempera/numeric/float_format.h"
#include "tempera/numeric/low_bit.h"

namespace tempera::compress {
namespace {

constexpr CodeBook kInt8Book = {8, 128, {-127, 127}, DataType::kInt8};
constexpr CodeBook kInt4Book = {4, 8, {-8, 7}, DataType::kInt4};
constexpr CodeBook kInt2Book = {2, 2, {-2, 1}, DataType::kUndefined};
constexpr CodeBook kTernaryBook = {2, 1, {-1, 1}, DataType::kUndefined};
constexpr CodeBook kBinaryBook = {1, 0, {-1, 1}, DataType::kUndefined};
constexpr CodeBook kE4M3Book = {8, 0, {}, DataType::kFloat8E4M3FN};
constexpr CodeBook kE5M2Book = {8, 0, {}, DataType::kFloat8E5M2};

bool is_float8(WeightFormat format) {
  return format == WeightFormat::kFloat8E4M3FN || format == WeightFormat::kFloat8E5M2;
}

float magnitude_of(std::span<const float> values) {
  float largest = 0.0F;
  for (const float value : values) {
    largest = std::max(largest, std::abs(value));
  }
  return largest;
}

// The scale of one group in full precision. Formats that engines dequantise take 1 for a group of zeros (they refuse 0);
// those that we unpack by Mul take 0, since their codes need not have a zero.
float group_scale(std::span<const float> values, WeightFormat format, Levels levels, const EncodeOptions& options) {
  const float largest = magnitude_of(values);
  const auto spread_to = [&](double limit) {
    return largest == 0.0F ? 1.0F : std::max(static_cast<float>(largest / limit), std::numeric_limits<float>::min());
  };
  switch (format) {
    case WeightFormat::kTernary: return numeric::fit_ternary(values).scale;
    case WeightFormat::kBinary: return numeric::fit_binary(values);
    case WeightFormat::kInt2: {
      if (largest == 0.0F) {
        return 0.0F;
      }
      // -2..1 lies to one side of zero: a negative scale turns it to the other.
      std::vector<float> turned(values.begin(), values.end());
      std::transform(turned.begin(), turned.end(), turned.begin(), std::negate<>());
      const float plain = search_scale(values, levels);
      const float mirrored = search_scale(turned, levels);
      return rounding_error(values, plain, levels) <= rounding_error(turned, mirrored, levels) ? plain : -mirrored;
    }
    case WeightFormat::kFloat8E4M3FN:
    case WeightFormat::kFloat8E5M2:
      return spread_to(numeric::float_format(code_book(format).type)->max_finite());
    default:
      return options.search ? search_scale(values, levels) : spread_to(levels.high);
  }
}

// float16 when every scale that is not 0 keeps all its bits there.
DataType scale_type_for(WeightFormat format, std::span<const float> scales) {
  constexpr float kLeast = 6.103515625e-05F;  // 2^-14: smaller halves are subnormal
  constexpr float kLargest = 65504.0F;
  const bool fits = std::all_of(scales.begin(), scales.end(), [](float scale) {
    return scale == 0.0F || (std::abs(scale) >= kLeast && std::abs(scale) <= kLargest);
  });
  return code_book(format).bits <= 4 && fits ? DataType::kFloat16 : DataType::kFloat32;
}

void round_scales(DataType type, std::vector<float>& scales) {
  std::vector<std::byte> bytes(numeric::bytes_of(type, static_cast<std::int64_t>(scales.size())));
  numeric::encode(type, scales, bytes);
  numeric::decode(type, bytes, std::span<float>(scales));
}

// Codes of consecutive values that share a scale, each the nearest.
void nearest_codes(std::span<const float> values, WeightFormat format, float scale, Levels levels,
                   std::span<std::uint8_t> codes) {
  const CodeBook& book = code_book(format);
  if (is_float8(format)) {
    std::vector<float> quotients(values.size());
    std::transform(values.begin(), values.end(), quotients.begin(), [&](float value) { return value / scale; });
    numeric::encode(book.type, quotients, std::as_writable_bytes(codes));
    return;
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    switch (format) {
      case WeightFormat::kBinary: codes[i] = values[i] < 0.0F ? 0 : 1; break;
      case WeightFormat::kTernary:
        codes[i] = static_cast<std::uint8_t>(numeric::ternary_code(values[i], scale) + book.offset);
        break;
      default: {
        const float level = scale == 0.0F ? 0.0F : nearest_level(values[i] / scale, levels);
        codes[i] = static_cast<std::uint8_t>(static_cast<int>(level) + book.offset);
      }
    }
  }
}

// Calls visit(first element, count, scale index) for each run of elements that share a scale and lie in a row.
template <typename Visit>
void for_each_group(const EncodedWeight& weight, Visit visit) {
  const WeightView& view = weight.view;
  if (weight.block == 0) {
    visit(std::size_t{0}, static_cast<std::size_t>(view.rows * view.columns), std::size_t{0});
    return;
  }
  std::size_t scale = 0;
  for (std::int64_t row = 0; row < view.rows; ++row) {
    for (std::int64_t column = 0; column < view.columns; column += weight.block) {
      const std::int64_t count = std::min(weight.block, view.columns - column);
      visit(static_cast<std::size_t>(row * view.columns + column), static_cast<std::size_t>(count), scale++);
    }
  }
}

double relative_error(std::span<const float> decoded, std::span<const float> wanted) {
  double error = 0.0;
  double norm = 0.0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const double difference = static_cast<double>(decoded[i]) - wanted[i];
    error += difference * difference;
    norm += static_cast<double>(wanted[i]) * wanted[i];
  }
  return norm > 0.0 ? std::sqrt(error / norm) : 0.0;
}

// Codes that change the layer's products least, for the scales chosen.
void choose_codes_by_gptq(std::span<const float> matrix, Levels levels, const Hessian& hessian, EncodedWeight& weight) {
  const std::vector<float> table = level_table(weight.format);
  std::vector<float> rows(matrix.begin(), matrix.end());
  gptq_round(hessian, rows, weight.view.rows, [&](std::int64_t row, std::int64_t column, float value) {
    const std::size_t i = static_cast<std::size_t>(row * weight.view.columns + column);
    const float scale = weight.scale_of(row, column);
    nearest_codes(std::span(&value, 1), weight.format, scale, levels, std::span(weight.codes).subspan(i, 1));
    return scale * table[weight.codes[i]];
  });
}

}  // namespace

bool has_scales(WeightFormat format) {
  return format != WeightFormat::kFloat && format != WeightFormat::kFloat16 && format != WeightFormat::kBfloat16;
}

const CodeBook& code_book(WeightFormat format) {
  switch (format) {
    case WeightFormat::kInt8: return kInt8Book;
    case WeightFormat::kInt4: return kInt4Book;
    case WeightFormat::kInt2: return kInt2Book;
    case WeightFormat::kTernary: return kTernaryBook;
    case WeightFormat::kBinary: return kBinaryBook;
    case WeightFormat::kFloat8E4M3FN: return kE4M3Book;
    case WeightFormat::kFloat8E5M2: return kE5M2Book;
    case WeightFormat::kFloat:
    case WeightFormat::kFloat16:
    case WeightFormat::kBfloat16: break;
  }
  throw Error(ErrorCode::kInternal, fmt::format("format {} has no codes", to_string(format)));
}

std::vector<float> level_table(WeightFormat format) {
  const CodeBook& book = code_book(format);
  std::vector<float> table(std::size_t{1} << book.bits);
  if (is_float8(format)) {
    std::array<std::uint8_t, 256> codes{};
    for (std::size_t code = 0; code < codes.size(); ++code) {
      codes[code] = static_cast<std::uint8_t>(code);
    }
    numeric::decode(book.type, std::as_bytes(std::span(codes)), std::span<float>(table));
    std::replace_if(table.begin(), table.end(), [](float level) { return !std::isfinite(level); }, 0.0F);
    return table;
  }
  for (int code = 0; code < static_cast<int>(table.size()); ++code) {
    const int level = format == WeightFormat::kBinary ? 2 * code - 1 : code - book.offset;
    const bool used = level >= book.levels.low && level <= book.levels.high;
    table[static_cast<std::size_t>(code)] = used ? static_cast<float>(level) : 0.0F;
  }
  return table;
}

std::int64_t EncodedWeight::blocks() const { return block == 0 ? 1 : (view.columns + block - 1) / block; }

std::int64_t EncodedWeight::bytes() const {
  const std::int64_t bits = view.rows * view.columns * code_book(format).bits;
  return (bits + 7) / 8 +
         static_cast<std::int64_t>(numeric::bytes_of(scale_type, static_cast<std::int64_t>(scales.size())));
}

float EncodedWeight::scale_of(std::int64_t row, std::int64_t column) const {
  return scales[static_cast<std::size_t>(block == 0 ? 0 : row * blocks() + column / block)];
}

EncodedWeight encode_weight(const WeightView& view, std::span<const float> matrix, WeightFormat format,
                            const Granularity& granularity, const EncodeOptions& options) {
  EncodedWeight weight;
  weight.format = format;
  weight.view = view;
  switch (granularity.kind) {
    case Granularity::Kind::kTensor: weight.block = 0; break;
    case Granularity::Kind::kAxis: weight.block = std::max<std::int64_t>(view.columns, 1); break;
    case Granularity::Kind::kBlock:
      if (granularity.block < 1) {
        throw Error(ErrorCode::kInvalidArgument,
                    fmt::format("a block of {} weights, expected at least 1", granularity.block));
      }
      weight.block = std::clamp<std::int64_t>(granularity.block, 1, std::max<std::int64_t>(view.columns, 1));
  }
  Levels levels = code_book(format).levels;
  if (format == WeightFormat::kInt8) {
    levels = {-options.int8_limit, options.int8_limit};
  }
  weight.scales.resize(static_cast<std::size_t>(weight.block == 0 ? 1 : view.rows * weight.blocks()));
  for_each_group(weight, [&](std::size_t first, std::size_t count, std::size_t scale) {
    weight.scales[scale] = group_scale(matrix.subspan(first, count), format, levels, options);
  });
  weight.scale_type = scale_type_for(format, weight.scales);
  round_scales(weight.scale_type, weight.scales);
  weight.codes.resize(matrix.size());
  if (options.hessian != nullptr) {
    choose_codes_by_gptq(matrix, levels, *options.hessian, weight);
    weight.relative_l2 = relative_error(decode_weight(weight), matrix);
    return weight;
  }
  for_each_group(weight, [&](std::size_t first, std::size_t count, std::size_t scale) {
    nearest_codes(matrix.subspan(first, count), format, weight.scales[scale], levels,
                  std::span(weight.codes).subspan(first, count));
  });
  weight.relative_l2 = relative_error(decode_weight(weight), matrix);
  return weight;
}

std::vector<float> decode_weight(const EncodedWeight& weight) {
  const std::vector<float> table = level_table(weight.format);
  std::vector<float> decoded(weight.codes.size());
  for_each_group(weight, [&](std::size_t first, std::size_t count, std::size_t scale) {
    for (std::size_t i = first; i < first + count; ++i) {
      decoded[i] = weight.scales[scale] * table[weight.codes[i]];
    }
  });
  return decoded;
}

}  // namespace tempera::compress
