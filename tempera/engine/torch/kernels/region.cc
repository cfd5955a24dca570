#include <algorithm>
#include <cmath>
#include <numeric>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "tempera/engine/torch/kernels/compute.h"
#include "tempera/engine/torch/kernels/families.h"

namespace tempera::engine::aten {
namespace {

/// Regions of interest on the host. \throws Error{kBadModel} on coordinates that no image has
std::vector<double> regions_of(const KernelContext& context, const at::Tensor& rois) {
  constexpr double kFarthest = 1e6;  // keeps the sampling grids below what memory holds
  const at::Tensor host = rois.to(at::kCPU, at::kDouble).contiguous();
  const double* first = host.const_data_ptr<double>();
  std::vector<double> regions(first, first + host.numel());
  for (const double coordinate : regions) {
    if (!(std::abs(coordinate) <= kFarthest)) {
      context.fail(
          fmt::format("a region has the coordinate {}, expected at most {} in size", coordinate, kFarthest));
    }
  }
  return regions;
}

// -- RoiAlign
// --------------------------------------------------------------------------------------------------------

/// The two pixels that a coordinate of RoiAlign lies between along one axis, and their weights, which are 0
/// outside.
struct Line {
  at::Tensor low;
  at::Tensor high;
  at::Tensor low_weight;
  at::Tensor high_weight;
};

Line line_of(const std::vector<double>& coordinates, std::int64_t size, const at::Tensor& like) {
  std::vector<std::int64_t> low;
  std::vector<std::int64_t> high;
  std::vector<double> low_weight;
  std::vector<double> high_weight;
  for (const double coordinate : coordinates) {
    const bool outside = !(coordinate >= -1.0 && coordinate <= static_cast<double>(size));
    const double inside = outside ? 0.0 : std::clamp(coordinate, 0.0, static_cast<double>(size - 1));
    const auto first = static_cast<std::int64_t>(inside);
    const double ratio = inside - static_cast<double>(first);
    low.push_back(first);
    high.push_back(std::min(first + 1, size - 1));
    low_weight.push_back(outside ? 0.0 : 1.0 - ratio);
    high_weight.push_back(outside ? 0.0 : ratio);
  }
  const auto integers = [&](const std::vector<std::int64_t>& v) {
    return at::tensor(v, at::kLong).to(like.device());
  };
  const auto weights = [&](const std::vector<double>& v) {
    return at::tensor(v, at::kDouble).to(like.device(), like.scalar_type());
  };
  return {integers(low), integers(high), weights(low_weight), weights(high_weight)};
}

/// Positions of `count` samples in each of `bins` bins.
std::vector<double> sample_positions(double start, double bin, std::int64_t bins, std::int64_t count) {
  std::vector<double> positions;
  for (std::int64_t b = 0; b < bins; ++b) {
    for (std::int64_t i = 0; i < count; ++i) {
      positions.push_back(start + static_cast<double>(b) * bin +
                          (static_cast<double>(i) + 0.5) * bin / static_cast<double>(count));
    }
  }
  return positions;
}

/// Average (or largest weighted pixel) of bilinear samples in each bin of each region: He et al. 2017,
/// arXiv:1703.06870.
///
/// X [N, C, H, W], rois [R, 4] as x1, y1, x2, y2, batch_indices [R] -> [R, C, output_height, output_width]
void roi_align(KernelContext& context) {
  const at::Tensor& input = context.tensor(0);
  const at::Tensor x = widened(input);
  const at::Tensor& rois = context.tensor(1);
  const std::vector<std::int64_t> batch = context.ints(2);
  if (x.dim() != 4 || rois.dim() != 2 || rois.size(1) != 4 ||
      rois.size(0) != static_cast<std::int64_t>(batch.size())) {
    context.fail("expected X [N, C, H, W], rois [R, 4] and batch_indices [R]");
  }
  const std::int64_t out_height = context.integer("output_height", 1);
  const std::int64_t out_width = context.integer("output_width", 1);
  const std::int64_t sampling_ratio = context.integer("sampling_ratio", 0);
  const double scale = context.real("spatial_scale", 1.0);
  // The attribute came with opset 16; before, corners were pixel centres.
  const bool half_pixel =
      context.text("coordinate_transformation_mode",
                   context.opset() < 16 ? "output_half_pixel" : "half_pixel") == "half_pixel";
  const bool average = context.text("mode", "avg") == "avg";
  const std::vector<double> corners = regions_of(context, rois);
  std::vector<at::Tensor> results;
  for (std::size_t r = 0; r < batch.size(); ++r) {
    if (batch[r] < 0 || batch[r] >= x.size(0)) {
      context.fail(
          fmt::format("batch index {} of region {} lies outside the batch of {}", batch[r], r, x.size(0)));
    }
    const double shift = half_pixel ? 0.5 : 0.0;
    const double left = corners[4 * r] * scale - shift;
    const double top = corners[4 * r + 1] * scale - shift;
    double width = corners[4 * r + 2] * scale - shift - left;
    double height = corners[4 * r + 3] * scale - shift - top;
    if (!half_pixel) {
      width = std::max(width, 1.0);
      height = std::max(height, 1.0);
    }
    const double bin_height = height / static_cast<double>(out_height);
    const double bin_width = width / static_cast<double>(out_width);
    const auto samples = [&](double bin) {
      return sampling_ratio > 0 ? sampling_ratio : static_cast<std::int64_t>(std::ceil(bin));
    };
    const std::int64_t rows = samples(bin_height);
    const std::int64_t columns = samples(bin_width);
    constexpr double kMostSamples = 1e9;
    if (static_cast<double>(rows) * static_cast<double>(columns) *
            static_cast<double>(out_height * out_width) >
        kMostSamples) {
      context.fail(fmt::format("region {} takes {} x {} samples a bin", r, rows, columns));
    }
    if (rows <= 0 || columns <= 0) {
      results.push_back(at::zeros({x.size(1), out_height, out_width}, x.options()));
      continue;
    }
    const at::Tensor image = x.select(0, batch[r]);  // [C, H, W]
    const Line y = line_of(sample_positions(top, bin_height, out_height, rows), x.size(2), x);
    const Line z = line_of(sample_positions(left, bin_width, out_width, columns), x.size(3), x);
    const at::Tensor upper = image.index_select(1, y.low) * y.low_weight.unsqueeze(1);
    const at::Tensor lower = image.index_select(1, y.high) * y.high_weight.unsqueeze(1);
    const auto at_left = [&](const at::Tensor& t) { return t.index_select(2, z.low) * z.low_weight; };
    const auto at_right = [&](const at::Tensor& t) { return t.index_select(2, z.high) * z.high_weight; };
    const std::vector<std::int64_t> binned = {x.size(1), out_height, rows, out_width, columns};
    if (average) {
      const at::Tensor pixels = upper + lower;
      results.push_back((at_left(pixels) + at_right(pixels)).reshape(binned).mean(at::IntArrayRef{2, 4}));
    } else {
      const at::Tensor largest = at::maximum(at::maximum(at_left(upper), at_right(upper)),
                                             at::maximum(at_left(lower), at_right(lower)));
      results.push_back(at::amax(largest.reshape(binned), {2, 4}));
    }
  }
  const at::Tensor y =
      results.empty() ? at::zeros({0, x.size(1), out_height, out_width}, x.options()) : at::stack(results);
  context.set(0, y.to(input.scalar_type()));
}

// -- MaxRoiPool
// ------------------------------------------------------------------------------------------------------

/// Largest pixel in each bin of each region, whose corners are rounded to pixels: Girshick 2015,
/// arXiv:1504.08083.
///
/// X [N, C, H, W], rois [R, 5] as batch, x1, y1, x2, y2 -> [R, C, pooled...]
void max_roi_pool(KernelContext& context) {
  const at::Tensor& x = context.tensor(0);
  const at::Tensor& rois = context.tensor(1);
  const std::vector<std::int64_t> pooled = context.integers("pooled_shape");
  if (x.dim() != 4 || rois.dim() != 2 || rois.size(1) != 5 || pooled.size() != 2 || pooled[0] < 1 ||
      pooled[1] < 1) {
    context.fail("expected X [N, C, H, W], rois [R, 5] and a pooled_shape of two");
  }
  const double scale = context.real("spatial_scale", 1.0);
  const std::vector<double> regions = regions_of(context, rois);
  std::vector<at::Tensor> results;
  for (std::int64_t r = 0; r < rois.size(0); ++r) {
    const double* region = &regions[static_cast<std::size_t>(5 * r)];
    const auto batch = static_cast<std::int64_t>(region[0]);
    if (batch < 0 || batch >= x.size(0)) {
      context.fail(
          fmt::format("batch index {} of region {} lies outside the batch of {}", batch, r, x.size(0)));
    }
    // First and one past the last pixel of bin b along an axis of the image.
    const auto range = [&](std::int64_t axis, std::int64_t b) {
      const auto first = static_cast<std::int64_t>(std::round(region[axis == 2 ? 2 : 1] * scale));
      const auto last = static_cast<std::int64_t>(std::round(region[axis == 2 ? 4 : 3] * scale));
      const double bin = static_cast<double>(std::max<std::int64_t>(last - first + 1, 1)) /
                         static_cast<double>(pooled[static_cast<std::size_t>(axis - 2)]);
      const auto clip = [&](double place) {
        return std::clamp<std::int64_t>(static_cast<std::int64_t>(place) + first, 0, x.size(axis));
      };
      return std::pair(clip(std::floor(static_cast<double>(b) * bin)),
                       clip(std::ceil(static_cast<double>(b + 1) * bin)));
    };
    const at::Tensor image = x.select(0, batch);
    std::vector<at::Tensor> bins;
    for (std::int64_t i = 0; i < pooled[0]; ++i) {
      const auto [top, bottom] = range(2, i);
      for (std::int64_t j = 0; j < pooled[1]; ++j) {
        const auto [left, right] = range(3, j);
        const bool empty = bottom <= top || right <= left;
        bins.push_back(empty ? at::zeros({x.size(1)}, x.options())
                             : at::amax(image.slice(1, top, bottom).slice(2, left, right), {1, 2}));
      }
    }
    results.push_back(at::stack(bins, 1).reshape({x.size(1), pooled[0], pooled[1]}));
  }
  context.set(
      0, results.empty() ? at::zeros({0, x.size(1), pooled[0], pooled[1]}, x.options()) : at::stack(results));
}

// -- NonMaxSuppression
// -----------------------------------------------------------------------------------------------

struct Box {
  float top, left, bottom, right;
  [[nodiscard]] float area() const { return (bottom - top) * (right - left); }
};

Box box_of(const float* four, bool centre) {
  if (centre) {  // x centre, y centre, width, height
    return {four[1] - four[3] / 2, four[0] - four[2] / 2, four[1] + four[3] / 2, four[0] + four[2] / 2};
  }
  return {std::min(four[0], four[2]), std::min(four[1], four[3]), std::max(four[0], four[2]),
          std::max(four[1], four[3])};
}

/// Intersection over union; 0 when both boxes are empty.
float overlap(const Box& a, const Box& b) {
  const float height = std::min(a.bottom, b.bottom) - std::max(a.top, b.top);
  const float width = std::min(a.right, b.right) - std::max(a.left, b.left);
  if (height <= 0 || width <= 0) {
    return 0;
  }
  const float both = height * width;
  const float either = a.area() + b.area() - both;
  return either > 0 ? both / either : 0;
}

/// Greedily keeps the boxes of highest score that overlap none kept before by more than the threshold.
///
/// boxes [N, B, 4], scores [N, classes, B], max_output_boxes_per_class, iou_threshold, score_threshold
/// -> [kept, 3] as batch, class, box
void non_max_suppression(KernelContext& context) {
  const at::Tensor boxes = context.tensor(0).to(at::kCPU, at::kFloat).contiguous();
  const at::Tensor scores = context.tensor(1).to(at::kCPU, at::kFloat).contiguous();
  if (boxes.dim() != 3 || boxes.size(2) != 4 || scores.dim() != 3 || scores.size(0) != boxes.size(0) ||
      scores.size(2) != boxes.size(1)) {
    context.fail(fmt::format("boxes {} and scores {}, expected [N, B, 4] and [N, classes, B]",
                             graph::to_string(boxes.sizes()), graph::to_string(scores.sizes())));
  }
  const auto most =
      static_cast<std::size_t>(context.has(2) ? std::max<std::int64_t>(0, context.scalar_int(2)) : 0);
  const auto threshold = static_cast<float>(context.has(3) ? context.scalar(3) : 0.0);
  const bool centre = context.integer("center_point_box", 0) != 0;
  const std::int64_t count = boxes.size(1);
  std::vector<std::int64_t> kept;
  for (std::int64_t n = 0; n < boxes.size(0); ++n) {
    std::vector<Box> corners;
    for (std::int64_t i = 0; i < count; ++i) {
      corners.push_back(box_of(boxes.const_data_ptr<float>() + (n * count + i) * 4, centre));
    }
    for (std::int64_t c = 0; c < scores.size(1); ++c) {
      const float* score = scores.const_data_ptr<float>() + (n * scores.size(1) + c) * count;
      std::vector<std::int64_t> order;
      for (std::int64_t i = 0; i < count; ++i) {
        if (!std::isnan(score[i]) && (!context.has(4) || static_cast<double>(score[i]) > context.scalar(4))) {
          order.push_back(i);
        }
      }
      std::stable_sort(order.begin(), order.end(),
                       [score](std::int64_t a, std::int64_t b) { return score[a] > score[b]; });
      std::vector<std::int64_t> chosen;
      for (const std::int64_t i : order) {
        if (chosen.size() >= most) {
          break;
        }
        const auto covers = [&](std::int64_t j) {
          return overlap(corners[static_cast<std::size_t>(i)], corners[static_cast<std::size_t>(j)]) >
                 threshold;
        };
        if (std::none_of(chosen.begin(), chosen.end(), covers)) {
          chosen.push_back(i);
          kept.insert(kept.end(), {n, c, i});
        }
      }
    }
  }
  const auto rows = static_cast<std::int64_t>(kept.size() / 3);
  context.set(0, at::tensor(kept, at::kLong).reshape({rows, 3}).to(context.device()));
}

constexpr Kernel kKernels[] = {
    {"RoiAlign", roi_align},
    {"MaxRoiPool", max_roi_pool},
    {"NonMaxSuppression", non_max_suppression},
};

}  // namespace

std::span<const Kernel> region_kernels() { return kKernels; }

}  // namespace tempera::engine::aten
