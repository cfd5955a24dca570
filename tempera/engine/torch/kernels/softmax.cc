#include <optional>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "tempera/engine/torch/kernels/compute.h"
#include "tempera/engine/torch/kernels/families.h"

namespace tempera::engine::aten {
namespace {

using AlongAxis = at::Tensor (*)(const at::Tensor& x, std::int64_t axis);

at::Tensor softmax(const at::Tensor& x, std::int64_t axis) { return at::softmax(x, axis); }
at::Tensor log_softmax(const at::Tensor& x, std::int64_t axis) { return at::log_softmax(x, axis); }

/// 1 at the first largest element along the axis, 0 elsewhere.
at::Tensor hardmax(const at::Tensor& x, std::int64_t axis) {
  const at::Tensor largest = at::argmax(x, axis, true);
  return at::zeros_like(x).scatter(axis, largest, 1.0);
}

/// Since opset 13 along one axis (the last by default); before, along all axes from the given one (1 by
/// default) on.
template <AlongAxis function>
void normalized_exponential(KernelContext& context) {
  const at::Tensor& x = context.tensor(0);
  if (context.opset() >= 13) {
    const std::int64_t axis = x.dim() == 0 ? 0 : context.axis(context.integer("axis", -1), x.dim());
    context.set(0, function(widened(x), axis).to(x.scalar_type()));
    return;
  }
  const std::int64_t axis = context.axis(context.integer("axis", 1), x.dim());
  const at::Tensor rows = widened(x).flatten(axis);
  context.set(0, function(rows, axis).reshape(x.sizes()).to(x.scalar_type()));
}

/// loss[n, d...] = -weight[c] input[n, c, d...] with c = target[n, d...], 0 where c is `ignored`; then
/// reduced.
///
/// \param log_probabilities  [N, C, d...]
/// \param target             [N, d...]
/// \param weight             [C] or undefined
at::Tensor negative_log_likelihood(const KernelContext& context, const at::Tensor& log_probabilities,
                                   const at::Tensor& target, const at::Tensor& weight) {
  if (log_probabilities.dim() < 2 || target.dim() != log_probabilities.dim() - 1) {
    context.fail(fmt::format("the input has rank {} and the target rank {}, expected one less",
                             log_probabilities.dim(), target.dim()));
  }
  const std::optional<std::int64_t> ignored = context.attribute<std::int64_t>("ignore_index");
  const at::Tensor classes = target.to(at::kLong);
  const at::Tensor kept = ignored ? classes.ne(*ignored) : at::ones_like(classes, at::kBool);
  const at::Tensor safe = at::where(kept, classes, at::zeros({}, classes.options()));
  const std::int64_t class_count = log_probabilities.size(1);
  if (safe.numel() > 0 && (safe.min().item().toLong() < 0 || safe.max().item().toLong() >= class_count)) {
    context.fail(fmt::format("a target lies outside the {} classes", class_count));
  }
  at::Tensor sample_weight = kept.to(log_probabilities.scalar_type());
  if (weight.defined()) {
    sample_weight = sample_weight * weight.index_select(0, safe.flatten()).reshape(safe.sizes());
  }
  const at::Tensor chosen = log_probabilities.gather(1, safe.unsqueeze(1)).squeeze(1);
  // A masked log probability may be -infinity, which times 0 would be NaN.
  const at::Tensor loss = at::where(kept, -chosen * sample_weight, at::zeros({}, chosen.options()));
  const std::string reduction = context.text("reduction", "mean");
  if (reduction == "none") {
    return loss;
  }
  if (reduction == "sum") {
    return loss.sum();
  }
  if (reduction != "mean") {
    context.fail(fmt::format("attribute 'reduction' is '{}', expected none, sum or mean", reduction));
  }
  return loss.sum() / sample_weight.sum();
}

at::Tensor class_weight(const KernelContext& context) {
  return context.has(2) ? widened(context.tensor(2)) : at::Tensor();
}

void negative_log_likelihood_loss(KernelContext& context) {
  const at::Tensor& x = context.tensor(0);
  context.set(0, negative_log_likelihood(context, widened(x), context.tensor(1), class_weight(context))
                     .to(x.scalar_type()));
}

void softmax_cross_entropy_loss(KernelContext& context) {
  const at::Tensor& scores = context.tensor(0);
  const at::Tensor log_probabilities = at::log_softmax(widened(scores), 1);
  context.set(0, negative_log_likelihood(context, log_probabilities, context.tensor(1), class_weight(context))
                     .to(scores.scalar_type()));
  context.set(1, log_probabilities.to(scores.scalar_type()));
}

constexpr Kernel kKernels[] = {
    {"Softmax", normalized_exponential<softmax>},
    {"LogSoftmax", normalized_exponential<log_softmax>},
    {"Hardmax", normalized_exponential<hardmax>},
    {"NegativeLogLikelihoodLoss", negative_log_likelihood_loss},
    {"SoftmaxCrossEntropyLoss", softmax_cross_entropy_loss},
};

}  // namespace

std::span<const Kernel> softmax_kernels() { return kKernels; }

}  // namespace tempera::engine::aten
