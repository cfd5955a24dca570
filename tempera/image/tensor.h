#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tempera/graph/tensor.h"
#include "tempera/image/image.h"

namespace tempera::image {

enum class Layout : std::uint8_t { kNchw, kNhwc };
enum class ChannelOrder : std::uint8_t { kRgb, kBgr, kGrey };

/// How pixel values become tensor values and back:
///
///   r = low + p / 255 (high - low)          p: pixel 0..255
///   x = (r - mean[c]) / std[c]
struct PixelFormat {
  Layout layout = Layout::kNchw;
  ChannelOrder channels = ChannelOrder::kRgb;
  double low = 0.0;
  double high = 1.0;
  std::vector<double>
      mean;  ///< empty: 0; one number for all channels, or one each, in the tensor's channel order
  std::vector<double> std;  ///< empty: 1; likewise; none is 0
};

/// float32 [1, C, H, W] or [1, H, W, C].
[[nodiscard]] graph::Tensor to_tensor(const Image& image, const PixelFormat& format);

/// Image number `n` of a batch; values beyond the range are clipped, NaN becomes black. The result is not
/// rounded.
///
/// \param tensor  any real type, [N, C, H, W], [N, H, W, C] or one image without N; C as the channel order
/// says
[[nodiscard]] Image from_tensor(const graph::Tensor& tensor, const PixelFormat& format, std::int64_t n = 0);

}  // namespace tempera::image
