#include "tempera/compress/quantize/codes.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "tempera/base/error.h"
#include "tempera/numeric/affine.h"
#include "tempera/numeric/convert.h"

namespace tempera::compress {
namespace {

using graph::DataType;
using graph::Tensor;

constexpr float kLargestE4M3 = 448.0F;  // OCP 8-bit Floating Point Specification 1.0, table 1

float largest_code(const WeightCodesOptions& options) {
  return options.type == DataType::kFloat8E4M3FN ? kLargestE4M3 : options.seven_bit ? 63.0F : 127.0F;
}

// The smallest normal number of the type that scales are kept in: engines refuse a scale of zero.
float least_normal(DataType type) {
  return type == DataType::kFloat16 ? 0x1p-14F : std::numeric_limits<float>::min();
}

// Where the elements of one channel lie: `outer` runs of `inner` consecutive ones.
struct Layout {
  std::size_t outer = 1;
  std::size_t channels = 1;
  std::size_t inner = 1;

  Layout(const graph::Dims& dims, std::optional<std::int64_t> axis) {
    for (std::size_t i = 0; i < dims.size(); ++i) {
      const auto here = static_cast<std::int64_t>(i);
      (!axis || here > *axis ? inner : here == *axis ? channels : outer) *= static_cast<std::size_t>(dims[i]);
    }
  }

  template <typename Visit>
  void for_each(std::size_t channel, const Visit& visit) const {
    for (std::size_t o = 0; o < outer; ++o) {
      const std::size_t start = (o * channels + channel) * inner;
      for (std::size_t i = start; i < start + inner; ++i) {
        visit(i);
      }
    }
  }
};

float magnitude_of(const std::vector<float>& values, const Layout& layout, std::size_t channel) {
  float largest = 0.0F;
  layout.for_each(channel, [&](std::size_t i) {
    if (!std::isfinite(values[i])) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("weight element {} is {}, which cannot be quantised", i, values[i]));
    }
    largest = std::max(largest, std::abs(values[i]));
  });
  return largest;
}

}  // namespace

WeightCodes quantize_weights(const Tensor& weights, const WeightCodesOptions& options,
                             std::span<const float> least) {
  const Layout layout(weights.dims(), options.channel_axis);
  std::vector<float> values(static_cast<std::size_t>(weights.size()));
  numeric::decode(weights.type(), weights.bytes(), std::span<float>(values));

  WeightCodes result;
  const graph::Dims scale_dims =
      options.channel_axis ? graph::Dims{static_cast<std::int64_t>(layout.channels)} : graph::Dims{};
  Tensor::Writable scales = Tensor::allocate(weights.type(), scale_dims);
  for (std::size_t c = 0; c < layout.channels; ++c) {
    const double fit = magnitude_of(values, layout, c) / static_cast<double>(largest_code(options));
    const double wanted = std::max(fit, least.empty() ? 0.0 : static_cast<double>(least[c]));
    result.scale_values.push_back(
        wanted == 0.0 ? 1.0F : std::max(static_cast<float>(wanted), least_normal(weights.type())));
  }
  numeric::encode(weights.type(), result.scale_values, scales.bytes);
  numeric::decode(weights.type(), scales.bytes,
                  std::span<float>(result.scale_values));  // as a reader will see them

  Tensor::Writable codes = Tensor::allocate(options.type, weights.dims());
  std::vector<float> scaled(values.size());
  const float limit = largest_code(options);
  for (std::size_t c = 0; c < layout.channels; ++c) {
    const float scale = result.scale_values[c];
    layout.for_each(c, [&](std::size_t i) { scaled[i] = std::clamp(values[i] / scale, -limit, limit); });
  }
  numeric::encode(options.type, scaled, codes.bytes);

  numeric::decode(options.type, codes.bytes, std::span<float>(scaled));
  double error = 0.0;
  double power = 0.0;
  for (std::size_t c = 0; c < layout.channels; ++c) {
    layout.for_each(c, [&](std::size_t i) {
      const double difference = static_cast<double>(scaled[i]) * result.scale_values[c] - values[i];
      error += difference * difference;
      power += static_cast<double>(values[i]) * values[i];
    });
  }
  result.relative_l2 = power > 0.0 ? std::sqrt(error / power) : 0.0;
  result.codes = std::move(codes.tensor);
  result.scales = std::move(scales.tensor);
  return result;
}

}  // namespace tempera::compress
