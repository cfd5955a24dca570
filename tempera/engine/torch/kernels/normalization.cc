#include <numeric>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "tempera/engine/torch/kernels/compute.h"
#include "tempera/engine/torch/kernels/families.h"
#include "tempera/engine/torch/kernels/spatial.h"

namespace tempera::engine::aten {
namespace {

std::vector<std::int64_t> axes_from(std::int64_t first, std::int64_t rank) {
  std::vector<std::int64_t> axes(static_cast<std::size_t>(rank - first));
  std::iota(axes.begin(), axes.end(), first);
  return axes;
}

/// (x - mean) / sqrt(variance + epsilon), the variance being that of the population.
at::Tensor standardized(const at::Tensor& x, const std::vector<std::int64_t>& axes, double epsilon) {
  const at::Tensor centred = x - x.mean(axes, true);
  return centred * (centred.square().mean(axes, true) + epsilon).rsqrt();
}

/// y = (x - mean) / sqrt(var + epsilon) scale + bias, with the given statistics or, in training mode, the
/// batch's.
void batch_normalization(KernelContext& context) {
  const at::Tensor& input = context.tensor(0);
  const at::Tensor x = widened(input);
  const std::int64_t rank = x.dim();
  const std::int64_t channel = rank > 1 ? 1 : 0;
  const auto by_channel = [&](const at::Tensor& t) {
    const at::Tensor wide = t.to(x.scalar_type());
    return rank > 1 ? along_axis(wide, channel, rank) : wide;
  };
  const double epsilon = context.real("epsilon", 1e-5F);
  at::Tensor mean = context.tensor(3);
  at::Tensor variance = context.tensor(4);
  const bool training =
      context.integer("training_mode", 0) != 0 || (context.opset() < 14 && context.wants(1));
  if (training) {
    std::vector<std::int64_t> axes = axes_from(0, rank);
    if (rank > 1) {
      axes.erase(axes.begin() + 1);
    }
    const double momentum = context.real("momentum", 0.9F);
    const at::Tensor batch_mean = x.mean(axes);
    const at::Tensor batch_variance = (x - by_channel(batch_mean)).square().mean(axes);
    const auto running = [&](const at::Tensor& old, const at::Tensor& batch) {
      return (widened(old) * momentum + batch.to(compute_type(old.scalar_type())) * (1.0 - momentum))
          .to(old.scalar_type());
    };
    context.set(1, running(mean, batch_mean));
    context.set(2, running(variance, batch_variance));
    mean = batch_mean;
    variance = batch_variance;
  }
  const at::Tensor inverse = (by_channel(variance) + epsilon).rsqrt();
  const at::Tensor y =
      (x - by_channel(mean)) * (inverse * by_channel(context.tensor(1))) + by_channel(context.tensor(2));
  context.set(0, y.to(input.scalar_type()));
}

/// Normalised over the spatial axes of each channel of each sample.
void instance_normalization(KernelContext& context) {
  const at::Tensor& x = context.tensor(0);
  if (x.dim() < 3) {
    context.fail(fmt::format("the input has rank {}, expected at least 3", x.dim()));
  }
  const at::Tensor normal = standardized(widened(x), axes_from(2, x.dim()), context.real("epsilon", 1e-5F));
  const at::Tensor y = normal * along_axis(widened(context.tensor(1)), 1, x.dim()) +
                       along_axis(widened(context.tensor(2)), 1, x.dim());
  context.set(0, y.to(x.scalar_type()));
}

/// x in the precision of the first stage, by ONNX type number: float32 unless stash_type says otherwise or x
/// is wider.
at::Tensor stashed(const KernelContext& context, const at::Tensor& x) {
  const std::int64_t stash = context.integer("stash_type", 1);
  if (x.scalar_type() == at::kDouble || stash == static_cast<std::int64_t>(DataType::kFloat64)) {
    return x.to(at::kDouble);
  }
  return x.to(at::kFloat);
}

/// Outputs: y, and the mean and inverse standard deviation in float32 (or wider).
void layer_normalization(KernelContext& context) {
  const at::Tensor& input = context.tensor(0);
  const std::int64_t first = context.axis(context.integer("axis", -1), input.dim());
  const std::vector<std::int64_t> axes = axes_from(first, input.dim());
  const at::Tensor x = stashed(context, input);
  const at::Tensor mean = x.mean(axes, true);
  const at::Tensor centred = x - mean;
  const at::Tensor inverse = (centred.square().mean(axes, true) + context.real("epsilon", 1e-5F)).rsqrt();
  // The first stage ends with a cast to the input's type, the second computes in that.
  at::Tensor y = widened((centred * inverse).to(input.scalar_type())) * widened(context.tensor(1));
  if (context.has(2)) {
    y = y.to(input.scalar_type());
    y = widened(y) + widened(context.tensor(2));
  }
  context.set(0, y.to(input.scalar_type()));
  context.set(1, mean);
  context.set(2, inverse);
}

/// y = x / sqrt(mean(x^2) + epsilon) scale: Zhang and Sennrich 2019, arXiv:1910.07467
void rms_normalization(KernelContext& context) {
  const at::Tensor& input = context.tensor(0);
  const std::int64_t first = context.axis(context.integer("axis", -1), input.dim());
  const at::Tensor x = stashed(context, input);
  const at::Tensor square = x.square().mean(axes_from(first, input.dim()), true);
  const at::Tensor normal = (x * (square + context.real("epsilon", 1e-5F)).rsqrt()).to(input.scalar_type());
  const at::Tensor& scale = context.tensor(1);
  context.set(0, (widened(normal) * widened(scale)).to(scale.scalar_type()));
}

/// Normalised over groups of channels together with the spatial axes: Wu and He 2018, arXiv:1803.08494
void group_normalization(KernelContext& context) {
  const at::Tensor& x = context.tensor(0);
  const std::int64_t groups = context.integer("num_groups", 0);
  if (x.dim() < 2 || groups < 1 || x.size(1) % groups != 0) {
    context.fail(fmt::format("{} groups do not divide the channels of an input of {}", groups,
                             graph::to_string(x.sizes())));
  }
  const at::Tensor grouped = stashed(context, x).reshape({x.size(0), groups, -1});
  const at::Tensor normal =
      standardized(grouped, {2}, context.real("epsilon", 1e-5F)).reshape(x.sizes()).to(x.scalar_type());
  const auto by_channel = [&](std::size_t i) {
    at::Tensor t = widened(context.tensor(i));
    if (context.opset() < 21) {  // one value a group then, one a channel since
      t = t.repeat_interleave(x.size(1) / groups);
    }
    return along_axis(t, 1, x.dim());
  };
  context.set(0, (widened(normal) * by_channel(1) + by_channel(2)).to(x.scalar_type()));
}

/// y = x / (bias + alpha / size sum of x^2 over `size` neighbouring channels)^beta: Krizhevsky et al. 2012
void lrn(KernelContext& context) {
  const at::Tensor& input = context.tensor(0);
  const std::int64_t size = context.integer("size", 0);
  if (input.dim() < 2 || size < 1) {
    context.fail("expected an input of rank 2 or more and a positive 'size'");
  }
  const at::Tensor x = widened(input);
  const std::int64_t channels = x.size(1);
  const Window window{channels, size, 1, 1, (size - 1) / 2, size - 1 - (size - 1) / 2, channels};
  const at::Tensor padded = pad_axis(x.square(), 1, window, 0);
  at::Tensor sum = tap(padded, 1, window, 0);
  for (std::int64_t k = 1; k < size; ++k) {
    sum = sum + tap(padded, 1, window, k);
  }
  const double alpha = context.real("alpha", 1e-4F);
  const at::Tensor divisor =
      (sum * (alpha / static_cast<double>(size)) + context.real("bias", 1.0)).pow(context.real("beta", 0.75));
  context.set(0, (x / divisor).to(input.scalar_type()));
}

/// y = x / |x|_p along an axis; 0 where the norm is 0.
void lp_normalization(KernelContext& context) {
  const at::Tensor& input = context.tensor(0);
  const std::int64_t axis = context.axis(context.integer("axis", -1), input.dim());
  const std::int64_t p = context.integer("p", 2);
  if (p != 1 && p != 2) {
    context.fail(fmt::format("attribute 'p' is {}, expected 1 or 2", p));
  }
  const at::Tensor x = widened(input);
  const at::Tensor norm = p == 1 ? x.abs().sum(axis, true) : x.square().sum(axis, true).sqrt();
  const at::Tensor divisor = at::where(norm.eq(0), at::ones({}, norm.options()), norm);
  context.set(0, (x / divisor).to(input.scalar_type()));
}

/// y = (x - mean) / (deviation + 1e-9) over the given axes, as the operator's own function body computes it.
void mean_variance_normalization(KernelContext& context) {
  const at::Tensor& input = context.tensor(0);
  std::vector<std::int64_t> axes =
      context.has_attribute("axes") ? context.integers("axes") : std::vector<std::int64_t>{0, 2, 3};
  for (std::int64_t& axis : axes) {
    axis = context.axis(axis, input.dim());
  }
  const at::Tensor x = widened(input);
  const at::Tensor mean = x.mean(axes, true);
  const at::Tensor variance = x.square().mean(axes, true) - mean.square();
  context.set(0, ((x - mean) / (variance.clamp_min(0).sqrt() + 1e-9)).to(input.scalar_type()));
}

constexpr Kernel kKernels[] = {
    {"BatchNormalization", batch_normalization}, {"InstanceNormalization", instance_normalization},
    {"LayerNormalization", layer_normalization}, {"RMSNormalization", rms_normalization},
    {"GroupNormalization", group_normalization}, {"LRN", lrn},
    {"LpNormalization", lp_normalization},       {"MeanVarianceNormalization", mean_variance_normalization},
};

}  // namespace

std::span<const Kernel> normalization_kernels() { return kKernels; }

}  // namespace tempera::engine::aten
