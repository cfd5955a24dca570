#include "tempera/image/resize.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <utility>

#include <fmt/format.h>

#include "tempera/base/error.h"

namespace tempera::image {
namespace {

struct KernelName {
  ResizeKernel kernel;
  std::string_view name;
};
constexpr std::array<KernelName, 7> kNames = {{{ResizeKernel::kBox, "box"},
                                               {ResizeKernel::kBilinear, "bilinear"},
                                               {ResizeKernel::kBicubic, "bicubic"},
                                               {ResizeKernel::kLanczos, "lanczos"},
                                               {ResizeKernel::kBilinearPoint, "bilinear_point"},
                                               {ResizeKernel::kBilinearTf1, "bilinear_tf1"},
                                               {ResizeKernel::kNearest, "nearest"}}};

bool is_antialiased(ResizeKernel kernel) {
  return kernel == ResizeKernel::kBox || kernel == ResizeKernel::kBilinear ||
         kernel == ResizeKernel::kBicubic || kernel == ResizeKernel::kLanczos;
}

double sinc(double x) { return x == 0.0 ? 1.0 : std::sin(std::numbers::pi * x) / (std::numbers::pi * x); }

double support_of(ResizeKernel kernel) {
  switch (kernel) {
    case ResizeKernel::kBox: return 0.5;
    case ResizeKernel::kBilinear: return 1.0;
    case ResizeKernel::kBicubic: return 2.0;
    default: return 3.0;
  }
}

double weight_of(ResizeKernel kernel, double x) {
  switch (kernel) {
    case ResizeKernel::kBox: return x > -0.5 && x <= 0.5 ? 1.0 : 0.0;
    case ResizeKernel::kBilinear: return std::max(0.0, 1.0 - std::abs(x));
    case ResizeKernel::kBicubic: {  // Keys 1981, "Cubic convolution interpolation for digital image
                                    // processing", eq. 4
      constexpr double a = -0.5;
      x = std::abs(x);
      if (x < 1.0) {
        return ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0;
      }
      return x < 2.0 ? (((x - 5.0) * x + 8.0) * x - 4.0) * a : 0.0;
    }
    default: return x >= -3.0 && x < 3.0 ? sinc(x) * sinc(x / 3.0) : 0.0;
  }
}

/// The input samples that make one output sample.
struct Taps {
  int first = 0;
  std::vector<double> weights;  ///< sum to 1
};

/// Pillow, Resample.c, precompute_coeffs: the kernel is centred at (i + 1/2) in / out and widened by in / out
/// when that is above 1; taps outside the image are dropped and the rest normalised.
Taps antialiased_taps(ResizeKernel kernel, int in, int out, int i) {
  const double scale = static_cast<double>(in) / out;
  const double widening = std::max(scale, 1.0);
  const double support = support_of(kernel) * widening;
  const double center = (i + 0.5) * scale;
  Taps taps;
  taps.first = std::max(0, static_cast<int>(center - support + 0.5));
  const int end = std::min(in, static_cast<int>(center + support + 0.5));
  double sum = 0.0;
  for (int x = taps.first; x < end; ++x) {
    taps.weights.push_back(weight_of(kernel, (x - center + 0.5) * (1.0 / widening)));
    sum += taps.weights.back();
  }
  for (double& weight : taps.weights) {
    weight = sum != 0.0 ? weight / sum : weight;
  }
  return taps;
}

Taps two_taps(double source, int in) {
  const double position = std::clamp(source, 0.0, in - 1.0);
  Taps taps;
  taps.first = static_cast<int>(position);
  const double fraction = position - taps.first;
  taps.weights = {1.0 - fraction};
  if (taps.first + 1 < in) {
    taps.weights.push_back(fraction);
  }
  return taps;
}

std::vector<Taps> all_taps(ResizeKernel kernel, int in, int out) {
  std::vector<Taps> taps;
  taps.reserve(static_cast<std::size_t>(out));
  const double scale = static_cast<double>(in) / out;
  for (int i = 0; i < out; ++i) {
    switch (kernel) {
      case ResizeKernel::kBilinearPoint: taps.push_back(two_taps((i + 0.5) * scale - 0.5, in)); break;
      case ResizeKernel::kBilinearTf1: taps.push_back(two_taps(i * scale, in)); break;
      case ResizeKernel::kNearest:
        taps.push_back({std::min(in - 1, static_cast<int>((i + 0.5) * scale)), {1.0}});
        break;
      default: taps.push_back(antialiased_taps(kernel, in, out, i));
    }
  }
  return taps;
}

enum class Arithmetic { kPillow8Bit, kDouble };

/// Resamples `lines` independent lines of pixels along one direction.
///
/// \param step,line_step  distance between neighbouring samples of a line, and between the first samples of
/// two lines
struct Pass {
  int lines = 0;
  std::size_t in_step = 0;
  std::size_t in_line_step = 0;
  std::size_t out_step = 0;
  std::size_t out_line_step = 0;
  std::size_t start = 0;  ///< of the first line, in both
};

void apply(const std::vector<Taps>& taps, const Pass& pass, const std::vector<float>& in,
           std::vector<float>& out, Arithmetic arithmetic) {
  // Pillow, Resample.c: PRECISION_BITS = 32 - 8 - 2
  constexpr int kBits = 22;
  for (std::size_t i = 0; i < taps.size(); ++i) {
    const std::vector<double>& weights = taps[i].weights;
    std::vector<std::int64_t> fixed;
    if (arithmetic == Arithmetic::kPillow8Bit) {
      for (const double weight : weights) {
        fixed.push_back(static_cast<std::int64_t>(weight * (1 << kBits) + (weight < 0 ? -0.5 : 0.5)));
      }
    }
    for (int line = 0; line < pass.lines; ++line) {
      const float* source = &in[pass.start + static_cast<std::size_t>(line) * pass.in_line_step +
                                static_cast<std::size_t>(taps[i].first) * pass.in_step];
      float& target =
          out[pass.start + static_cast<std::size_t>(line) * pass.out_line_step + i * pass.out_step];
      if (arithmetic == Arithmetic::kPillow8Bit) {
        std::int64_t sum = std::int64_t{1} << (kBits - 1);
        for (std::size_t k = 0; k < fixed.size(); ++k) {
          sum += static_cast<std::int64_t>(source[k * pass.in_step]) * fixed[k];
        }
        target = static_cast<float>(std::clamp<std::int64_t>(sum >> kBits, 0, 255));
      } else {
        double sum = 0.0;
        for (std::size_t k = 0; k < weights.size(); ++k) {
          sum += static_cast<double>(source[k * pass.in_step]) * weights[k];
        }
        target = static_cast<float>(sum);
      }
    }
  }
}

}  // namespace

std::string_view to_string(ResizeKernel kernel) {
  return std::find_if(kNames.begin(), kNames.end(),
                      [&](const KernelName& row) { return row.kernel == kernel; })
      ->name;
}

std::optional<ResizeKernel> resize_kernel_from_string(std::string_view name) {
  const auto* found =
      std::find_if(kNames.begin(), kNames.end(), [&](const KernelName& row) { return row.name == name; });
  return found == kNames.end() ? std::nullopt : std::optional(found->kernel);
}

std::vector<std::string> resize_kernel_names() {
  std::vector<std::string> names;
  for (const KernelName& row : kNames) {
    names.emplace_back(row.name);
  }
  return names;
}

Image resize(const Image& image, int width, int height, ResizeKernel kernel) {
  if (width < 1 || height < 1) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("an image cannot be resized to {} x {}", width, height));
  }
  const bool fixed_point = image.whole_numbers && is_antialiased(kernel);
  const Arithmetic arithmetic = fixed_point ? Arithmetic::kPillow8Bit : Arithmetic::kDouble;
  const auto channels = static_cast<std::size_t>(image.channels);
  Image columns = image;
  if (width != image.width) {  // as Pillow, a direction that keeps its size is not touched
    columns = Image(width, image.height, image.channels);
    const std::vector<Taps> taps = all_taps(kernel, image.width, width);
    const std::size_t in_row = static_cast<std::size_t>(image.width) * channels;
    const std::size_t out_row = static_cast<std::size_t>(width) * channels;
    for (std::size_t c = 0; c < channels; ++c) {  // a line is a row of one channel
      apply(taps, {image.height, channels, in_row, channels, out_row, c}, image.values, columns.values,
            arithmetic);
    }
  }
  Image result = columns;
  if (height != image.height) {
    result = Image(width, height, image.channels);
    const std::size_t row = static_cast<std::size_t>(width) * channels;
    // A line is a column of one channel: `row` of them side by side.
    apply(all_taps(kernel, image.height, height), {static_cast<int>(row), row, 1, row, 1, 0}, columns.values,
          result.values, arithmetic);
  }
  result.whole_numbers = image.whole_numbers;
  if (image.whole_numbers && !fixed_point) {
    for (float& value : result.values) {
      value = std::clamp(std::nearbyint(value), 0.0F, 255.0F);
    }
  }
  return result;
}

std::vector<double> resize_line(const std::vector<double>& line, int length, ResizeKernel kernel) {
  if (line.empty() || length < 1) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("a line of {} samples cannot be resized to {}", line.size(), length));
  }
  std::vector<double> out;
  for (const Taps& taps : all_taps(kernel, static_cast<int>(line.size()), length)) {
    double sum = 0.0;
    for (std::size_t k = 0; k < taps.weights.size(); ++k) {
      sum += line[static_cast<std::size_t>(taps.first) + k] * taps.weights[k];
    }
    out.push_back(sum);
  }
  return out;
}

}  // namespace tempera::image
