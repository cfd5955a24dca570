#include "tempera/engine/torch/kernels/spatial.h"

#include <algorithm>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "tempera/base/error.h"

namespace tempera::engine::aten {

std::vector<std::int64_t> list_attribute(std::vector<std::int64_t> given, std::size_t count,
                                         std::int64_t fallback, std::int64_t lowest, std::string_view name) {
  if (given.empty()) {
    return std::vector<std::int64_t>(count, fallback);
  }
  if (given.size() != count) {
    throw Error(ErrorCode::kBadModel,
                fmt::format("attribute '{}' has {} values, expected {}", name, given.size(), count));
  }
  for (const std::int64_t value : given) {
    if (value < lowest || value > kLongestAxis) {
      throw Error(ErrorCode::kBadModel,
                  fmt::format("attribute '{}' has the value {}, expected one in [{}, {}]", name, value,
                              lowest, kLongestAxis));
    }
  }
  return given;
}

std::vector<Window> windows(std::span<const std::int64_t> in, std::span<const std::int64_t> kernel,
                            const WindowOptions& options) {
  const std::size_t axes = in.size();
  if (kernel.size() != axes) {
    throw Error(ErrorCode::kBadModel,
                fmt::format("the kernel has {} axes, the input {} spatial ones", kernel.size(), axes));
  }
  const auto strides = list_attribute(options.strides, axes, 1, 1, "strides");
  const auto dilations = list_attribute(options.dilations, axes, 1, 1, "dilations");
  const bool explicit_pads = options.auto_pad.empty() || options.auto_pad == "NOTSET";
  const bool same = options.auto_pad == "SAME_UPPER" || options.auto_pad == "SAME_LOWER";
  if (!explicit_pads && !same && options.auto_pad != "VALID") {
    throw Error(ErrorCode::kBadModel,
                fmt::format("attribute 'auto_pad' is '{}', expected NOTSET, VALID, SAME_UPPER or "
                            "SAME_LOWER",
                            options.auto_pad));
  }
  // Negative pads crop; some exporters write them.
  const auto pads = list_attribute(explicit_pads ? options.pads : std::vector<std::int64_t>(), 2 * axes, 0,
                                   -kLongestAxis, "pads");

  std::vector<Window> result(axes);
  for (std::size_t i = 0; i < axes; ++i) {
    Window& w = result[i];
    w = {in[i], kernel[i], strides[i], dilations[i], pads[i], pads[axes + i], 0};
    if (w.kernel < 1 || w.kernel > kLongestAxis) {
      throw Error(ErrorCode::kBadModel,
                  fmt::format("the kernel has length {} on spatial axis {}", w.kernel, i));
    }
    if (same) {
      w.out = (w.in + w.stride - 1) / w.stride;
      const std::int64_t total = std::max<std::int64_t>(0, (w.out - 1) * w.stride + w.extent() - w.in);
      w.pad_begin = options.auto_pad == "SAME_UPPER" ? total / 2 : total - total / 2;
      w.pad_end = total - w.pad_begin;
      continue;
    }
    const std::int64_t room = w.in + w.pad_begin + w.pad_end - w.extent();
    if (room < 0) {
      throw Error(ErrorCode::kBadModel,
                  fmt::format("spatial axis {} has length {} after padding, shorter than the window's {}", i,
                              w.in + w.pad_begin + w.pad_end, w.extent()));
    }
    w.out = room / w.stride + 1;
    if (options.ceil_mode && room % w.stride != 0 && w.out * w.stride < w.in + w.pad_begin) {
      ++w.out;
    }
  }
  return result;
}

at::Tensor pad_axis(const at::Tensor& x, std::int64_t axis, const Window& window, const at::Scalar& value) {
  const std::int64_t needed = (window.out - 1) * window.stride + window.extent();
  const std::int64_t end = needed - window.in - window.pad_begin;
  if (window.pad_begin == 0 && end <= 0) {
    return x;  // tap() reads no further than it must
  }
  std::vector<std::int64_t> pads(2 * static_cast<std::size_t>(x.dim() - axis), 0);
  pads[pads.size() - 2] = window.pad_begin;
  pads[pads.size() - 1] = end;
  return at::constant_pad_nd(x, pads, value);
}

at::Tensor tap(const at::Tensor& padded, std::int64_t axis, const Window& window, std::int64_t k) {
  const std::int64_t begin = k * window.dilation;
  return padded.slice(axis, begin, begin + (window.out - 1) * window.stride + 1, window.stride);
}

}  // namespace tempera::engine::aten
