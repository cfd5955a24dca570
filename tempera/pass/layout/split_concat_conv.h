#pragma once

#include "tempera/pass/pass.h"

namespace tempera::pass {

/// A convolution of joined channels becomes the sum of two convolutions, and the joining goes.
///
///   Before:  y = Conv(Concat(a, b; axis 1), W, B)      After:  y = Add(Conv(a, W[:, 0:A], B), Conv(b, W[:, A:]))
///
/// Fires when:  the target is "openvino"; every reader of the Concat is a convolution with one group and constant float
///   weights; two parts, of at least 32 channels each, together at least 128.
/// Must not fire when:  the Concat has another kind of reader, or is a graph output or captured: it would have to be made
///   anyway.
/// Formula:  sum over all input channels = sum over those of a + sum over those of b. The partial sum is rounded once more in
///   half precisions.
///
/// Why: OpenVINO 2026.4 adds the second sum inside the convolution and saves the copy; long sums run below oneDNN's own speed.
PassResult split_concat_conv(graph::Graph& graph, const PassContext& context);

}  // namespace tempera::pass
