#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>

namespace tempera::engine::aten {

/// No stride, pad, kernel or resized axis is longer, so that sums and products of two fit 64 bits.
constexpr std::int64_t kLongestAxis = (std::int64_t{1} << 31) - 1;

/// An attribute with one value for each of `count` axes; `fallback` for all when it is left out.
/// \throws Error{kBadModel} on another number of values, or one outside [lowest, kLongestAxis]
std::vector<std::int64_t> list_attribute(std::vector<std::int64_t> given, std::size_t count,
                                         std::int64_t fallback, std::int64_t lowest, std::string_view name);

/// How a window slides along one spatial axis.
///
///   position of tap k of output o in the unpadded input = o stride - pad_begin + k dilation
struct Window {
  std::int64_t in = 0;  ///< length of the input axis
  std::int64_t kernel = 1;
  std::int64_t stride = 1;
  std::int64_t dilation = 1;
  std::int64_t pad_begin = 0;
  std::int64_t pad_end = 0;
  std::int64_t out = 0;  ///< number of windows

  [[nodiscard]] std::int64_t extent() const { return (kernel - 1) * dilation + 1; }
};

/// The attributes that Conv and the pooling operators share, empty lists standing for their defaults.
struct WindowOptions {
  std::string auto_pad = "NOTSET";
  std::vector<std::int64_t> strides;
  std::vector<std::int64_t> dilations;
  std::vector<std::int64_t> pads;  ///< begins of all axes, then ends
  bool ceil_mode = false;
};

/// One window for each axis of `in`.
///
///   NOTSET      out = floor((in + pads - extent) / stride) + 1, with ceil in ceil_mode, where a last window
///   that would
///               begin in the end padding is dropped
///   VALID       the same without padding
///   SAME_*      out = ceil(in / stride), the padding that takes split in halves, the odd one at the end
///   (UPPER) or begin
///
/// \param in      lengths of the spatial axes
/// \param kernel  as many
/// \throws Error{kBadModel} on lists of the wrong length, a stride, dilation or kernel below 1, or a window
/// longer than
///         the padded axis
///
/// Source: ONNX Conv-22, MaxPool-22.
std::vector<Window> windows(std::span<const std::int64_t> in, std::span<const std::int64_t> kernel,
                            const WindowOptions& options);

/// Pads (or crops) `axis` so that it holds exactly what the windows read.
at::Tensor pad_axis(const at::Tensor& x, std::int64_t axis, const Window& window, const at::Scalar& value);

/// Elements that tap `k` of each window reads: [..., in padded, ...] -> [..., out, ...]. A view.
at::Tensor tap(const at::Tensor& padded, std::int64_t axis, const Window& window, std::int64_t k);

}  // namespace tempera::engine::aten
