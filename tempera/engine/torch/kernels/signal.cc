#include <cmath>
#include <numbers>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "tempera/engine/torch/kernels/compute.h"
#include "tempera/engine/torch/kernels/families.h"

namespace tempera::engine::aten {
namespace {

/// [..., 1] real or [..., 2] real and imaginary to a complex tensor without that axis (or a real one).
at::Tensor to_complex(const KernelContext& context, const at::Tensor& x) {
  if (x.dim() < 2 || (x.size(-1) != 1 && x.size(-1) != 2)) {
    context.fail(
        fmt::format("expected a last axis of 1 (real) or 2 (complex), got {}", graph::to_string(x.sizes())));
  }
  return x.size(-1) == 1 ? x.squeeze(-1) : at::view_as_complex(x.contiguous());
}

std::int64_t positive_length(const KernelContext& context, std::int64_t length) {
  constexpr std::int64_t kLongest = std::int64_t{1} << 32;
  if (length < 1 || length > kLongest) {
    context.fail(fmt::format("a transform of length {}", length));
  }
  return length;
}

/// X_k = sum_n x_n e^(-2 pi i k n / N), or its inverse with 1 / N; `onesided` keeps k <= N / 2, and inverts
/// to reals. Computed in float64 and rounded once.
void dft(KernelContext& context) {
  const at::Tensor& input = context.tensor(0);
  const at::Tensor signal = to_complex(context, input.to(at::kDouble));
  const std::int64_t asked =
      context.has(2) ? context.scalar_int(2) : context.integer("axis", context.opset() < 20 ? 1 : -2);
  const std::int64_t axis = context.axis(asked, input.dim());
  if (axis >= signal.dim()) {
    context.fail("the transformed axis is the one that holds real and imaginary parts");
  }
  const bool inverse = context.integer("inverse", 0) != 0;
  const bool onesided = context.integer("onesided", 0) != 0;
  const std::int64_t natural = inverse && onesided ? 2 * (signal.size(axis) - 1) : signal.size(axis);
  const std::int64_t length = positive_length(context, context.has(1) ? context.scalar_int(1) : natural);
  at::Tensor y;
  if (inverse && onesided) {
    y = at::fft_irfft(signal, length, axis).unsqueeze(-1);
  } else if (inverse) {
    y = at::view_as_real(at::fft_ifft(signal, length, axis).resolve_conj());
  } else {
    const at::Tensor all = at::fft_fft(signal, length, axis);
    y = at::view_as_real((onesided ? all.slice(axis, 0, length / 2 + 1) : all).resolve_conj());
  }
  context.set(0, y.contiguous().to(input.scalar_type()));
}

/// signal [N, L, 1 or 2], frame_step, window [frame], frame_length -> [N, frames, bins, 2]
void stft(KernelContext& context) {
  const at::Tensor& input = context.tensor(0);
  if (input.dim() != 3 && input.dim() != 2) {
    context.fail(fmt::format("the signal has rank {}, expected 3", input.dim()));
  }
  const at::Tensor signal =
      to_complex(context, widened(input.dim() == 2 ? input.unsqueeze(-1) : input));  // [N, L]
  const std::int64_t step = context.scalar_int(1);
  const at::Tensor window = context.has(2) ? widened(context.tensor(2)) : at::Tensor();
  const std::int64_t frame = positive_length(context, context.has(3)     ? context.scalar_int(3)
                                                      : window.defined() ? window.numel()
                                                                         : signal.size(1));
  if (step < 1 || frame > signal.size(1) ||
      (window.defined() && (window.dim() != 1 || window.numel() != frame))) {
    context.fail(fmt::format("frames of {} every {} with a window of {} do not fit a signal of {}", frame,
                             step, window.defined() ? window.numel() : frame, signal.size(1)));
  }
  at::Tensor frames = signal.unfold(1, frame, step);  // [N, frames, frame]
  if (window.defined()) {
    frames = frames * window;
  }
  at::Tensor spectrum = at::fft_fft(frames, std::nullopt, 2);
  if (context.integer("onesided", 1) != 0) {
    spectrum = spectrum.slice(2, 0, frame / 2 + 1);
  }
  context.set(0, at::view_as_real(spectrum.resolve_conj()).contiguous().to(input.scalar_type()));
}

DataType output_type(const KernelContext& context) {
  const std::int64_t number = context.integer("output_datatype", 1);
  if (!numeric::is_known(static_cast<int>(number)) ||
      number == static_cast<std::int64_t>(DataType::kString)) {
    context.fail(fmt::format("attribute 'output_datatype' is {}, which names no number type", number));
  }
  return static_cast<DataType>(number);
}

/// w_n = a0 - a1 cos(2 pi n / N) + a2 cos(4 pi n / N), with N = size, or size - 1 when not periodic.
void cosine_window(KernelContext& context, double a0, double a1, double a2) {
  const std::int64_t size = context.scalar_int(0);
  if (size < 0) {
    context.fail(fmt::format("a window of size {}", size));
  }
  const std::int64_t period = context.integer("periodic", 1) != 0 ? size : size - 1;
  const at::TensorOptions options = at::TensorOptions(at::kDouble).device(context.device());
  at::Tensor window = at::ones({size}, options);  // of size 1, not periodic: the peak alone
  if (period > 0) {
    const at::Tensor angle = at::arange(size, options) * (2 * std::numbers::pi / static_cast<double>(period));
    window = a0 - a1 * angle.cos() + a2 * (2 * angle).cos();
  }
  const DataType type = output_type(context);
  context.set(0, wrap(window.to(carrier(type)), type), type);
}

void hann_window(KernelContext& context) { cosine_window(context, 0.5, 0.5, 0.0); }
void hamming_window(KernelContext& context) { cosine_window(context, 25.0 / 46.0, 21.0 / 46.0, 0.0); }
void blackman_window(KernelContext& context) { cosine_window(context, 0.42, 0.5, 0.08); }

/// Triangles over the bins of a spectrum whose corners are spaced evenly in mel = 2595 log10(1 + f / 700), f
/// in Hz.
///
/// num_mel_bins, dft_length, sample_rate [Hz], lower and upper edge [Hz] -> [dft_length / 2 + 1,
/// num_mel_bins]
void mel_weight_matrix(KernelContext& context) {
  const std::int64_t mel_bins = context.scalar_int(0);
  const std::int64_t dft_length = context.scalar_int(1);
  const auto rate = static_cast<double>(context.scalar_int(2));
  const std::int64_t spectrum_bins = dft_length / 2 + 1;
  constexpr std::int64_t kMost = std::int64_t{1} << 24;
  if (mel_bins < 1 || mel_bins > kMost || dft_length < 1 || dft_length > kMost || !(rate > 0)) {
    context.fail(fmt::format("{} mel bins of a transform of length {} at {} Hz", mel_bins, dft_length, rate));
  }
  const auto mel_of = [](double hertz) { return 2595.0 * std::log10(1.0 + hertz / 700.0); };
  const double low = mel_of(context.scalar(3));
  const double step = (mel_of(context.scalar(4)) - low) / static_cast<double>(mel_bins + 2);
  std::vector<std::int64_t> corners;
  for (std::int64_t i = 0; i < mel_bins + 2; ++i) {
    const double hertz = 700.0 * (std::pow(10.0, (low + static_cast<double>(i) * step) / 2595.0) - 1.0);
    const double bin = std::floor(static_cast<double>(dft_length + 1) * hertz / rate);
    if (!(bin >= 0 && bin < static_cast<double>(spectrum_bins))) {
      context.fail(fmt::format("the edge {} Hz lies outside the spectrum", hertz));
    }
    corners.push_back(static_cast<std::int64_t>(bin));
  }
  at::Tensor matrix = at::zeros({spectrum_bins, mel_bins}, at::kDouble);
  auto weight = matrix.accessor<double, 2>();
  for (std::int64_t m = 0; m < mel_bins; ++m) {
    const std::int64_t left = corners[static_cast<std::size_t>(m)];
    const std::int64_t centre = corners[static_cast<std::size_t>(m) + 1];
    const std::int64_t right = corners[static_cast<std::size_t>(m) + 2];
    for (std::int64_t bin = left; bin <= centre; ++bin) {
      weight[bin][m] =
          centre == left ? 1.0 : static_cast<double>(bin - left) / static_cast<double>(centre - left);
    }
    for (std::int64_t bin = centre; bin < right; ++bin) {
      weight[bin][m] = static_cast<double>(right - bin) / static_cast<double>(right - centre);
    }
  }
  const DataType type = output_type(context);
  context.set(0, wrap(matrix.to(context.device(), carrier(type)), type), type);
}

constexpr Kernel kKernels[] = {
    {"DFT", dft},
    {"STFT", stft},
    {"HannWindow", hann_window},
    {"HammingWindow", hamming_window},
    {"BlackmanWindow", blackman_window},
    {"MelWeightMatrix", mel_weight_matrix},
};

}  // namespace

std::span<const Kernel> signal_kernels() { return kKernels; }

}  // namespace tempera::engine::aten
