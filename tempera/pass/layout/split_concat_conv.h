#pragma once

#include "tempera/pass/pass.h"

namespace tempera::pass {

/// A convolution of joined channels becomes a sum of convolutions, and the joining goes.
///
///   Before:  y = Conv(Concat(a, b; axis 1), W, B)      After:  y = Add(Conv(a, W[:, 0:A], B), Conv(b, W[:, A:]))
///
/// With more than two parts the Adds stand in a row.
///
/// Fires when:  the target is "openvino"; every reader of the Concat is a two-dimensional convolution with one group and
///   constant float weights; the parts are at most 16 and have at least 64 channels together.
/// Must not fire when:  the Concat has another kind of reader, or is a graph output or captured: it would have to be made
///   anyway.
/// Formula:  sum over all input channels = sum over those of a + sum over those of b. The partial sum is rounded once more in
///   half precisions.
///
/// Why: OpenVINO 2026.4 adds the other sums inside the convolutions and saves the copy; long sums run below oneDNN's own
/// speed. Measured on U-Nets and a residual dense network.
PassResult split_concat_conv(graph::Graph& graph, const PassContext& context);

}  // namespace tempera::pass
