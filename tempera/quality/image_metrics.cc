#include "tempera/quality/image_metrics.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include <fmt/format.h>

#include "tempera/base/error.h"

namespace tempera::quality {
namespace {

using image::Image;

/// Both images without their border.
std::pair<Image, Image> inner(const Image& reference, const Image& candidate, int border) {
  if (reference.width != candidate.width || reference.height != candidate.height ||
      reference.channels != candidate.channels) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("images of {} x {} x {} and {} x {} x {} cannot be compared", reference.width,
                            reference.height, reference.channels, candidate.width, candidate.height,
                            candidate.channels));
  }
  if (border < 0 || 2 * border >= std::min(reference.width, reference.height)) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("nothing is left of an image of {} x {} without a border of {}", reference.width,
                            reference.height, border));
  }
  const int width = reference.width - 2 * border;
  const int height = reference.height - 2 * border;
  return {image::crop(reference, border, border, width, height),
          image::crop(candidate, border, border, width, height)};
}

double decibels(const Image& reference, const Image& candidate) {
  double sum = 0.0;
  for (std::size_t i = 0; i < reference.values.size(); ++i) {
    const double difference = static_cast<double>(candidate.values[i]) - reference.values[i];
    sum += difference * difference;
  }
  const double mse = sum / static_cast<double>(reference.values.size());
  return mse == 0.0 ? std::numeric_limits<double>::infinity() : 10.0 * std::log10(255.0 * 255.0 / mse);
}

constexpr int kWindow = 11;

/// The window of Wang et al.: a normalised Gaussian of sigma 1.5 along one direction.
std::array<double, kWindow> gaussian() {
  constexpr double kSigma = 1.5;
  std::array<double, kWindow> weights = {};
  double sum = 0.0;
  for (int i = 0; i < kWindow; ++i) {
    const double x = (i - kWindow / 2) / kSigma;
    weights[static_cast<std::size_t>(i)] = std::exp(-0.5 * x * x);
    sum += weights[static_cast<std::size_t>(i)];
  }
  for (double& weight : weights) {
    weight /= sum;
  }
  return weights;
}

struct Plane {
  int width = 0;
  int height = 0;
  std::vector<double> values;
};

Plane plane_of(const Image& image, int channel) {
  Plane plane{image.width, image.height, {}};
  for (int y = 0; y < image.height; ++y) {
    for (int x = 0; x < image.width; ++x) {
      plane.values.push_back(image.at(x, y, channel));
    }
  }
  return plane;
}

Plane product(const Plane& a, const Plane& b) {
  Plane out = a;
  for (std::size_t i = 0; i < out.values.size(); ++i) {
    out.values[i] *= b.values[i];
  }
  return out;
}

/// Window means where the window lies wholly inside: [height, width] -> [height - 10, width - 10].
Plane window_mean(const Plane& plane) {
  static const std::array<double, kWindow> weights = gaussian();
  Plane rows{plane.width - kWindow + 1, plane.height, {}};
  for (int y = 0; y < rows.height; ++y) {
    for (int x = 0; x < rows.width; ++x) {
      double sum = 0.0;
      for (int k = 0; k < kWindow; ++k) {
        sum += weights[static_cast<std::size_t>(k)] *
               plane.values[static_cast<std::size_t>(y) * plane.width + x + k];
      }
      rows.values.push_back(sum);
    }
  }
  Plane out{rows.width, rows.height - kWindow + 1, {}};
  for (int y = 0; y < out.height; ++y) {
    for (int x = 0; x < out.width; ++x) {
      double sum = 0.0;
      for (int k = 0; k < kWindow; ++k) {
        sum += weights[static_cast<std::size_t>(k)] *
               rows.values[static_cast<std::size_t>(y + k) * rows.width + x];
      }
      out.values.push_back(sum);
    }
  }
  return out;
}

double ssim_of_planes(const Plane& x, const Plane& y) {
  // mu_x, mu_y, sigma_x^2, sigma_y^2, sigma_xy as in Wang et al. 2004, eq. 13 to 16
  constexpr double kC1 = (0.01 * 255) * (0.01 * 255);
  constexpr double kC2 = (0.03 * 255) * (0.03 * 255);
  const Plane mu_x = window_mean(x);
  const Plane mu_y = window_mean(y);
  const Plane xx = window_mean(product(x, x));
  const Plane yy = window_mean(product(y, y));
  const Plane xy = window_mean(product(x, y));
  double sum = 0.0;
  for (std::size_t i = 0; i < mu_x.values.size(); ++i) {
    const double mx = mu_x.values[i];
    const double my = mu_y.values[i];
    const double sigma_xx = xx.values[i] - mx * mx;
    const double sigma_yy = yy.values[i] - my * my;
    const double sigma_xy = xy.values[i] - mx * my;
    sum += (2 * mx * my + kC1) * (2 * sigma_xy + kC2) /
           ((mx * mx + my * my + kC1) * (sigma_xx + sigma_yy + kC2));
  }
  return sum / static_cast<double>(mu_x.values.size());
}

}  // namespace

Image luma(const Image& image) {
  Image out(image.width, image.height, 1);
  out.whole_numbers = false;
  const std::size_t pixels = out.values.size();
  const auto step = static_cast<std::size_t>(image.channels);
  for (std::size_t i = 0; i < pixels; ++i) {
    const double red = image.values[i * step];
    const double green = image.values[i * step + (step == 3 ? 1 : 0)];
    const double blue = image.values[i * step + (step == 3 ? 2 : 0)];
    out.values[i] = static_cast<float>(16.0 + (65.481 * red + 128.553 * green + 24.966 * blue) / 255.0);
  }
  return out;
}

double psnr(const Image& reference, const Image& candidate, int border) {
  const auto [a, b] = inner(reference, candidate, border);
  return decibels(a, b);
}

double psnr_y(const Image& reference, const Image& candidate, int border) {
  const auto [a, b] = inner(reference, candidate, border);
  return decibels(luma(a), luma(b));
}

double ssim(const Image& reference, const Image& candidate, int border) {
  const auto [a, b] = inner(reference, candidate, border);
  if (std::min(a.width, a.height) < kWindow) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("SSIM needs images of at least 11 x 11 pixels, got {} x {}", a.width, a.height));
  }
  double sum = 0.0;
  for (int c = 0; c < a.channels; ++c) {
    sum += ssim_of_planes(plane_of(a, c), plane_of(b, c));
  }
  return sum / a.channels;
}

double ssim_y(const Image& reference, const Image& candidate, int border) {
  return ssim(luma(reference), luma(candidate), border);
}

}  // namespace tempera::quality
